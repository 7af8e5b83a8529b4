// Writes the results: pairs, duals, cost and gap, or the status of a problem without an assignment.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_FINISH_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_FINISH_CUH_

#include "common/compensated_sum.h"
#include "common/reals.h"
#include "sparse_assignment/cuda/choice.cuh"

namespace jaxmatch::sparse_assignment {

template <class Team>
__device__ void write_failure(const Team& team, const SparseProblem& p, Status status) {
  const double nan = __builtin_nan("");
  team.each(p.n, [&](int64_t i) {
    p.col4row[i] = p.edge[i] = kNone;
    write_real(p.row_dual, p.result_dtype, i, nan);
  });
  team.each(p.m, [&](int64_t j) {
    p.row4col[j] = kNone;
    write_real(p.col_dual, p.result_dtype, j, nan);
  });
  team.one([&] {
    write_real(p.value, p.result_dtype, 0, nan);
    write_real(p.gap, p.result_dtype, 0, nan);
    *p.status = status;
  });
}

template <class Team>
struct Finish {
  const Team team;
  const Canonical& c;
  const SparseProblem& p;
  const Workspace& w;

  __device__ bool has_row(int64_t i) const { return !p.row_mask || p.row_mask[i]; }
  __device__ bool has_col(int64_t j) const { return !p.col_mask || p.col_mask[j]; }

  // True if a column that must be matched is unmatched.
  __device__ bool misses_columns() const {
    bool misses = false;
    if (!p.unmatched_col_cost) return false;
    team.each(p.m, [&](int64_t j) {
      const double price = real_at(p.unmatched_col_cost, p.unmatched_col_dtype, j);
      misses |= has_col(j) && !(fabs(price) < HUGE_VAL) && w.owner[j] == kNone;
    });
    return team.any(misses);
  }

  __device__ void write_pairs() const {
    const auto none = [](int32_t* array) { return [=](int64_t k) { array[k] = kNone; }; };
    team.each(p.n, none(p.col4row));
    team.each(p.n, none(p.edge));
    team.each(p.m, none(p.row4col));
    team.sync();
    team.each(c.rows, [&](int64_t r) {
      const int32_t k = w.pair[r];
      if (k == kStays || k == kFree) return;
      const int32_t i = c.transposed ? c.col[k] : int32_t(r);
      const int32_t j = c.transposed ? int32_t(r) : c.col[k];
      p.col4row[i] = j;
      p.row4col[j] = i;
      p.edge[i] = k;
    });
  }

  __device__ void write_duals() const {
    const double per_unit = 1 / c.units.scale;
    void* const of_rows = c.transposed ? p.col_dual : p.row_dual;
    void* const of_cols = c.transposed ? p.row_dual : p.col_dual;
    team.each(c.rows, [&](int64_t r) {
      write_real(of_rows, p.result_dtype, r, double(w.u[r]) * per_unit + 0.0);
    });
    team.each(c.cols, [&](int64_t j) {
      const int64_t units = w.price[j] + w.offset[j];
      write_real(of_cols, p.result_dtype, j, double(units) * per_unit + 0.0);
    });
  }

  // For k < n, the given cost of row k: of its pair, or of leaving it unmatched. For k >= n, the
  // given cost of leaving column k - n unmatched, or 0 if it is matched. Integer costs are returned
  // in `whole` instead.
  __device__ double cost_of(int64_t k, int64_t& whole) const {
    const auto given = [&](const void* costs, Dtype dtype, int64_t at) {
      if (!is_integer(dtype)) return real_at(costs, dtype, at);
      whole = whole_at(costs, dtype, at);
      return 0.0;
    };
    if (k < p.n && p.edge[k] != kNone) return given(p.cost, p.cost_dtype, p.edge[k]);
    if (k < p.n) {
      const bool pays = p.unmatched_cost && has_row(k) && p.col4row[k] == kNone;
      return pays ? given(p.unmatched_cost, p.unmatched_dtype, k) : 0;
    }
    const int64_t j = k - p.n;
    const bool pays = p.unmatched_col_cost && has_col(j) && p.row4col[j] == kNone;
    return pays ? given(p.unmatched_col_cost, p.unmatched_col_dtype, j) : 0;
  }

  // Integers are summed exactly, floats as if with twice the precision of a double. The sum is the
  // same for any number of threads. It is infinite only if the total overflows, not if a partial
  // sum would.
  __device__ double total_cost() const {
    const int64_t count = p.n + p.m, chunks = w.chunks(count);
    int64_t low = 0, high = 0;
    team.each_by_warp(chunks, [&](int64_t chunk) {
      const int64_t last = min((chunk + 1) * kChunk, count);
      FullRangeSum own;
      for (int64_t k = chunk * kChunk + team.lane(); k < last; k += kWarpSize) {
        int64_t whole = 0;
        own.add(cost_of(k, whole));
        low += whole & UINT32_MAX;
        high += whole >> 32;
      }
      for (int step = kWarpSize / 2; step > 0; step /= 2) {
        const auto other = [step](double x) { return __shfl_xor_sync(kAllLanes, x, step); };
        own.add(FullRangeSum{{other(own.small.sum), other(own.small.error)},
                             {other(own.large.sum), other(own.large.error)}});
      }
      if (team.lane() == 0) w.part[chunk] = own;
    });
    low = team.sum(low);
    high = team.sum(high) + (low >> 32);
    team.sync();
    FullRangeSum all;
    if (team.rank == 0 && threadIdx.x == 0) {
      for (int64_t k = 0; k < chunks; ++k) all.add(w.part[k]);
      all.add(double(high) * 0x1p32);
      all.add(double(low & UINT32_MAX));
    }
    return all.value();
  }

  // Like all code outside the rounds of bids, this is not inlined. Inlined, it would take registers
  // from the rounds.
  __device__ __noinline__ void run() const {
    if (misses_columns()) return write_failure(team, p, kInfeasible);
    write_pairs();
    write_duals();
    team.sync();
    const double cost = total_cost();
    team.one([&] {
      write_real(p.value, p.result_dtype, 0, cost + 0.0);
      // Rounding changes each cost of this solution and of the optimum by at most half of the unit
      // to which costs were rounded. So the gap is at most one such unit for each cost in a
      // solution.
      double gap = c.rounded ? double(c.terms) * c.rounding * fabs(1 / c.units.scale) : 0;
      if (p.result_dtype == Dtype::kF32 && double(float(gap)) < gap) {
        gap = nextafterf(float(gap), __builtin_huge_valf());
      }
      write_real(p.gap, p.result_dtype, 0, gap);
      *p.status = kOptimal;
    });
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_FINISH_CUH_
