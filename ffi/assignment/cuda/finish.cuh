// Results of a solve: the matching, the duals, the optimum, and a proved bound on the optimality
// gap.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_FINISH_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_FINISH_CUH_

#include "assignment/cuda/scan_costs.cuh"
#include "common/compensated_sum.h"
#include "common/status.h"

namespace jaxmatch::assignment {

// Sum of x over the threads of the group, in an order that depends only on the size of the group.
template <bool kOneWarp>
__device__ SumBound group_sum(const Group<kOneWarp>& g, SumBound x, double* slots) {
  const auto over_lanes = [](SumBound y) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const SumBound other{__shfl_down_sync(kAllLanes, y.sum, step),
                           __shfl_down_sync(kAllLanes, y.error, step),
                           __shfl_down_sync(kAllLanes, y.lost, step)};
      y.add(other);
    }
    return y;
  };
  x = over_lanes(x);
  if constexpr (!kOneWarp) {
    g.sync();
    if (g.lane() == 0) {
      slots[3 * g.warp()] = x.sum;
      slots[3 * g.warp() + 1] = x.error;
      slots[3 * g.warp() + 2] = x.lost;
    }
    g.sync();
    x = SumBound{};
    const int at = 3 * g.lane();
    if (g.lane() < g.warps()) x = {slots[at], slots[at + 1], slots[at + 2]};
    x = over_lanes(x);
  }
  return x;
}

template <bool kOneWarp>
__device__ CompensatedSum group_sum(const Group<kOneWarp>& g, CompensatedSum x, double* slots) {
  const auto over_lanes = [](CompensatedSum y) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const double sum = __shfl_down_sync(kAllLanes, y.sum, step);
      const double error = __shfl_down_sync(kAllLanes, y.error, step);
      y.add(sum);
      y.add(error);
    }
    return y;
  };
  x = over_lanes(x);
  if constexpr (!kOneWarp) {
    g.sync();
    if (g.lane() == 0) {
      slots[2 * g.warp()] = x.sum;
      slots[2 * g.warp() + 1] = x.error;
    }
    g.sync();
    x = CompensatedSum{};
    if (g.lane() < g.warps()) x = {slots[2 * g.lane()], slots[2 * g.lane() + 1]};
    x = over_lanes(x);
  }
  return x;
}

template <bool kOneWarp>
__device__ double group_sum(const Group<kOneWarp>& g, double x, double* slots) {
  const auto over_lanes = [](double y) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) y += __shfl_down_sync(kAllLanes, y, step);
    return y;
  };
  x = over_lanes(x);
  if constexpr (!kOneWarp) {
    g.sync();
    if (g.lane() == 0) slots[g.warp()] = x;
    g.sync();
    x = over_lanes(g.lane() < g.warps() ? slots[g.lane()] : 0);
  }
  return x;
}

template <bool kOneWarp>
__device__ __int128 group_sum(const Group<kOneWarp>& g, __int128 x, uint64_t* slots) {
  const auto over_lanes = [](__int128 y) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const uint64_t low = __shfl_down_sync(kAllLanes, uint64_t(y), step);
      const uint64_t high = __shfl_down_sync(kAllLanes, uint64_t(y >> 64), step);
      y += __int128(high) << 64 | low;
    }
    return y;
  };
  x = over_lanes(x);
  if constexpr (!kOneWarp) {
    g.sync();
    if (g.lane() == 0) {
      slots[2 * g.warp()] = uint64_t(x);
      slots[2 * g.warp() + 1] = uint64_t(x >> 64);
    }
    g.sync();
    x = 0;
    if (g.lane() < g.warps()) x = __int128(slots[2 * g.lane() + 1]) << 64 | slots[2 * g.lane()];
    x = over_lanes(x);
  }
  return x;
}

