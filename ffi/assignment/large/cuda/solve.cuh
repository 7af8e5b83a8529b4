// The kernels for one large problem; one instance per element type.
#ifndef JAXMATCH_LARGE_CUDA_SOLVE_CUH_
#define JAXMATCH_LARGE_CUDA_SOLVE_CUH_

#include "assignment/large/cuda/launch.h"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {

template <class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_core_kernel(LargeProblem<T> p, const LargeResults results, bool resumed,
                           int64_t budget, ArcCacheSize cache_size) {
  GridTeam team(p.s.control, cache_size);
  if (!resumed) {
    team.leader([&] { *p.s.control = Control{}; });
    team.sync();
  }
  orient(team, p);
  solve_core(team, p, budget);
  write_results(team, p, results);
}

template <class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_hungarian_kernel(LargeProblem<T> p, const LargeResults results, bool resumed,
                                int64_t budget, LargeMethod method) {
  GridTeam team(p.s.control, ArcCacheSize{});
  if (!resumed) {
    team.leader([&] { *p.s.control = Control{}; });
    team.sync();
  }
  orient(team, p);
  solve_hungarian(team, p, method == LargeMethod::kTree, budget);
  write_results(team, p, results);
}

template <class T>
ffi::Error launch_problem(cudaStream_t stream, const LargeOperands& o, int64_t b) {
  auto p = o.problem<T>(b);
  auto results = results_of(o.batch, b);
  bool resumed = o.resumed;
  int64_t budget = o.budget;
  LargeMethod method = o.method;
  const bool core = method == LargeMethod::kCore;
  ArcCacheSize cache_size;
  void* last = core ? static_cast<void*>(&cache_size) : static_cast<void*>(&method);
  void* arguments[] = {&p, &results, &resumed, &budget, last};
  return launch_grid(stream,
                     core ? reinterpret_cast<void*>(assignment_core_kernel<T>)
                          : reinterpret_cast<void*>(assignment_hungarian_kernel<T>),
                     p.s.control, std::max(o.batch.n, o.batch.m), core, &cache_size, arguments);
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_INSTANCE(T)                                                          \
  namespace jaxmatch::assignment::large {                                             \
  template ffi::Error launch_problem<T>(cudaStream_t, const LargeOperands&, int64_t); \
  }                                                                                   \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_LARGE_CUDA_SOLVE_CUH_
