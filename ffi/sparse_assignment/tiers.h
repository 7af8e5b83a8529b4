// Tiers of costs: groups of costs whose magnitudes lie far apart. Users write numbers far above all
// other costs, such as 1e6, 1e18 or the largest double, for pairs to avoid or for vertices that
// must be matched.
//
// The solver rounds costs to whole units. With units so coarse that such numbers fit, all other
// costs would round to 0. So the solver first forbids all costs at or above a limit between two
// tiers. It accepts the solution if the duals prove that no forbidden cost would improve it.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_TIERS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_TIERS_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch::sparse_assignment {

// The range of the costs below `limit`. Callers negate the costs of a maximisation.
struct CostRange {
  double limit = HUGE_VAL;
  double most = 0;          // largest magnitude of a cost
  double least = HUGE_VAL;  // smallest magnitude of a nonzero cost
  double wanted = 0;        // largest magnitude of a negative cost
  bool whole = true;
  bool invalid = false;  // some cost is NaN or -inf

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

// A gap of more than this between binary exponents of costs separates two tiers. `shorter`: the
// number of vertices of the shorter side.
JAXMATCH_HOST_DEVICE inline int width_between_tiers(int64_t shorter) {
  return 8 + ilogb(double(shorter) + 1) / 2;
}
// True if the range of the costs is wide enough for two tiers.
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

  // The smallest limit above `after` that separates two tiers, or HUGE_VAL if there is none. The
  // upper tier must lie far above `wanted`, the largest magnitude of a negative cost.
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