// Upper bound on the optimality gap, proved by the column duals. It is the sum of two parts:
//   - over all rows, what the row pays minus the least that it could pay at these duals. A row pays
//     the reduced cost of its column, or its unmatched cost if it is dropped;
//   - over all unmatched columns, -v_j, if columns may stay unmatched.
// Rounding is monotone, so the true minimum of a row is among the entries whose rounded reduced
// costs attain the rounded minimum. The rounding errors of these entries are known exactly; the
// least of them corrects the rounded minimum.
template <class S>
__device__ double prove_gap(const S& s) {
  const auto& f = s.f;
  const auto& g = f.group;
  SumBound gap;
  for (int i = g.warp(); i < f.rows; i += g.warps()) {
    const double leave = s.leave ? s.leave[i] : __builtin_huge_val();
    double least = leave;
    for_each_column(s, i, [&](int, double x) { least = fmin(least, x); });
    least = S::Arithmetic::warp_min(least);
    double error = leave == least ? 0 : __builtin_huge_val();
    for_each_column(s, i, [&](int j, double x) {
      if (x == least) error = fmin(error, addition_error(s.entry(i, j), -s.v[j], least));
    });
    error = S::Arithmetic::warp_min(error);
    if (g.lane() != 0) continue;
    const int j = s.col4row[i];
    if (j == kDropped) {
      gap.add(leave);
    } else {
      const double c = s.entry(i, j), paid = c - s.v[j];
      gap.add(paid);
      gap.add(addition_error(c, -s.v[j], paid));
    }
    gap.add(-least);
    gap.add(-error);
  }
  for (int j = g.thread; s.cols_optional && j < f.cols; j += g.size) {
    if (s.row4col[j] == kNone) gap.add(-s.v[j]);
  }
  return group_sum(g, gap, f.template shared<double>(f.b.shared.slots)).value();
}

// True if every number that the solve compared was a multiple of `unit` below 2^53 units. A double
// represents such numbers exactly, so the solve was exact.
template <class S>
__device__ bool is_exact(const S& s, double max_abs, double unit) {
  const auto& g = s.f.group;
  double most = 0;
  for (int j = g.thread; j < s.f.cols; j += g.size) most = fmax(most, fabs(s.v[j]));
  uint64_t bits[1] = {uint64_t(__double_as_longlong(most))};
  g.all_max(bits, s.f.template shared<uint64_t>(s.f.b.shared.slots));
  most = __longlong_as_double(int64_t(bits[0])) / fabs(s.scale.factor);
  return unit >= 0x1p-1020 && 8 * (max_abs + most) < unit * 0x1p53;
}

template <class F>
__device__ void write_failure(const F& f, Status status) {
  const AssignmentBatch& b = f.b;
  const double nan = __longlong_as_double(int64_t(0x7ff8) << 48);
  for (int i = f.group.thread; i < b.n; i += f.group.size) {
    b.col4row[f.problem * b.n + i] = kNone;
    write_real(b.row_dual, b.result_dtype, f.problem * b.n + i, nan);
  }
  for (int j = f.group.thread; j < b.m; j += f.group.size) {
    b.row4col[f.problem * b.m + j] = kNone;
    write_real(b.col_dual, b.result_dtype, f.problem * b.m + j, nan);
  }
  if (f.group.thread == 0) {
    write_real(b.value, b.result_dtype, f.problem, nan);
    write_real(b.gap, b.result_dtype, f.problem, nan);
    b.status[f.problem] = status;
  }
}

// Writes the results of the rows or columns that `mask` excludes: no partner, dual 0.
template <class G>
__device__ void write_masked(const G& g, const uint8_t* mask, int64_t size, int64_t start,
                             int32_t* partner, void* dual, Dtype dtype) {
  for (int64_t k = g.thread; mask && k < size; k += g.size) {
    if (mask[start + k]) continue;
    partner[start + k] = kNone;
    write_real(dual, dtype, start + k, 0);
  }
}

