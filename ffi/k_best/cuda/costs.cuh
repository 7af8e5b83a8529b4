// The canonical form of a problem, as in k_best/cpu/units.h: a minimisation in whole units, with at
// least as many columns as rows.
#ifndef JAXMATCH_CUDA_K_BEST_COSTS_CUH_
#define JAXMATCH_CUDA_K_BEST_COSTS_CUH_

#include "k_best/cuda/block.cuh"

namespace jaxmatch::k_best {

__device__ inline bool is_integer(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}
__device__ inline int64_t integer_cost(const KBestProblem& p, int64_t at) {
  return p.cost_dtype == Dtype::kS32 ? static_cast<const int32_t*>(p.cost)[at]
                                     : static_cast<const int64_t*>(p.cost)[at];
}
__device__ inline double real_cost(const KBestProblem& p, int64_t at) {
  if (p.cost_dtype == Dtype::kF64) return static_cast<const double*>(p.cost)[at];
  return Floats::real(Floats::load(p.cost, at, p.cost_dtype));
}

// Lists the indices that a mask includes. Returns their number. Called by one warp.
__device__ inline int32_t list_used(int lane, const uint8_t* mask, int64_t size, int32_t* list) {
  int32_t count = 0;
  for (int64_t first = 0; first < size; first += kWarpSize) {
    const int64_t k = first + lane;
    const bool used = k < size && (!mask || mask[k]);
    const unsigned all = __ballot_sync(kAllLanes, used);
    if (used) list[count + __popc(all & lanes_below(lane))] = int32_t(k);
    count += __popc(all);
  }
  return count;
}

__device__ inline void find_form(Block block) {
  Shared& s = block.s;
  const KBestProblem& p = s.problem;
  if (block.warp() == 0) {
    const int32_t n = list_used(block.lane(), p.row_mask, p.n, s.workspace.n_list);
    if (block.lane() == 0) s.n = n;
  } else if (block.warp() == 1) {
    const int32_t m = list_used(block.lane(), p.col_mask, p.m, s.workspace.m_list);
    if (block.lane() == 0) s.m = m;
  }
  block.sync();
  block.one([&] {
    s.transposed = s.n > s.m;
    s.rows = s.transposed ? s.m : s.n;
    s.cols = s.transposed ? s.n : s.m;
    s.stride = (s.cols + 7) / 8 * 8;
    s.most = int32_t(Bounds(s.n, s.m, p.k).k);
  });
  block.sync();
}

// Calls f(cost) for the costs of all pairs of rows and columns that the masks include. The costs
// are negated if they are maximised.
template <class F>
__device__ void each_real_cost(Block block, const F& f) {
  const Shared& s = block.s;
  const KBestProblem& p = s.problem;
  const double sign = p.maximize ? -1 : 1;
  block.each_by_warp(s.n, [&](int64_t i) {
    const int64_t row = int64_t(s.workspace.n_list[i]) * p.m;
    block.each_lane(s.m, [&](int64_t j) { f(sign * real_cost(p, row + s.workspace.m_list[j])); });
  });
}

// Checks integer costs. Returns the status.
__device__ inline Status check_integers(Block block) {
  const Shared& s = block.s;
  const KBestProblem& p = s.problem;
  uint64_t most = 0;
  block.each_by_warp(s.n, [&](int64_t i) {
    const int64_t row = int64_t(s.workspace.n_list[i]) * p.m;
    block.each_lane(s.m, [&](int64_t j) {
      const int64_t x = integer_cost(p, row + s.workspace.m_list[j]);
      most = max(most, x < 0 ? 0 - uint64_t(x) : uint64_t(x));
    });
  });
  most = block.most(most);
  return most > uint64_t(kMostInAll / (int64_t(s.rows) + 1)) ? kOverflow : kOptimal;
}

// Checks float costs, and finds the range of their magnitudes. Returns the status.
__device__ inline Status check_reals(Block block) {
  Shared& s = block.s;
  const double infinity = __builtin_huge_val();
  bool invalid = false;
  // `most` is the maximum of the bits of magnitudes, and `least` the maximum of infinity's bits
  // minus these bits. Magnitudes are ordered like their bits.
  const uint64_t last = uint64_t(__double_as_longlong(infinity));
  uint64_t most = 0, least = 0;
  each_real_cost(block, [&](double x) {
    const double size = fabs(x);
    invalid |= !(x > -infinity);
    if (!(size < infinity)) return;
    const uint64_t bits = uint64_t(__double_as_longlong(size));
    most = max(most, bits);
    if (bits > 0) least = max(least, last - bits);
  });
  invalid = block.any(invalid);
  most = block.most(most);
  least = block.most(least);
  block.one([&] {
    s.greatest = __longlong_as_double(int64_t(most));
    s.lowest = __longlong_as_double(int64_t(last - least));
  });
  block.sync();
  return invalid ? kInvalidCost : kOptimal;
}

// Checks all costs. Returns the status.
__device__ inline Status check_costs(Block block) {
  return is_integer(block.s.problem.cost_dtype) ? check_integers(block) : check_reals(block);
}

// Fills the matrix `s.costs` with the costs in units.
__device__ inline void convert_costs(Block block) {
  Shared& s = block.s;
  const KBestProblem& p = s.problem;
  const int32_t *const row_list = s.row_list(), *const col_list = s.col_list();
  const int64_t row_step = s.transposed ? 1 : p.m, col_step = s.transposed ? p.m : 1;
  const bool whole = is_integer(p.cost_dtype);
  const double scale = s.scale;
  bool rounded = false;
  block.each_by_warp(s.rows + (s.has_spare() ? 1 : 0), [&](int64_t i) {
    int64_t* const out = s.costs + i * s.stride;
    block.each_lane(s.stride, [&](int64_t j) {
      out[j] = j < s.cols ? 0 : kForbidden;
      if (i == s.rows || j >= s.cols) return;
      const int64_t at = row_list[i] * row_step + col_list[j] * col_step;
      if (whole) {
        const int64_t x = integer_cost(p, at);
        out[j] = scale < 0 ? -x : x;
        return;
      }
      const double given = scale < 0 ? -real_cost(p, at) : real_cost(p, at);
      const double real = s.map.of(given), y = real * fabs(scale);
      const bool allowed = y < __builtin_huge_val();
      out[j] = allowed ? as_integer(y) : kForbidden;
      rounded |= real < given;
      rounded |= allowed && (double(out[j]) != y || (out[j] == 0 && real != 0));
    });
  });
  rounded = block.any(rounded);
  block.one([&] { s.exact = !rounded; });
  block.sync();
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_COSTS_CUH_
