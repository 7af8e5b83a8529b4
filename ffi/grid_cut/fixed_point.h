// Quantisation of floating-point capacities. Every solver computes with integers, so that flow is
// conserved exactly and each push moves at least one unit.
#ifndef JAXMATCH_GRID_CUT_FIXED_POINT_H_
#define JAXMATCH_GRID_CUT_FIXED_POINT_H_

#include <cmath>
#include <cstdint>

#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// Flows must stay below this limit, so that int64 holds all sums. A sum may have as many terms as a
// cell has arcs, and one more.
JAXMATCH_HOST_DEVICE constexpr int64_t grid_most_flow(int arcs) {
  return int64_t{1} << (arcs > 8 ? 58 : 59);
}

// A power of two as two factors: the power itself may be outside the range of double even if its
// product with a number is inside.
struct GridPower {
  double half, rest;

  JAXMATCH_HOST_DEVICE static GridPower of(int exponent) {
    return {ldexp(1.0, exponent / 2), ldexp(1.0, exponent - exponent / 2)};
  }
  JAXMATCH_HOST_DEVICE double times(double x) const { return x * half * rest; }
};

// Maxima over all cells or capacities of a problem; they do not depend on the order of evaluation.
// Arcs that leave the grid are ignored.
struct GridSurvey {
  double most_excess = 0, most_deficit = 0;  // of a cell, at most what its arcs can carry
  double most_finite = 0;                    // largest finite capacity
  double most_around = 0;  // a cell's excess or deficit plus all its arcs in both directions
};

// An upper bound on every flow: significand * 2^exponent, which may exceed the range of double.
//
// The excess of a cell counts only as far as its arcs can carry it. So infinite capacities do not
// make the bound infinite, unless the flow itself may be infinite. In that case the bound is at
// least the capacity of every finite cut.
struct GridBound {
  double significand = INFINITY;  // 0, or from 1/2 to 2^33
  int exponent = 0;
  double limit = INFINITY;  // capacities above this number exceed the bound
  GridPower down{1, 1};     // 2^-exponent

  JAXMATCH_HOST_DEVICE static GridBound of(const GridSurvey& s, int64_t cells, int arcs) {
    const double least = s.most_excess < s.most_deficit ? s.most_excess : s.most_deficit;
    double each = least, count = double(cells);
    if (!(least < double(INFINITY))) {
      each = s.most_finite > 0 ? s.most_finite : 1;
      count *= double(arcs + 2);
    }
    return product(each, count);
  }
  // The bound that a known cut of this capacity gives. The capacity is a sum that may be rounded,
  // so the bound is slightly larger.
  JAXMATCH_HOST_DEVICE static GridBound of_cut(double capacity) {
    return product(capacity, 1 + 0x1p-20);
  }
  // x * factor, which may exceed the range of double.
  JAXMATCH_HOST_DEVICE static GridBound product(double x, double factor) {
    constexpr double kMost = 1.7976931348623157e308;
    GridBound bound;
    bound.significand = frexp(x, &bound.exponent) * factor;
    bound.limit = x * factor < kMost ? x * factor : kMost;
    bound.down = GridPower::of(-bound.exponent);
    return bound;
  }
  // A capacity in units of 2^exponent, at most the bound.
  JAXMATCH_HOST_DEVICE double clip(double capacity) const {
    const double x = down.times(capacity);
    return x < significand ? x : significand;
  }
  // Like clip(), for an excess or for a deficit, which is negative.
  JAXMATCH_HOST_DEVICE double clip_both(double excess) const {
    return excess < 0 ? -clip(-excess) : clip(excess);
  }
  // True if the survey must be repeated with arcs clipped at the bound: some arcs are so large that
  // they would make the unit coarse, or that sums exceed the range of double. The repeated survey
  // counts in units of 2^exponent, where a capacity may underflow to 0. That is harmless: the unit
  // of flow is at least 2^-59 of the bound, far above capacities that underflow.
  JAXMATCH_HOST_DEVICE bool must_clip(double most_arc, double most_around) const {
    return most_arc > limit || !(most_around < double(INFINITY));
  }
};

// `cut` is the capacity of the minimum cut that was found. Returns true if the units (see
// GridUnits) were fine enough for it, i.e. if rounding changed each arc of the cut by at most
// 2^-50 * `cut`. Otherwise the problem is solved again, with `cut` as the bound on the flow. The
// test matters even if no rounding was detected, because small capacities may have underflowed to 0
// unnoticed.
JAXMATCH_HOST_DEVICE inline bool are_fine(double most_around, int around_exponent, double cut) {
  constexpr double kMost = 1.7976931348623157e308;
  return cut == 0 || cut > kMost || ldexp(most_around, around_exponent - 8) <= cut;
}

