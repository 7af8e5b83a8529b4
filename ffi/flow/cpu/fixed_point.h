// Quantisation: expresses capacities of any type as whole numbers of a unit, so that solvers use
// integers only.
#ifndef JAXMATCH_FLOW_CPU_FIXED_POINT_H_
#define JAXMATCH_FLOW_CPU_FIXED_POINT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "common/status.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

// for_each_edge_out() calls f(k) for every edge k out of the node `from`, for_each_edge_into() for
// every edge k into the node `to`.
template <class F>
void for_each_edge_out(const FlowNetworkCsr& g, int32_t from, F f) {
  for (int32_t k = g.edge_ptr[g.arc_ptr[from]]; k < g.edge_ptr[g.arc_ptr[from + 1]]; ++k) {
    f(g.arc_edge[k]);
  }
}
template <class F>
void for_each_edge_into(const FlowNetworkCsr& g, int32_t to, F f) {
  for (int32_t a = g.arc_ptr[to]; a < g.arc_ptr[to + 1]; ++a) {
    const int32_t in = g.reverse_arc[a];
    for (int32_t k = g.edge_ptr[in]; k < g.edge_ptr[in + 1]; ++k) f(g.arc_edge[k]);
  }
}

// For integers the unit is 1. For floats it is the greatest power of two that divides all
// capacities, if no flow can then exceed 2^60 units. Otherwise it is the smallest power of two for
// which no flow can exceed 2^60 units, and capacities are rounded down to whole units. Flows in
// whole units are conserved exactly.
//
// The bound on every flow is the smallest of three numbers: the sum of capacities out of the
// source, the sum into the sink, and the capacity of a cut that an earlier solve has found. A
// capacity above the bound counts as bound + 1: such an arc is never full, so minimum cuts do not
// change. For integers the sums saturate at 2^61, and a flow that reaches this limit is an
// overflow.
//
// For floats the bound may be far above the maximum flow, if large capacities at both terminals
// stand for "no limit". Then the unit is too coarse, and `is_fine` rejects the answer. But the cut
// of this answer has far less capacity than the bound. It becomes the bound of the next solve,
// whose unit is finer.
template <class C>
class FixedPoint {
 public:
  // Wider than double: sums of the largest doubles overflow a double.
  using Wide = long double;

  // `known`: the capacity of a cut that an earlier solve has found, or infinity. Returns kOptimal
  // if the capacities are valid.
  Status choose(const FlowNetworkCsr& g, const C* capacity, int32_t source, int32_t sink,
                Wide known) {
    int least_bit = 0;
    if (!are_valid(g, capacity, least_bit)) return kInvalidCapacity;
    if constexpr (std::is_floating_point_v<C>) {
      choose_unit(g, capacity, source, sink, known, least_bit);
    }
    most_ = kTooMuch;
    int64_t out = 0, in = 0;
    for_each_edge_out(g, source, [&](int32_t k) { add(out, capacity[k]); });
    for_each_edge_into(g, sink, [&](int32_t k) { add(in, capacity[k]); });
    bound_ = std::min(out, in);
    largest_sum_ = std::max(out, in);
    if (is_unbounded_) {
      bound_ = 1;
      for (int32_t k = 0; k < g.edges; ++k) {
        if (is_finite(capacity[k])) add(bound_, capacity[k]);
      }
    }
    if constexpr (std::is_floating_point_v<C>) {
      // Slightly above the known cut, because its capacity and the conversion to units may be
      // rounded down.
      const Wide limit = std::ldexp(known, -exponent_) * (1 + Wide(0x1p-50)) + 1;
      if (limit < Wide(bound_)) bound_ = int64_t(limit);
    }
    most_ = bound_ + 1;
    return kOptimal;
  }

  // `cut` is the capacity of the minimum cut that was found. Returns true if the unit is fine
  // enough for it. For floats, the bound must be at most 2^9 times `cut`. As the unit is at most
  // 2^-59 of the bound, rounding then changes each capacity by at most 2^-50 * `cut`. If nothing is
  // rounded, the bound may be up to 2^20 times `cut`.
  bool is_fine(Wide cut) const {
    if constexpr (std::is_integral_v<C>) {
      return true;
    } else {
      return cut == 0 || greatest_ <= cut * (is_rounded_ ? 0x1p9 : 0x1p20);
    }
  }

