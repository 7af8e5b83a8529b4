// Exact assignment by Jonker and Volgenant (1987), one problem for each warp or block. One launch
// does the whole solve, from reading the costs to writing the results.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_KERNEL_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_KERNEL_CUH_

#include "assignment/cuda/augment.cuh"
#include "assignment/cuda/finish.cuh"
#include "assignment/cuda/refine_prices.cuh"
#include "assignment/cuda/settle_columns.cuh"
#include "assignment/cuda/start_block.cuh"
#include "assignment/cuda/start_ties.cuh"
#include "assignment/cuda/start_warp.cuh"
#include "assignment/cuda/warm_start.cuh"

namespace jaxmatch::assignment {

template <class S>
__device__ void read_unmatched(const S& s) {
  using A = typename S::Arithmetic;
  const AssignmentBatch& b = s.f.b;
  for (int i = s.group.thread; s.leave && i < s.rows; i += s.group.size) {
    const int64_t at = s.f.problem * b.n + s.f.problem_row(i);
    s.leave[i] = b.unmatched_dtype == Dtype::kS64
                     ? A::from_integer(static_cast<const int64_t*>(b.unmatched_cost)[at], s.scale)
                     : A::from_real(read_real(b.unmatched_cost, b.unmatched_dtype, at), s.scale);
  }
}

// Initialisation by a single warp: everything before the searches. Leaves duals and pairs in shared
// memory.
template <class S>
__device__ void start_warp(const S& s, Columns<S>& c, const WarmStart& warm) {
  int count;
  if (warm.use || s.cols_optional) {
    if (warm.use) place_duals(s, warm);
    c.load_state();
    count = list_free_rows(s);
  } else {
    int* single = reinterpret_cast<int*>(s.reach);  // unused before a search
    const int singles = match_minima_warp(s, c, single, count);
    transfer_reductions_warp(s, c, single, singles);
  }
  const int budget = int(s.f.b.effort.rebids * float(s.rows));
  if (s.cols == 0) {
    drop_rows(s);
  } else if (count > 0) {
    // Duals from column minima leave no reduced cost negative, which allows a faster minimum.
    if (warm.use || s.cols_optional) {
      reduce_rows_warp<true>(s, c, count, budget);
    } else {
      reduce_rows_warp<false>(s, c, count, budget);
    }
  }
  publish(s, c);
}

// Initialisation by all warps of a block: everything before the searches.
template <class S>
__device__ void start_block(const S& s, const WarmStart& warm, const CostRange& found) {
  const Effort& effort = s.f.b.effort;
  if (warm.use) {
    place_duals(s, warm);
    if constexpr (sizeof(typename S::Key) <= 8) {
      if (s.f.b.auction) return refine_prices(s);
    }
    match_best(s);
  } else if (!s.cols_optional) {
    match_minima(s);
    if constexpr (S::Arithmetic::kWatched) {
      if (s.f.b.shared.tight >= 0 &&
          found.max_abs <= found.lowest_bit * double(effort.tied) * s.rows) {
        return match_tied(s);
      }
    }
    transfer_reductions(s);
  }
  const int budget = int(effort.rebids * float(s.rows));
  reduce_rows(s, list_free_rows(s), budget, int(effort.crowd * float(s.group.warps())));
  match_rows(s);
}

// Searches from each of the first `count` free rows. Called by the threads that have columns.
template <class S>
__device__ Outcome search(const S& s, Columns<S>& c, int count) {
  Outcome outcome = Outcome::kSolved;
  for (int k = 0; k < count && outcome == Outcome::kSolved; ++k) {
    outcome = augment(s, c, s.free_rows[k]);
  }
  return outcome;
}

// What is known about the column minima: nothing; their rows, in pred; or also their values, in v.
enum class Minima { kUnknown, kRows, kValues };

// Puts the column minima into v, and their rows into pred.
template <class S>
__device__ void find_minima(const S& s, Minima minima) {
  if (minima == Minima::kRows) load_minima(s);
  if (minima == Minima::kUnknown) {
    typename S::Costs::Range again;
    scan_costs<true>(s, again);
  }
}

// Computes the matching and its duals. `minima` says what v and pred hold at the call.
template <class S>
__device__ Outcome solve_canonical(const S& s, const CostRange& found, Minima& minima) {
  const auto& g = s.group;
  read_unmatched(s);
  const WarmStart warm = inspect_duals(s, found);
  // An auction ran, but its prices exceed the range of this arithmetic. Searches without them would
  // take long, so the solve is left to a wider arithmetic, which can use the prices.
  if (S::Arithmetic::kWatched && warm.held && !warm.use) return Outcome::kTooWide;
  if (!warm.use && !s.cols_optional) find_minima(s, minima);
  minima = Minima::kUnknown;  // the solve overwrites v and pred
  g.sync();
  // Only the threads that have columns search; the other threads wait.
  constexpr int kColumns = Columns<S>::N;
  const int threads = s.f.b.all_search ? g.size : (s.cols + kColumns - 1) / kColumns;
  const typename S::G team{g.thread, (threads + kWarpSize - 1) / kWarpSize * kWarpSize, 2};
  Columns<S> columns(s, team);
  if constexpr (S::kOneWarp) {
    start_warp(s, columns, warm);
  } else {
    start_block(s, warm, found);
  }
  const int count = list_free_rows(s);
  const bool infeasible = s.control[kInfeasibleFlag], too_wide = s.control[kTooWideFlag];
  g.sync();  // all threads have read the flags before a search sets one
  if (infeasible) return Outcome::kInfeasible;
  if (too_wide) return Outcome::kTooWide;
  if (S::kOneWarp || g.thread < team.size) {
    if constexpr (!S::kOneWarp) columns.load_state();
    Outcome outcome = search(s, columns, count);
    if constexpr (!S::kOneWarp) {
      if (outcome == Outcome::kSolved && warm.use && s.cols_optional) {
        outcome = settle_free_columns(s, columns);
      }
    }
    if (g.thread == 0 && outcome == Outcome::kTooWide) s.control[kTooWideFlag] = 1;
    if (g.thread == 0 && outcome == Outcome::kInfeasible) s.control[kInfeasibleFlag] = 1;
  }
  g.sync();
  if (s.control[kInfeasibleFlag]) return Outcome::kInfeasible;
  return s.control[kTooWideFlag] ? Outcome::kTooWide : Outcome::kSolved;
}

// True if costs of this magnitude are too large: one of them, or their sum over all pairs of a
// matching, might reach 2^61.
template <class F>
__device__ bool sums_overflow(const F& f, uint64_t magnitude) {
  constexpr uint64_t kMost = uint64_t(1) << 61;
  const uint64_t pairs = uint64_t(max(min(f.rows, f.cols), 1));
  return magnitude >= kMost / pairs + (kMost % pairs != 0);
}

// Solves the problem in arithmetic A and writes its results. With `scan`, it first determines the
// range of the costs. Returns false, without results, if a wider arithmetic must solve the problem:
// if sums may leave the range of A, or may round. (In Real, sums of floating-point costs may round;
// the gap bounds the error.)
template <class A, int K, int C, bool kOneWarp, Place kPlace, class F>
__device__ bool solve_with(const F& f, double factor, const CostRange& unmatched, bool overflow,
                           bool scan, CostRange& found, Minima& minima) {
  State<A, F, K, C, kOneWarp, kPlace> s(f, {factor, f.b.maximize ? -1.0f : 1.0f, 0});
  f.group.sync();
  if (f.group.thread == 0) s.control[kTooWideFlag] = s.control[kInfeasibleFlag] = 0;
  // Another arithmetic has found these minima, so only their rows are used here. If costs are
  // integers, not even the rows are used, because that arithmetic may have rounded costs.
  if (minima == Minima::kValues) minima = F::Costs::kIntegral ? Minima::kUnknown : Minima::kRows;
  clear(s);
  f.group.sync();
  if (scan) {
    if (f.b.auction) {
      found = *f.template auction<CostRange>(0);
    } else {
      found = scan_cost_range(s);
      if (!s.cols_optional) minima = Minima::kValues;
    }
    if (sizeof(typename F::Raw) == 8 && F::Costs::kIntegral) {
      overflow |= sums_overflow(f, found.magnitude);
    }
    found = merge(found, unmatched);
    if (found.invalid || overflow) {
      write_failure(f, found.invalid ? kInvalidCost : kOverflow);
      return true;
    }
  }
  if constexpr (A::kWatched) {
    const double unit = found.lowest_bit > 0 ? found.lowest_bit : 1;
    if (found.max_abs > unit * 0x1p24 || found.max_abs > 0x1p100 || unit < 0x1p-149) return false;
    s.scale.most = float(unit * 0x1p23);
  } else if (!A::kExact) {
    // Keeps sums along paths finite. Start duals may be 16 times as large as costs, and then allow
    // only smaller costs.
    const double most = f.b.start_dual || f.b.auction ? 0x1p1011 : 0x1p1017;
    if (found.max_abs * fabs(factor) > most / double(f.rows + 1)) return false;
    if (sizeof(typename F::Raw) == 8 && F::Costs::kIntegral && found.max_abs >= 0x1p45)
      return false;
  }
  const Outcome outcome = solve_canonical(s, found, minima);
  if (outcome == Outcome::kTooWide) return false;
  if (outcome == Outcome::kInfeasible) {
    write_failure(f, kInfeasible);
    return true;
  }
  double gap = 0;
  if constexpr (!A::kExact) {
    if (!is_exact(s, found.max_abs, found.lowest_bit)) {
      if (sizeof(typename F::Raw) == 8 && F::Costs::kIntegral && found.lowest_bit >= 1)
        return false;
      gap = prove_gap(s);
      // Adds a bound on the errors that scaling down made: it rounded the smallest costs.
      if (fabs(factor) < 1) gap = (gap + 4 * double(f.rows) * 0x1p-1074) * (1 + 0x1p-50);
    }
  }
  write_solution(s, gap);
  return true;
}

// Returns the range of the unmatched costs. Sets `overflow` if the costs are integers and a sum of
// unmatched costs might reach 2^61, and `whole` if all unmatched costs are integers.
template <class F>
__device__ CostRange scan_unmatched(const F& f, bool& overflow, bool& whole) {
  const AssignmentBatch& b = f.b;
  Doubles::Range range;
  uint64_t flags[2] = {0, 0};
  for (int i = f.group.thread; i < f.rows; i += f.group.size) {
    const int64_t at = f.problem * b.n + f.problem_row(i);
    const double r = read_real(b.unmatched_cost, b.unmatched_dtype, at);
    range.include(uint64_t(__double_as_longlong(r)), b.maximize);
    if (!isfinite(r)) continue;
    if (r != rint(r)) flags[1] = 1;
    uint64_t magnitude = uint64_t(fmin(fabs(r), 0x1p63));
    if (b.unmatched_dtype == Dtype::kS64) {
      const int64_t x = static_cast<const int64_t*>(b.unmatched_cost)[at];
      magnitude = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
    }
    if (F::Costs::kIntegral && sums_overflow(f, magnitude)) flags[0] = 1;
  }
  uint64_t* slots = f.template shared<uint64_t>(b.shared.slots);
  CostRange found;
  range.combine(f.group, slots, found);
  f.group.all_max(flags, slots);
  overflow = flags[0] != 0;
  whole = flags[1] == 0;
  return found;
}

// Solves problems for which float32 is not exact. Never inlined, so that the code for float32 needs
// fewer registers.
template <int K, int C, bool kOneWarp, Place kPlace, class F>
__device__ __noinline__ void solve_wider(const F f, const CostRange unmatched, bool overflow,
                                         bool whole, CostRange found, Minima minima) {
  constexpr bool kLong = sizeof(typename F::Raw) == 8;
  const double sign = f.b.maximize ? -1 : 1;
  double factor = sign;
#pragma unroll 1
  for (bool scan = kLong;; scan = false) {
    if (solve_with<Real, K, C, kOneWarp, kPlace>(f, factor, unmatched, overflow, scan, found,
                                                 minima)) {
      return;
    }
    if (F::Costs::kIntegral || factor != sign) break;
    // Scales down huge costs: their sums along a path would overflow to infinity, which means
    // forbidden.
    factor = sign * ldexp(1.0, -14 - ilogb(double(f.rows + 1)));
  }
  if constexpr (kLong && F::Costs::kIntegral) {
    if (!whole) return write_failure(f, kInvalidCost);
    solve_with<Huge, K, C, kOneWarp, kPlace>(f, sign, unmatched, overflow, false, found, minima);
  } else {
    write_failure(f, kOverflow);  // never happens, but all results must be written
  }
}

template <int K, int C, bool kOneWarp, Place kPlace, class F>
__device__ void solve_form(const F& f) {
  CostRange unmatched{0, 0, false, 0}, found{0, 0, false, 0};
  bool overflow = false, whole = true;
  Minima minima = Minima::kUnknown;
  if (f.b.unmatched_cost) unmatched = scan_unmatched(f, overflow, whole);
  if constexpr (sizeof(typename F::Raw) == 4) {
    const double sign = f.b.maximize ? -1 : 1;
    if (solve_with<Single, K, C, kOneWarp, kPlace>(f, sign, unmatched, overflow, true, found,
                                                   minima)) {
      return;
    }
  }
  solve_wider<K, C, kOneWarp, kPlace>(f, unmatched, overflow, whole, found, minima);
}

template <class Costs, int K, int C, bool kOneWarp>
__device__ void solve_problem(const AssignmentBatch& b, int64_t problem, int thread, int size,
                              int base) {
  CanonicalForm<Costs, kOneWarp> f{b, {thread, size}, problem, base};
  if (!choose_orientation(f, K)) return;
  gather_costs(f);
  if (kOneWarp && b.shared.costs >= 0) {
    solve_form<K, C, kOneWarp, Place::kShared>(f);
  } else if (K == 1 || f.aligned) {
    solve_form<K, C, kOneWarp, Place::kAligned>(f);
  } else {
    solve_form<K, C, kOneWarp, Place::kAnywhere>(f);
  }
}

// Kernel with one warp for each problem.
template <class Costs, int K>
__global__ void __launch_bounds__(64, K == 4 ? 10 : 16)
    assignment_warp_kernel(const __grid_constant__ AssignmentBatch b) {
  const int warp = threadIdx.x / kWarpSize;
  const int64_t problem = int64_t(blockIdx.x) * (blockDim.x / kWarpSize) + warp;
  if (problem >= b.batch) return;
  solve_problem<Costs, K, 1, true>(b, problem, threadIdx.x % kWarpSize, kWarpSize,
                                   warp * b.shared.bytes);
}

// Number of blocks that should fit on one multiprocessor at once. The compiler limits the registers
// of a thread accordingly.
constexpr int blocks_at_once(int warps) { return warps <= 12 ? 2 : 1; }

// Kernel with one block of at most `kMostWarps` warps for each problem. With a lower limit, each
// thread may have more registers.
template <class Costs, int C, int kMostWarps>
__global__ void __launch_bounds__(kMostWarps* kWarpSize, blocks_at_once(kMostWarps))
    assignment_block_kernel(const __grid_constant__ AssignmentBatch b) {
  solve_problem<Costs, 4, C, false>(b, blockIdx.x, threadIdx.x, blockDim.x, 0);
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_KERNEL_CUH_
