// Levels of costs. Users give pairs that should be avoided a cost far above all others, such as 1e9
// or 1e30. Such costs form a separate level: one of them outweighs any change in the lower costs.
// Solvers convert costs to whole units. If one unit had to suit all levels, the highest level would
// make it so large that all lower costs would be rounded away.
//
// Included inside a namespace: by CUDA kernels, and by the CPU's solvers once per instruction set.
// The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

#include "common/exponents.inc.h"

// Exponents that differ by at most this are in the same level. A separate solve for the lower costs
// would gain at most this many bits of precision, which is too little.
constexpr int kNearExponents = 14;
constexpr int kMostLevels = 4;

// Whether there may be more than one level. `seen` has the exponents of the costs of some rows.
// `most` and `least` are the greatest and the least non-zero magnitude of all costs.
JAXMATCH_HOST_DEVICE inline bool may_have_levels(Exponents seen, double most, double least) {
  if (!(most > 0)) return false;
  const int greatest = exponent_of(most), lowest = exponent_of(least);
  if (greatest - lowest <= kNearExponents) return false;
  seen.add(greatest);
  if (seen.least() + kNearExponents >= greatest) seen.add(lowest);
  for (int e = seen.least(), next; (next = seen.next(e)) < 2048; e = next) {
    if (next - e > kNearExponents) return true;
  }
  return false;
}

// Magnitudes of the costs of one level.
struct CostLevel {
  double from = 0;                      // lower end of the level: 0 or a power of two
  double least = __builtin_huge_val();  // least magnitude in the level
  double most = 0;                      // greatest magnitude in the level

  JAXMATCH_HOST_DEVICE void add(double x) {
    least = x < least ? x : least;
    most = x > most ? x : most;
  }
};

// Levels in increasing order. The first one has `from` 0, and also contains all negative costs.
struct CostLevels {
  int count = 1;
  CostLevel level[kMostLevels];

  // Finds the levels of costs with the exponents `found`. A level must be so high that one of its
  // costs outweighs `outweighs` lower costs. It must also lie above `wanted`, the greatest exponent
  // of a negative cost. Negative costs are in the first level, so the unit of this level must suit
  // them in any case.
  JAXMATCH_HOST_DEVICE void split(const Exponents& found, int wanted, double outweighs) {
    const int far = 4 + ilogb(outweighs), gap = far > kNearExponents ? far : kNearExponents;
    for (int e = found.least(), next; e < 2048 && count < kMostLevels; e = next) {
      next = found.next(e);
      if (next < 2048 && next - e > gap && next > wanted) {
        level[count++].from = ldexp(1.0, next - 1023);
      }
    }
  }
  JAXMATCH_HOST_DEVICE int of(double x) const {
    int at = 0;
    while (at + 1 < count && x >= level[at + 1].from) ++at;
    return at;
  }
};

// Replaces the costs of some levels, listed in increasing order. The costs of a level become
// +infinity if the level is forbidden, or a smaller number if the level is lowered.
struct CostMap {
  int count = 0;
  double from[kMostLevels], to[kMostLevels];  // costs of at least from[k] become to[k], see of()

  JAXMATCH_HOST_DEVICE bool changes() const { return count > 0; }
  JAXMATCH_HOST_DEVICE bool draws_near() const {
    for (int k = 0; k < count; ++k) {
      if (to[k] > 0 && to[k] < __builtin_huge_val()) return true;
    }
    return false;
  }
  JAXMATCH_HOST_DEVICE void add(double least, double value) {
    from[count] = least;
    to[count++] = value;
  }
  // Returns what the cost x becomes: to[k] for the last k with from[k] <= x, or x if to[k] is 0 or
  // there is no such k. x is negated if costs are maximised.
  JAXMATCH_HOST_DEVICE double of(double x) const {
    if (!(x < __builtin_huge_val())) return x;  // forbidden pairs stay forbidden
    double y = x;
    for (int k = 0; k < count && x >= from[k]; ++k) y = to[k] > 0 ? to[k] : x;
    return y;
  }
};

// The map that forbids the costs of level `end`, counted from 0, and above.
JAXMATCH_HOST_DEVICE inline CostMap forbid_from(const CostLevels& levels, int end) {
  CostMap map;
  if (end < levels.count) map.add(levels.level[end].from, __builtin_huge_val());
  return map;
}

// The map that forbids the costs of level `end`, counted from 0, and above, and lowers the levels
// below `end`. One cost of a lowered level still outweighs `outweighs` costs of lower levels. A
// level is lowered only if all its costs are equal, since otherwise the order of two solutions
// could change. Sets `most` to the greatest finite cost that results.
JAXMATCH_HOST_DEVICE inline CostMap draw_near(const CostLevels& levels, int end, double outweighs,
                                              double* most) {
  CostMap map;
  *most = levels.level[0].most;
  for (int k = 1; k < levels.count; ++k) {
    const CostLevel& level = levels.level[k];
    double value = __builtin_huge_val();
    if (k < end) {
      const double near = *most > 0 ? ldexp(1.0, ilogb(*most) + 2 + ilogb(outweighs) + 1) : 0;
      // A level is not lowered below 2^-126, the least normal float32.
      value = level.least == level.most && near >= 0x1p-126 && near < level.least ? near : 0;
      *most = value > 0 ? value : level.most;
    }
    map.add(level.from, value);
  }
  return map;
}
