// Costs as whole numbers of a unit.
#ifndef JAXMATCH_MIN_COST_FLOW_COST_UNITS_H_
#define JAXMATCH_MIN_COST_FLOW_COST_UNITS_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/status.h"
#include "min_cost_flow/arcs.h"
#include "min_cost_flow/given.h"

namespace jaxmatch::min_cost_flow {

// Units for prices of 64 bits, and finer ones for prices of 128 bits. The fine unit is exact,
// unless costs differ by more than about 2^100 in size. If the coarse unit is exact, too, nothing
// needs the fine one.
//
// Prices are sums of up to `nodes` costs, and engines add a few of them.
class CostUnits {
 public:
  template <class Lanes>
  JAXMATCH_HOST_DEVICE Status choose(const Given& g, Lanes& lanes) {
    bool valid = true;
    if (!is_whole(g.of_cost)) {
      lanes.each(g.edges, [&](int32_t e) { valid &= g.cost_of(e) >= -kGreatest; });  // no NaN
    }
    if (lanes.any(!valid)) return kInvalidCost;
    margin_ = 4;
    while ((int64_t{1} << (margin_ - 4)) < int64_t(g.nodes) + 1) ++margin_;
    set_units(g, lanes);
    if (!is_whole(g.of_cost) && fine_ > least_bit_) set_apart(g, lanes);
    return kOptimal;
  }
  // Whether the cost of an edge is so large that a flow avoids it, if one can.
  JAXMATCH_HOST_DEVICE bool is_set_apart(const Given& g, int32_t e) const {
    return g.cost_of(e) > threshold_;
  }
  JAXMATCH_HOST_DEVICE bool has_set_apart() const { return threshold_ < INFINITY; }
  template <class Lanes>
  JAXMATCH_HOST_DEVICE void keep_all(const Given& g, Lanes& lanes) {
    threshold_ = INFINITY;
    set_units(g, lanes);
  }

  JAXMATCH_HOST_DEVICE bool is_coarse_exact() const { return is_coarse_exact_; }
  JAXMATCH_HOST_DEVICE bool is_exact() const { return fine_ <= least_bit_; }
  JAXMATCH_HOST_DEVICE int exponent(bool fine) const { return fine ? fine_ : coarse_; }

  // The cost of edge e in units.
  template <class P>
  JAXMATCH_HOST_DEVICE P units(const Given& g, int32_t e) const {
    if (is_set_apart(g, e) || g.is_forbidden(e)) return 0;
    if (is_whole(g.of_cost)) {
      const int64_t c = read_whole(g.cost, g.of_cost, e);
      return P(sizeof(P) > 8 || coarse_ == 0 ? c : c >> coarse_);
    }
    if (sizeof(P) == 8) return P(std::llrint(std::ldexp(g.cost_of(e), -coarse_)));
    int size;
    const double mantissa = std::frexp(g.cost_of(e), &size);
    const int64_t digits = int64_t(std::ldexp(mantissa, 53));
    const int shift = size - 53 - fine_;
    if (shift >= 0) return P(digits) * (P(1) << shift);
    // Rounded up: if the sum of a cycle is negative in units, it is negative.
    return shift <= -63 ? P(digits > 0) : -P(-digits >> -shift);
  }

 private:
  template <class Lanes>
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE void set_units(const Given& g, Lanes& lanes) {
    constexpr int kNone = -10000;
    int least_bit = is_whole(g.of_cost) ? 0 : kNone;  // negated
    double most = 0;
    lanes.each(g.edges, [&](int32_t e) {
      const double c = g.cost_of(e), size = std::abs(c);
      if (c == 0 || !(size <= kGreatest) || c > threshold_) return;
      most = size > most ? size : most;
      if (is_whole(g.of_cost)) return;
      const int lowest = -lowest_bit(c);
      least_bit = lowest > least_bit ? lowest : least_bit;
    });
    most = lanes.max(most);
    least_bit = -lanes.max(least_bit);
    coarse_ = fine_ = least_bit_ = 0;
    is_coarse_exact_ = true;
    if (most == 0) return;  // all costs are 0
    const int most_bit = bits_above(most);
    least_bit_ = least_bit;
    is_coarse_exact_ = most_bit + margin_ - 62 <= least_bit;
    coarse_ = larger(most_bit + margin_ - 62, least_bit);
    fine_ = larger(most_bit + margin_ - 126, least_bit);
  }

  // Looks for a hole in the order of sizes. Positive costs above it exceed all sums of those below
  // it.
  template <class Lanes>
  JAXMATCH_HOST_DEVICE void set_apart(const Given& g, Lanes& lanes) {
    constexpr int kNone = -10000;
    for (int above = -kNone;;) {
      int below = kNone;  // the greatest size below `above`, in bits
      lanes.each(g.edges, [&](int32_t e) {
        const double c = g.cost_of(e);
        if (c == 0 || !is_finite(c)) return;
        const int bits = bits_above(c);
        below = bits < above && bits > below ? bits : below;
      });
      below = lanes.max(below);
      if (below == kNone) return;
      if (above != -kNone && above - below > margin_ + 30) {
        threshold_ = std::ldexp(1.0, below);
        break;
      }
      above = below;
    }
    bool falls = false;  // a great negative cost is sought, not avoided
    lanes.each(g.edges, [&](int32_t e) { falls |= g.cost_of(e) < -threshold_; });
    if (lanes.any(falls)) threshold_ = INFINITY;
    set_units(g, lanes);
  }

  int margin_ = 4, coarse_ = 0, fine_ = 0, least_bit_ = 0;
  bool is_coarse_exact_ = true;
  double threshold_ = INFINITY;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_COST_UNITS_H_
