// Tiers of costs: numbers far above all others, such as 1e6, 1e18 or the greatest double, that
// people write for pairs that nobody should choose, or for vertices that must be matched.
//
// At the scale of such numbers the others would be rounded away. So costs from a limit on are
// forbidden while there is a solution without them whose duals prove that none of them pays.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_TIERS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_TIERS_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch::sparse_assignment {

// Costs that count: those of a maximisation are negated, those from `limit` on left out.
struct CostRange {
  double limit = HUGE_VAL;
  double most = 0;          // the greatest magnitude of all costs
  double least = HUGE_VAL;  // the least one that is not zero
  double wanted = 0;        // the greatest one of costs below zero
  bool whole = true;
  bool invalid = false;  // NaN, or infinite on the side that does not forbid

  JAXMATCH_HOST_DEVICE void include(double x) {
    invalid |= !(x > -HUGE_VAL);
    if (!(x < limit)) return;
    const double size = fabs(x);
    most = size > most ? size : most;
    least = size > 0 && size < least ? size : least;
    wanted = -x > wanted ? -x : wanted;
    whole &= x == rint(x);
  }
};

// Binary exponents of a tier lie so far above those of the next lower one.
JAXMATCH_HOST_DEVICE inline int width_between_tiers(int64_t shorter) {
  return 8 + ilogb(double(shorter) + 1) / 2;
}
// Whether there is room for two tiers.
JAXMATCH_HOST_DEVICE inline bool may_have_tiers(const CostRange& range, int width) {
  return range.most > 0 && ilogb(range.most) - ilogb(range.least) > width;
}

// A set of binary exponents of doubles.
struct Exponents {
  static constexpr int kWords = 64, kBias = 1023;
  uint32_t word[kWords];

  JAXMATCH_HOST_DEVICE static int place_of(double x) {
    const int at = ilogb(x) + kBias;
    return at < 0 ? 0 : at;
  }
  JAXMATCH_HOST_DEVICE static double least_at(int place) { return ldexp(1.0, place - kBias); }

  // The least limit above `after` that divides tiers, all of whose upper costs exceed `wanted`;
  // HUGE_VAL if there is none.
  JAXMATCH_HOST_DEVICE double next_limit(double after, double wanted, int width) const {
    const int lowest = wanted > 0 ? place_of(wanted) + width : -1;
    int before = -1;
    for (int at = 0; at < 32 * kWords; ++at) {
      if (!(word[at / 32] >> (at % 32) & 1)) continue;
      const bool divides = before >= 0 && at - before > width && at > lowest;
      if (divides && least_at(at) > after) return least_at(at);
      before = at;
    }
    return HUGE_VAL;
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_TIERS_H_
