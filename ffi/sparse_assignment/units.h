// The unit of a problem: costs are rounded to whole units, so that sums along paths are exact.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_UNITS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_UNITS_H_

#include <cmath>
#include <cstdint>

#include "sparse_assignment/numbers.h"
#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

constexpr int32_t kNone = -1;
constexpr int64_t kNever = INT64_MAX;
// Sums of costs along a path stay below 2^61; units of floats are in doubles, rounded exactly.
constexpr double kMostOnPath = 0x1p61;
constexpr int kMostFloatBits = 50;
// The price of rows is on a path at most twice, and outweighs all other costs there.
constexpr int kMostPriceBits = 57;

// Costs that count: those of a maximisation are negated, infinite ones left out.
struct CostRange {
  double most = 0;  // the greatest magnitude of all costs
  bool whole = true;
  bool invalid = false;  // NaN, or infinite on the side that does not forbid

  JAXMATCH_HOST_DEVICE void include(double x) {
    invalid |= !(x > -HUGE_VAL);
    if (!(x < HUGE_VAL)) return;
    const double size = fabs(x);
    most = size > most ? size : most;
    whole &= x == rint(x);
  }
};

struct Units {
  double scale = 1;  // from costs to units; negative for a maximisation
  int64_t must = 0;  // units that a column that must be matched pays to stay
  int64_t stay = 0;  // units that a row pays to stay, if as many pairs as possible are wanted

  // From a cost as given, which is finite.
  JAXMATCH_DEVICE int64_t at(const void* costs, Dtype dtype, int64_t k, bool* rounded) const {
    const double x = real_at(costs, dtype, k), y = x * scale, nearest = rint(y);
    if (is_integer(dtype)) {
      const int64_t whole = whole_at(costs, dtype, k);
      if (scale == 1 || scale == -1) return scale < 0 ? -whole : whole;
      *rounded |= int64_t(x) != whole;
    }
    *rounded |= nearest != y || (y == 0 && x != 0);
    return int64_t(nearest);
  }
};

// The power of two that leaving a row costs, if that outweighs every other difference. It may
// exceed the range of doubles.
JAXMATCH_HOST_DEVICE inline int price_exponent(const SparseProblem& p, double most) {
  const int shift = most > 0x1p900 ? 200 : 0;
  const double shorter = double(p.n < p.m ? p.n : p.m);
  const double least = (2 * shorter + 1) * ldexp(most, -shift);
  if (!(least > 0)) return 0;
  const int exponent = ilogb(least) + shift;
  return exponent + (least > ldexp(1.0, exponent - shift));
}

// The unit and the price of rows, if as many pairs as possible are wanted. False if integers do not
// fit.
JAXMATCH_HOST_DEVICE inline bool choose_price_of_rows(const SparseProblem& p, double most,
                                                      bool whole, Units* units) {
  const double sign = p.maximize ? -1 : 1;
  const int of_price = price_exponent(p, most);
  if (whole) {
    const int bits = of_price < kMostPriceBits ? of_price : kMostPriceBits;
    units->scale = sign;
    units->stay = int64_t(1) << bits;
    return of_price <= kMostPriceBits;
  }
  const int of_costs = kMostFloatBits - (most > 0 ? ilogb(most) : -1) - 1;
  const int wanted = kMostPriceBits - of_price < of_costs ? kMostPriceBits - of_price : of_costs;
  const int exponent = wanted < 1000 ? wanted : 1000;
  units->scale = sign * ldexp(1.0, exponent);
  const int64_t stay = int64_t(ldexp(1.0, exponent + of_price));
  units->stay = stay > 1 ? stay : 1;
  return true;
}

// The least unit for which sums along paths fit. `musts`: some column must be matched though others
// may stay. False if integers do not fit.
JAXMATCH_HOST_DEVICE inline bool choose_units(const SparseProblem& p, const CostRange& range,
                                              bool integers, bool musts, Units* units) {
  const bool whole = integers && range.whole;
  if (p.cardinality == Cardinality::kMaximum) {
    return choose_price_of_rows(p, range.most, whole, units);
  }
  const double sign = p.maximize ? -1 : 1;
  const double arcs = 2 * double(p.n < p.m ? p.n : p.m) + 2;
  // Of the greatest doubles: multiples must not overflow.
  const int shift = range.most > 0x1p900 ? 200 : 0;
  double most = ldexp(range.most, -shift);
  if (p.unmatched_col_cost) most *= 2;  // of a difference
  if (musts) most = most > 0 ? most * arcs * 2 : 1;
  if (whole) {
    units->scale = sign;
    units->must = int64_t(most < kMostOnPath ? most : kMostOnPath);
    return most * arcs <= kMostOnPath;
  }
  const int fit = ilogb(kMostOnPath / arcs), bits = fit < kMostFloatBits ? fit : kMostFloatBits;
  const int of_most = most > 0 ? ilogb(most) + shift : -1;
  const int wanted = bits - of_most - 1, exponent = wanted < 1000 ? wanted : 1000;
  units->scale = sign * ldexp(1.0, exponent);
  // At least one unit, if all costs round to none.
  const int64_t must = int64_t(ldexp(most, exponent + shift));
  units->must = must > 1 ? must : 1;
  return true;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_UNITS_H_