template <class S>
__device__ double optimum(const S& s, double unscale) {
  using Key = typename S::Key;
  const auto& f = s.f;
  const auto& g = f.group;
  if constexpr (sizeof(Key) == 16) {
    Key sum = 0;  // a matched pair is tight: its cost is the sum of its duals
    for (int i = g.thread; i < f.rows; i += g.size) {
      const int j = s.col4row[i];
      sum += j == kDropped ? s.leave[i] : s.u[i] + s.v[j];
    }
    return double(group_sum(g, sum, f.template shared<uint64_t>(f.b.shared.slots))) * unscale;
  } else if constexpr (S::Arithmetic::kExact) {
    double sum = 0;  // exact: all terms are multiples of one unit, far below 2^53 units
    for (int i = g.thread; i < f.rows; i += g.size) {
      const int j = s.col4row[i];
      sum += j == kDropped ? double(s.leave[i]) : double(s.u[i]) + double(s.v[j]);
    }
    return group_sum(g, sum, f.template shared<double>(f.b.shared.slots)) * unscale;
  } else {
    FullRangeSum sum;
    for (int i = g.thread; i < f.rows; i += g.size) {
      const int j = s.col4row[i];
      double term;
      if (j == kDropped) {
        const int64_t at = f.problem * f.b.n + f.problem_row(i);
        term = read_real(f.b.unmatched_cost, f.b.unmatched_dtype, at);
      } else {
        term = S::Costs::real(s.costs[int64_t(i) * f.stride + j]);
      }
      sum.add(term);
    }
    double* const slots = f.template shared<double>(f.b.shared.slots);
    sum.small = group_sum(g, sum.small, slots);
    sum.large = group_sum(g, sum.large, slots);
    return sum.value();
  }
}

template <class S>
__device__ void write_solution(const S& s, double gap) {
  const auto& f = s.f;
  const AssignmentBatch& b = f.b;
  const auto& g = f.group;
  const Dtype dtype = b.result_dtype;
  const int64_t row = f.problem * b.n, col = f.problem * b.m;
  write_masked(g, b.row_mask, b.n, row, b.col4row, b.row_dual, dtype);
  write_masked(g, b.col_mask, b.m, col, b.row4col, b.col_dual, dtype);
  const double unscale = 1 / s.scale.factor;
  const double value = optimum(s, unscale);
  int32_t* const col4row = f.transposed ? b.row4col + col : b.col4row + row;
  int32_t* const row4col = f.transposed ? b.col4row + row : b.row4col + col;
  void* const row_dual = f.transposed ? b.col_dual : b.row_dual;
  void* const col_dual = f.transposed ? b.row_dual : b.col_dual;
  const int64_t row_at = f.transposed ? col : row, col_at = f.transposed ? row : col;
  for (int i = g.thread; i < f.rows; i += g.size) {
    const int id = f.row_id(i), j = s.col4row[i];
    col4row[id] = j < 0 ? kNone : f.col_id(j);
    typename S::Key u = j == kDropped ? s.leave[i] : s.u[i];
    if (!S::Arithmetic::kExact && j >= 0) u = s.entry(i, j) - s.v[j];
    write_real(row_dual, dtype, row_at + id, double(u) * unscale);
  }
  for (int j = g.thread; j < f.cols; j += g.size) {
    const int id = f.col_id(j), i = s.row4col[j];
    row4col[id] = i < 0 ? kNone : f.row_id(i);
    write_real(col_dual, dtype, col_at + id, double(s.v[j]) * unscale);
  }
  if (g.thread == 0) {
    write_real(b.value, dtype, f.problem, value);
    gap *= fabs(unscale);
    if (dtype == Dtype::kF32 && gap > double(float(gap))) {
      gap = nextafterf(float(gap), __builtin_huge_valf());
    }
    write_real(b.gap, dtype, f.problem, gap);
    b.status[f.problem] = kOptimal;
  }
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_FINISH_CUH_
