// The kernels for one large problem. There is one instance per element type.
#ifndef JAXMATCH_LARGE_CUDA_SOLVE_CUH_
#define JAXMATCH_LARGE_CUDA_SOLVE_CUH_

#include "assignment/large/cuda/launch.h"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {

// The methods with candidate sets have one kernel, and both Hungarian methods have another.
// `variant` selects one of a kernel's two methods: if true, begin with an auction, or use the tree
// variant. The time limit starts with the first problem of the batch, and `first` is the control of
// that problem.
template <class T, bool kHasCore>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_large_kernel(LargeProblem<T> p, const LargeResults results, bool resumed,
                            int64_t budget, bool variant, ArcCacheSize cache_size,
                            int64_t time_limit, const Control* first) {
  GridTeam team(p.s.control, cache_size);
  team.leader([&] {
    Control& c = *p.s.control;
    if (!resumed) c = Control{};
    if (time_limit == kNoDeadline) {
      c.deadline = kNoDeadline;
    } else {
      c.deadline = first == &c ? team.now() + time_limit : first->deadline;
    }
  });
  team.sync();
  orient(team, p);
  if constexpr (kHasCore) {
    solve_core(team, p, variant, budget);
  } else {
    solve_hungarian(team, p, variant, budget);
  }
  write_results(team, p, results);
}

static_assert(kGridThreads <= kWarpsOfLists * Lanes::kCount, "");

template <class T>
ffi::Error launch_problem(cudaStream_t stream, const LargeOperands& o, int64_t b) {
  auto p = o.problem<T>(b);
  auto results = results_of(o.batch, b);
  bool resumed = o.resumed,
       variant = o.method == LargeMethod::kAuction || o.method == LargeMethod::kTree;
  const bool core = has_core(o.method);
  int64_t budget = o.budget, time_limit = o.time_limit;
  ArcCacheSize cache_size;
  const Control* first = o.control_of(0);
  void* arguments[] = {&p, &results, &resumed, &budget, &variant, &cache_size, &time_limit, &first};
  return launch_grid(stream,
                     core ? reinterpret_cast<const void*>(assignment_large_kernel<T, true>)
                          : reinterpret_cast<const void*>(assignment_large_kernel<T, false>),
                     p.s.control, std::max(o.batch.n, o.batch.m), core, &cache_size, arguments);
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_INSTANCE(T)                                                          \
  namespace jaxmatch::assignment::large {                                             \
  template ffi::Error launch_problem<T>(cudaStream_t, const LargeOperands&, int64_t); \
  }                                                                                   \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_LARGE_CUDA_SOLVE_CUH_
