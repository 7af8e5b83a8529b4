// The unit of a problem: costs are rounded to whole units, so that sums along paths are exact.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_UNITS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_UNITS_H_

#include <cmath>
#include <cstdint>

#include "sparse_assignment/numbers.h"
#include "sparse_assignment/problem.h"
#include "sparse_assignment/tiers.h"

namespace jaxmatch::sparse_assignment {

constexpr int32_t kNone = -1;

// Limits for integers of 64 and 128 bits that count units. Sums of costs along a path stay below
// 2^kMostOnPathBits units, and floating-point costs stay below 2^kMostFloatBits units. kNever
// stands for an infinite cost or distance.
template <class Int>
struct UnitLimits;
template <>
struct UnitLimits<int64_t> {
  static constexpr int kMostOnPathBits = 61, kMostFloatBits = 50;
  static constexpr int64_t kNever = INT64_MAX;
};
template <>
struct UnitLimits<__int128> {
  static constexpr int kMostOnPathBits = 124, kMostFloatBits = 113;
  static constexpr __int128 kNever = __int128(~(unsigned __int128)(0) >> 1);
};
template <class Int>
constexpr Int kNeverOf = UnitLimits<Int>::kNever;
constexpr int64_t kNever = kNeverOf<int64_t>;

template <class Int>
struct UnitsOf {
  double scale = 1;  // factor from costs to units; negative for a maximisation
  Int must = 0;      // in units: penalty for leaving a column unmatched that must be matched

  // Converts the finite number costs[k] to units. Sets `rounded` if the result is inexact.
  JAXMATCH_DEVICE Int at(const void* costs, Dtype dtype, int64_t k, bool* rounded) const {
    const double x = real_at(costs, dtype, k), y = x * scale, nearest = rint(y);
    if (is_integer(dtype)) {
      const int64_t whole = whole_at(costs, dtype, k);
      if (scale == 1 || scale == -1) return scale < 0 ? -Int(whole) : Int(whole);
      *rounded |= int64_t(x) != whole;
    }
    *rounded |= nearest != y || (y == 0 && x != 0);
    return Int(nearest);
  }
};
using Units = UnitsOf<int64_t>;

// Chooses the smallest unit for which sums of costs along paths fit into Int. `musts`: some columns
// must be matched while others may stay unmatched. Returns false if integer costs do not fit.
template <class Int>
JAXMATCH_HOST_DEVICE bool choose_units(const SparseProblem& p, const CostRange& range,
                                       bool integers, bool musts, UnitsOf<Int>* units) {
  constexpr int kMostOnPathBits = UnitLimits<Int>::kMostOnPathBits;
  constexpr int kMostFloatBits = UnitLimits<Int>::kMostFloatBits;
  const bool whole = integers && range.whole;
  const double sign = p.maximize ? -1 : 1;
  const double arcs = 2 * double(p.n < p.m ? p.n : p.m) + 2;
  // Costs near the largest double are scaled down, so that their multiples do not overflow.
  const int shift = range.most > 0x1p900 ? 200 : 0;
  double most = ldexp(range.most, -shift);
  if (p.unmatched_col_cost) most *= 2;  // an edge then costs a difference of two costs
  if (musts) most = most > 0 ? most * arcs * 2 : 1;
  if (whole) {
    units->scale = sign;
    const double most_on_path = ldexp(1.0, kMostOnPathBits);
    units->must = Int(most < most_on_path ? most : most_on_path);
    return most * arcs <= most_on_path;
  }
  const int fit = ilogb(ldexp(1.0, kMostOnPathBits) / arcs),
            bits = fit < kMostFloatBits ? fit : kMostFloatBits;
  const int of_most = most > 0 ? ilogb(most) + shift : -1;
  const int wanted = bits - of_most - 1, exponent = wanted < 1000 ? wanted : 1000;
  units->scale = sign * ldexp(1.0, exponent);
  // The penalty is at least one unit, even if all costs round to 0.
  const Int must = Int(ldexp(most, exponent + shift));
  units->must = must > 1 ? must : 1;
  return true;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_UNITS_H_
