// Converts the results from the canonical form (k_best/cpu/units.h) to the form of the problem, as
// in k_best/cpu/finish.h.
#ifndef JAXMATCH_CUDA_K_BEST_FINISH_CUH_
#define JAXMATCH_CUDA_K_BEST_FINISH_CUH_

#include "common/exact_sum.h"
#include "common/reals.h"
#include "k_best/cuda/costs.cuh"

namespace jaxmatch::k_best {

// Marks entries `first` and later of the list of assignments as empty.
__device__ inline void write_rest(Block block, int64_t first) {
  const KBestProblem& p = block.s.problem;
  block.each((p.k - first) * p.n, [&](int64_t k) { p.col4row[first * p.n + k] = kNone; });
  block.each((p.k - first) * p.m, [&](int64_t k) { p.row4col[first * p.m + k] = kNone; });
  block.each(p.k - first,
             [&](int64_t k) { write_real(p.value, p.result_dtype, first + k, __builtin_nan("")); });
}

__device__ inline void write_failure(Block block, Status status) {
  const KBestProblem& p = block.s.problem;
  const double nan = __builtin_nan("");
  write_rest(block, 0);
  block.each(p.n, [&](int64_t i) { write_real(p.row_dual, p.result_dtype, i, nan); });
  block.each(p.m, [&](int64_t j) { write_real(p.col_dual, p.result_dtype, j, nan); });
  block.one([&] {
    write_real(p.gap, p.result_dtype, 0, nan);
    *p.found = 0;
    *p.status = status;
  });
}

// Writes the duals of node 0, the best assignment.
__device__ inline void write_duals(Block block) {
  const Shared& s = block.s;
  const KBestProblem& p = s.problem;
  block.each(p.n, [&](int64_t i) { write_real(p.row_dual, p.result_dtype, i, 0); });
  block.each(p.m, [&](int64_t j) { write_real(p.col_dual, p.result_dtype, j, 0); });
  block.sync();
  void* const row_dual = s.transposed ? p.col_dual : p.row_dual;
  void* const col_dual = s.transposed ? p.row_dual : p.col_dual;
  const int32_t* const col4row = s.col4row_of(0);
  const int64_t* const v = s.v_of(0);
  block.each(s.rows, [&](int64_t i) {
    const int64_t u = s.cost_row(i)[col4row[i]] - v[col4row[i]];
    write_real(row_dual, p.result_dtype, s.row_list()[i], double(u) / s.scale + 0.0);
  });
  block.each(s.cols, [&](int64_t j) {
    write_real(col_dual, p.result_dtype, s.col_list()[j], double(v[j]) / s.scale + 0.0);
  });
}

// The cost of the assignment of node x, negated if costs are maximised. `best` is the cost of the
// best assignment in units. Called by one thread.
__device__ inline double cost_of_node(const Shared& s, int64_t x, int64_t best) {
  if (s.exact) return double(best + s.workspace.cost[x]) / fabs(s.scale);
  const KBestProblem& p = s.problem;
  const int32_t* const col4row = s.col4row_of(x);
  ExactSum sum;
  for (int32_t i = 0; i < s.rows; ++i) {
    const int64_t row = s.row_list()[i], col = s.col_list()[col4row[i]];
    sum.add(real_cost(p, s.transposed ? col * p.m + row : row * p.m + col));
  }
  return p.maximize ? -sum.value() : sum.value();
}

// Sorts the nodes again, since rounding costs to units may have changed their order. Swaps only
// neighbours, because few nodes are out of order.
__device__ inline void sort_nodes(Block block) {
  const Shared& s = block.s;
  double* const value = s.workspace.value;
  int32_t* const rank = s.workspace.rank;
  bool moved = true;
  while (moved) {
    moved = false;
    for (int parity = 0; parity < 2; ++parity) {
      block.each((s.size - parity) / 2, [&](int64_t k) {
        const int64_t r = 2 * k + parity;
        const int32_t a = rank[r], b = rank[r + 1];
        if (!(value[b] < value[a])) return;
        rank[r] = b;
        rank[r + 1] = a;
        moved = true;
      });
      block.sync();
    }
    moved = block.any(moved);
  }
}

__device__ inline void write_solution(Block block) {
  const Shared& s = block.s;
  const KBestProblem& p = s.problem;
  const double sign = p.maximize ? -1 : 1;
  int64_t best = 0;
  for (int32_t i = 0; i < s.rows; ++i) best += s.cost_row(i)[s.col4row_of(0)[i]];
  block.each(s.size, [&](int64_t x) {
    s.workspace.value[x] = cost_of_node(s, x, best);
    s.workspace.rank[x] = int32_t(x);
  });
  block.sync();
  if (!s.exact) sort_nodes(block);
  block.each_by_warp(s.size, [&](int64_t r) {
    int32_t *const col4row = p.col4row + r * p.n, *const row4col = p.row4col + r * p.m;
    block.each_lane(p.n, [&](int64_t i) { col4row[i] = kNone; });
    block.each_lane(p.m, [&](int64_t j) { row4col[j] = kNone; });
    __syncwarp();
    const int32_t x = s.workspace.rank[r];
    block.each_lane(s.rows, [&](int64_t i) {
      const int32_t row = s.row_list()[i], col = s.col_list()[s.col4row_of(x)[i]];
      col4row[s.transposed ? col : row] = s.transposed ? row : col;
      row4col[s.transposed ? row : col] = s.transposed ? col : row;
    });
    if (block.lane() == 0)
      write_real(p.value, p.result_dtype, r, sign * s.workspace.value[x] + 0.0);
  });
  write_rest(block, s.size);
  write_duals(block);
  block.one([&] {
    // Rounding to units moved the cost of an assignment by at most half a unit for each row. A
    // listed assignment and the one that belongs in its place may both have moved. So `gap` is one
    // unit for each row.
    double gap = s.exact ? 0 : double(s.rows) / fabs(s.scale) * (1 + 0x1p-50);
    if (p.result_dtype == Dtype::kF32 && gap > double(float(gap))) {
      gap = nextafterf(float(gap), __builtin_huge_valf());
    }
    write_real(p.gap, p.result_dtype, 0, gap);
    *p.found = s.size;
    *p.status = kOptimal;
  });
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_FINISH_CUH_