  int64_t bound() const { return bound_; }
  // True for an integer flow that has reached the limit 2^61: the maximum flow may be larger.
  static bool overflows(int64_t flow) { return std::is_integral_v<C> && flow >= kTooMuch; }
  // The larger of two sums of capacities, out of the source and into the sink, in units; at most
  // 2^61.
  int64_t largest_sum() const { return largest_sum_; }
  // True if edges of infinite capacity leave the source and others enter the sink. Then bound()
  // exceeds the sum of all finite capacities, so a flow of bound() units implies an infinite
  // maximum flow.
  bool is_unbounded() const { return is_unbounded_; }

  int64_t units(C capacity) const {
    if constexpr (std::is_integral_v<C>) {
      return std::min<int64_t>(capacity, most_);
    } else {
      const double x = double(capacity) * scale_[0] * scale_[1];
      return std::min(x < double(kTooMuch) ? int64_t(x) : kTooMuch, most_);
    }
  }
  // Converts units to the type of capacities, rounded to nearest. The result never exceeds the
  // capacity of an edge that can carry these units.
  C flow(int64_t units) const {
    if constexpr (std::is_integral_v<C>) {
      return C(units);
    } else {
      return C(double(units) / scale_[1] / scale_[0]);
    }
  }

 private:
  static constexpr int64_t kTooMuch = int64_t{1} << 61;

  static bool is_finite(C c) { return c <= std::numeric_limits<C>::max(); }
  // Adds a capacity to a sum in units, which saturates at kTooMuch.
  void add(int64_t& sum, C capacity) const { sum = std::min(sum + units(capacity), kTooMuch); }

  // False if a capacity is negative or NaN. For floats it also sets `least_bit` to the exponent of
  // the lowest set bit among all capacities.
  static bool are_valid(const FlowNetworkCsr& g, const C* capacity, int& least_bit) {
    if constexpr (std::is_integral_v<C>) {
      C signs = 0;
      for (int32_t k = 0; k < g.edges; ++k) signs |= capacity[k];
      return signs >= 0;
    } else {
      least_bit = std::numeric_limits<int>::max();
      bool valid = true;
      for (int32_t k = 0; k < g.edges; ++k) {
        const double c = capacity[k];
        valid &= c >= 0;
        if (c > 0 && c <= std::numeric_limits<double>::max()) {
          least_bit = std::min(least_bit, lowest_bit(c));
        }
      }
      return valid;
    }
  }

  void choose_unit(const FlowNetworkCsr& g, const C* capacity, int32_t source, int32_t sink,
                   Wide known, int least_bit) {
    Wide out = 0, in = 0;
    for_each_edge_out(g, source, [&](int32_t k) { out += Wide(capacity[k]); });
    for_each_edge_into(g, sink, [&](int32_t k) { in += Wide(capacity[k]); });
    greatest_ = std::min({out, in, known});
    is_unbounded_ = std::isinf(greatest_);
    if (is_unbounded_) {
      greatest_ = 0;
      for (int32_t k = 0; k < g.edges; ++k) {
        if (is_finite(capacity[k])) greatest_ += Wide(capacity[k]);
      }
    }
    exponent_ = -1074;  // if nothing can flow; then every positive capacity is at least one unit
    if (greatest_ > 0) {
      std::frexp(greatest_, &exponent_);
      is_rounded_ = greatest_ > std::ldexp(Wide(1), least_bit + std::numeric_limits<C>::digits);
      exponent_ = std::max(exponent_ - 60, least_bit);
    }
    // Two factors, because 2^-exponent itself may not be representable.
    scale_[0] = std::ldexp(1.0, -exponent_ / 2);
    scale_[1] = std::ldexp(1.0, -exponent_ - (-exponent_ / 2));
  }

  // Exponent of the lowest set bit.
  static int lowest_bit(double c) {
    uint64_t bits;
    std::memcpy(&bits, &c, sizeof bits);
    const int exponent = int(bits >> 52);
    const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
    if (exponent == 0) return __builtin_ctzll(fraction) - 1074;
    return __builtin_ctzll(fraction | uint64_t{1} << 52) + exponent - 1075;
  }

  int64_t bound_ = 0, most_ = 0, largest_sum_ = 0;
  Wide greatest_ = 0;  // the bound before it is rounded to units
  int exponent_ = 0;   // the unit is 2^exponent_
  bool is_unbounded_ = false;
  bool is_rounded_ = false;  // true: capacities in units, or flows of type C, may be inexact
  double scale_[2] = {1, 1};
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_FIXED_POINT_H_
