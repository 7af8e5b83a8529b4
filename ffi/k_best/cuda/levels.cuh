// Levels of costs (common/cost_levels.inc.h), as on the CPU (k_best/cpu/units.h,
// k_best/cpu/solver.inc.h). A cost of a higher level outweighs any change in lower costs.
#ifndef JAXMATCH_CUDA_K_BEST_LEVELS_CUH_
#define JAXMATCH_CUDA_K_BEST_LEVELS_CUH_

#include "k_best/cuda/costs.cuh"

namespace jaxmatch::k_best {

// The number of lower costs that one cost of a higher level must outweigh: at least as many as two
// assignments have.
__device__ inline double most_pairs(const Shared& s) { return 2 * (double(s.rows) + 1); }

__device__ inline void see_exponent(uint32_t* words, int e) {
  const uint32_t bit = 1u << (e % 32);
  if (!(words[e / 32] & bit)) atomicOr(&words[e / 32], bit);
}

__device__ inline void find_levels(Block block) {
  Shared& s = block.s;
  block.one([&] { s.levels = CostLevels{}; });
  block.sync();
  if (is_integer(s.problem.cost_dtype) || !(s.greatest > 0)) return;
  if (exponent_of(s.greatest) - exponent_of(s.lowest) <= kNearExponents) return;
  block.each(2 * kExponentWords, [&](int64_t k) { s.exponents[k] = 0; });
  block.sync();
  const double infinity = __builtin_huge_val();
  each_real_cost(block, [&](double x) {
    if (x == 0 || !(x < infinity)) return;
    see_exponent(s.exponents, exponent_of(x));
    if (x < 0) see_exponent(s.exponents + kExponentWords, exponent_of(x));
  });
  block.sync();
  block.one([&] {
    Exponents all, wanted;
    for (int k = 0; k < kExponentWords; ++k) {
      all.word[k / 2] |= uint64_t(s.exponents[k]) << (k % 2 * 32);
      wanted.word[k / 2] |= uint64_t(s.exponents[kExponentWords + k]) << (k % 2 * 32);
    }
    s.levels.split(all, wanted.most(), most_pairs(s));
  });
  block.sync();
  const int count = s.levels.count;
  const uint64_t last = uint64_t(__double_as_longlong(infinity));
  for (int level = 0; count > 1 && level < count; ++level) {
    // `most` is the maximum of the bits of magnitudes, and `least` the maximum of infinity's bits
    // minus these bits. Magnitudes are ordered like their bits.
    uint64_t most = 0, least = 0;
    each_real_cost(block, [&](double x) {
      if (!(x < infinity) || s.levels.of(x) != level) return;
      const uint64_t bits = uint64_t(__double_as_longlong(fabs(x)));
      most = max(most, bits);
      least = max(least, last - bits);
    });
    most = block.most(most);
    least = block.most(least);
    block.one([&] {
      s.levels.level[level].most = __longlong_as_double(int64_t(most));
      s.levels.level[level].least = __longlong_as_double(int64_t(last - least));
    });
    block.sync();
  }
}

// Sets `map`, which forbids the costs of level `end` (counted from 0) and above. With `near`,
// draw_near() also lowers levels below `end`. Sets `scale` such that the unit is the smallest for
// which sums of costs do not overflow. Returns whether draw_near() lowers a level.
__device__ inline bool set_map(Block block, int end, bool near) {
  Shared& s = block.s;
  block.one([&] {
    double most = s.greatest;
    s.map = forbid_from(s.levels, end);
    s.draws = false;
    if (s.levels.count > 1) {
      double drawn;
      const CostMap map = draw_near(s.levels, end, most_pairs(s), &drawn);
      s.draws = near && map.draws_near();
      if (s.draws) s.map = map;
      most = s.draws ? drawn : s.levels.level[end - 1].most;
    }
    const double sign = s.problem.maximize ? -1 : 1;
    const int64_t each = kMostInAll / (int64_t(s.rows) + 1);
    const int bits = min(ilogb(double(each)), kMostFloatBits);
    const int exponent = bits - (most > 0 ? ilogb(most) + 1 : 0);
    s.scale = is_integer(s.problem.cost_dtype) ? sign : sign * ldexp(1.0, min(exponent, 1000));
  });
  block.sync();
  return s.draws;
}

// Whether the best assignment has a pair whose cost is in the second level or above.
__device__ inline bool first_pays(Block block) {
  const Shared& s = block.s;
  const KBestProblem& p = s.problem;
  const double from = s.levels.level[1].from, sign = p.maximize ? -1 : 1;
  const int32_t* const col4row = s.col4row_of(0);
  bool pays = false;
  block.each(s.rows, [&](int64_t i) {
    const int64_t row = s.row_list()[i], col = s.col_list()[col4row[i]];
    pays |= sign * real_cost(p, s.transposed ? col * p.m + row : row * p.m + col) >= from;
  });
  return block.any(pays);
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_LEVELS_CUH_