// Converts capacities to whole units. They are rounded down, so that upper bounds on the flow stay
// valid. A capacity above the bound counts as one unit more than the bound: such an arc is never
// full, so minimum cuts do not change. The conversion is exact if all capacities are whole numbers
// of units.
class GridUnits {
 public:
  GridUnits() = default;
  // `most_around` is GridSurvey::most_around in units of 2^around_exponent; the survey must have
  // clipped arcs above the bound. In the new units, the sum around each cell is below 2^bits. This
  // includes one extra unit for each arc above the bound; a cell has at most 16 arcs, in and out.
  // With 18 or 26 neighbours it has up to 52, and the sum is below 2^bits + 64.
  JAXMATCH_HOST_DEVICE static GridUnits of(const GridBound& bound, double most_around,
                                           int around_exponent, int bits) {
    int exponent = 0;
    const double part = frexp(most_around, &exponent);
    if (part > 1 - 0x1p-25)
      ++exponent;  // sums are rounded, and arcs above the bound count one unit more
    exponent += around_exponent - bits;  // now sums are below 2^(exponent + bits)
    // No unit is finer than the smallest positive double, 2^-1074.
    exponent = exponent < -1074 ? -1074 : exponent;
    const double in_units = ldexp(bound.significand, bound.exponent - exponent);
    constexpr double kMost = double(int64_t{1} << 60);
    GridUnits units;
    units.limit_ = bound.limit;
    units.up_ = GridPower::of(-exponent);
    units.beyond_ = int64_t(in_units < kMost ? in_units : kMost) + 1;
    const int64_t by_bits = int64_t{1} << bits;
    units.most_excess_ = units.beyond_ < by_bits ? units.beyond_ : by_bits;
    return units;
  }

  // A unit is 2^exponent(). On the host only.
  int32_t exponent() const { return -(std::ilogb(up_.half) + std::ilogb(up_.rest)); }
  // The number of units that a capacity above the bound counts as.
  JAXMATCH_HOST_DEVICE int64_t beyond() const { return beyond_; }
  JAXMATCH_HOST_DEVICE bool is_beyond(double capacity) const { return capacity > limit_; }
  JAXMATCH_HOST_DEVICE double scaled(double x) const { return up_.times(x); }

  JAXMATCH_HOST_DEVICE int64_t capacity(double c) const {
    return is_beyond(c) ? beyond_ : int64_t(scaled(c));
  }
  // True if capacity(c) is exact. Valid for results up to 2^30 units.
  JAXMATCH_HOST_DEVICE bool is_exact(double c) const { return is_beyond(c) || is_whole(scaled(c)); }

  // The capacity from the source minus the capacity to the sink, in units. It is clipped at 2^bits
  // units, more than the cell's arcs can carry, and at one unit above the bound.
  JAXMATCH_HOST_DEVICE int64_t excess(double source, double sink) const {
    const Difference d = difference(source, sink);
    int64_t units = most_excess_;
    if (!d.is_most) {
      units = int64_t(d.scaled);
      // The rounding error of the difference of two doubles can be many units.
      const double left = (d.scaled - double(units)) + d.rest;
      const int64_t more = int64_t(left);
      units += more - (double(more) > left);
      units = units < most_excess_ ? units : most_excess_;
    }
    return source < sink ? -units : units;
  }
  // Sets `excess` to the result of excess(), but computes it without branches. Valid for results up
  // to 2^30 units. Returns true if nothing is rounded.
  JAXMATCH_HOST_DEVICE bool exact_excess(double source, double sink, double* excess) const {
    const Difference d = difference(source, sink);
    const double units = d.is_most ? double(most_excess_) : d.scaled;
    *excess = source < sink ? -units : units;
    return d.is_most | (is_whole(d.scaled) & (d.rest == 0));
  }

 private:
  // |source - sink| in units, as the sum scaled + rest. If is_most is true, the difference counts
  // as most_excess_ instead.
  struct Difference {
    double scaled, rest;
    bool is_most;
  };
  JAXMATCH_HOST_DEVICE Difference difference(double source, double sink) const {
    const double more = source < sink ? sink : source, less = source < sink ? source : sink;
    const double size = more == less ? 0 : more - less;  // both may be infinite
    const double scaled = this->scaled(size);
    const bool is_most = (size > limit_) | (scaled >= double(most_excess_));
    // Dekker's fast two-sum; the result for infinities is not used.
    const double rest = (more - size) - less;
    const bool is_simple = is_most | (size == 0);
    return {is_most ? 0 : scaled, is_simple ? 0 : this->scaled(rest), is_most};
  }
  // Valid for |x| up to 2^51: adding kRound rounds x to the nearest integer.
  JAXMATCH_HOST_DEVICE static bool is_whole(double x) {
    constexpr double kRound = 0x1.8p52;
    return (x + kRound) - kRound == x;
  }

  double limit_ = 0;
  GridPower up_{1, 1};  // factor from capacities to units
  int64_t beyond_ = 1, most_excess_ = 1;
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_FIXED_POINT_H_
