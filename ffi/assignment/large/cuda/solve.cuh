// The kernels for one large problem; one instance per element type.
#ifndef JAXMATCH_LARGE_CUDA_SOLVE_CUH_
#define JAXMATCH_LARGE_CUDA_SOLVE_CUH_

#include "assignment/large/cuda/launch.h"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {

// One kernel for each engine; both Hungarian methods have the same.
enum class Engine { kCore, kAuction, kHungarian };

template <class T, Engine kEngine>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_large_kernel(LargeProblem<T> p, const LargeResults results, bool resumed,
                            int64_t budget, bool tree, ArcCacheSize cache_size) {
  GridTeam team(p.s.control, cache_size);
  if (!resumed) {
    team.leader([&] { *p.s.control = Control{}; });
    team.sync();
  }
  orient(team, p);
  if constexpr (kEngine == Engine::kCore) {
    solve_core(team, p, budget);
  } else if constexpr (kEngine == Engine::kAuction) {
    solve_auction(team, p, budget);
  } else {
    solve_hungarian(team, p, tree, budget);
  }
  write_results(team, p, results);
}

template <class T>
const void* large_kernel(LargeMethod method) {
  switch (method) {
    case LargeMethod::kCore:
      return reinterpret_cast<const void*>(assignment_large_kernel<T, Engine::kCore>);
    case LargeMethod::kAuction:
      return reinterpret_cast<const void*>(assignment_large_kernel<T, Engine::kAuction>);
    default:
      return reinterpret_cast<const void*>(assignment_large_kernel<T, Engine::kHungarian>);
  }
}

template <class T>
ffi::Error launch_problem(cudaStream_t stream, const LargeOperands& o, int64_t b) {
  auto p = o.problem<T>(b);
  auto results = results_of(o.batch, b);
  bool resumed = o.resumed, tree = o.method == LargeMethod::kTree;
  int64_t budget = o.budget;
  ArcCacheSize cache_size;
  void* arguments[] = {&p, &results, &resumed, &budget, &tree, &cache_size};
  return launch_grid(stream, large_kernel<T>(o.method), p.s.control, std::max(o.batch.n, o.batch.m),
                    has_core(o.method), &cache_size, arguments);
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_INSTANCE(T)                                                          \
  namespace jaxmatch::assignment::large {                                             \
  template ffi::Error launch_problem<T>(cudaStream_t, const LargeOperands&, int64_t); \
  }                                                                                   \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_LARGE_CUDA_SOLVE_CUH_
