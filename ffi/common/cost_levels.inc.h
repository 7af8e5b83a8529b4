// Levels of costs. Users give pairs that should be avoided a cost far above all others, such as 1e9
// or 1e30. Such costs form a level of their own: one of them outweighs any exchange of lower costs.
// In units that are large enough for the highest level, all lower costs would be rounded away.
//
// Included inside a namespace: by CUDA kernels, and by the CPU's solvers once per instruction set.
// The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

#include "common/exponents.inc.h"

// A gap of at most this between exponents does not separate two levels: a second solve would gain
// too little.
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
  // of a negative cost, because negative costs determine the scale in any case.
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

// Replaces the costs of some levels: by +infinity if the level is forbidden, or by one number if
// all costs of the level are equal.
struct CostMap {
  int count = 0;
  double from[kMostLevels], to[kMostLevels];  // costs from `from` on become `to`; 0 keeps them

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
  // x is signed as in a minimisation.
  JAXMATCH_HOST_DEVICE double of(double x) const {
    if (!(x < __builtin_huge_val())) return x;  // forbidden pairs stay forbidden
    double y = x;
    for (int k = 0; k < count && x >= from[k]; ++k) y = to[k] > 0 ? to[k] : x;
    return y;
  }
};

// Forbids the costs of level `end` and above.
JAXMATCH_HOST_DEVICE inline CostMap forbid_from(const CostLevels& levels, int end) {
  CostMap map;
  if (end < levels.count) map.add(levels.level[end].from, __builtin_huge_val());
  return map;
}

// Forbids the costs of level `end` and above, and lowers the levels below `end`. One cost of a
// lowered level still outweighs `outweighs` costs of lower levels. A level is lowered only if all
// its costs are equal, since only then all solutions keep their order. Sets `most` to the greatest
// finite cost that results.
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
