// Costs far above all others, such as 1e9 or 1e30, that people write for pairs that nobody should
// choose: a level of costs of which each outweighs any exchange of lower ones. At the scale of the
// highest level, all others would be rounded away.
//
// Included inside a namespace: once per instruction set by the CPU's solvers, which must not share
// inline functions (see assignment/cpu/problem.h), and by CUDA kernels.

#include "common/exponents.inc.h"

// Costs whose exponents are nearer than this belong to one level: they are worth no second solve.
constexpr int kNearExponents = 14;
constexpr int kMostLevels = 4;

// Whether there may be a gap between levels: `seen` are exponents of some rows, `most` and
// `least` the greatest and the least magnitude that is not 0.
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
  double from = 0;                      // at least this, a power of two
  double least = __builtin_huge_val();  // of the level
  double most = 0;

  JAXMATCH_HOST_DEVICE void add(double x) {
    least = x < least ? x : least;
    most = x > most ? x : most;
  }
};

// Levels in rising order. The first one has all costs that are not positive, and `from` 0.
struct CostLevels {
  int count = 1;
  CostLevel level[kMostLevels];

  // `outweighs`: how many lower costs one of a level is to outweigh. `wanted` is the greatest
  // exponent of costs below 0, which set the scale whatever the others are.
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

// What stands in for the costs of levels: numbers for those of one value, +infinity above `end`.
struct CostMap {
  int count = 0;
  double from[kMostLevels], to[kMostLevels];  // to: 0 keeps the costs of a level

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
    if (!(x < __builtin_huge_val())) return x;  // forbidden pairs stay so
    double y = x;
    for (int k = 0; k < count && x >= from[k]; ++k) y = to[k] > 0 ? to[k] : x;
    return y;
  }
};

// Forbids the costs of level `end` and of those above.
JAXMATCH_HOST_DEVICE inline CostMap forbid_from(const CostLevels& levels, int end) {
  CostMap map;
  if (end < levels.count) map.add(levels.level[end].from, __builtin_huge_val());
  return map;
}

// Also brings the levels below `end` nearer to each other, as far as one cost of a level still
// outweighs `outweighs` lower ones. That keeps the order of all solutions only for levels whose
// costs are all alike; others stay as they are. Sets `most`, the greatest finite number.
JAXMATCH_HOST_DEVICE inline CostMap draw_near(const CostLevels& levels, int end, double outweighs,
                                              double* most) {
  CostMap map;
  *most = levels.level[0].most;
  for (int k = 1; k < levels.count; ++k) {
    const CostLevel& level = levels.level[k];
    double value = __builtin_huge_val();
    if (k < end) {
      const double near = *most > 0 ? ldexp(1.0, ilogb(*most) + 2 + ilogb(outweighs) + 1) : 0;
      // A power of two below the normal numbers has no exponent to write.
      value = level.least == level.most && near >= 0x1p-126 && near < level.least ? near : 0;
      *most = value > 0 ? value : level.most;
    }
    map.add(level.from, value);
  }
  return map;
}
