// The kernel for this GPU's shard of a sharded problem. There is one instance per element type.
#ifndef JAXMATCH_LARGE_CUDA_SHARDED_CUH_
#define JAXMATCH_LARGE_CUDA_SHARDED_CUH_

#include "assignment/large/cuda/launch.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {

// The kernel for the searches of the core method; its arguments do not depend on the element type.
const void* search_kernel();

// Arguments that depend on the device and not on the problem.
struct ShardPlacement {
  bool rows;
  int64_t each;
  const int32_t* me;
  char* cores_out;
  int64_t core_count;
  TightList* lists_out;
};

template <class T>
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_sharded_kernel(const Sharded<T> d, const LargeResults results,
                              const ShardPlacement placement, ArcCacheSize cache_size, bool again) {
  GridTeam team(d.p.s.control, cache_size);
  run_shard(team, d, results, placement.rows, placement.each, placement.me, placement.cores_out,
            placement.core_count, placement.lists_out, again);
}

template <class T>
ffi::Error launch_shard(cudaStream_t stream, const ShardedOperands& o) {
  auto d = o.problem<T>();
  auto results = results_of(o.whole, 0);
  ShardPlacement placement{o.rows, o.each(), o.me, o.cores_out, o.core_count(), o.lists_out};
  ArcCacheSize cache_size;
  bool again = false;
  void* arguments[] = {&d, &results, &placement, &cache_size, &again};
  const auto launch = [&](const void* kernel, void** its_arguments) {
    return launch_grid(stream, kernel, d.p.s.control, std::max(o.whole.n, o.whole.m), d.core,
                       &cache_size, its_arguments);
  };
  const void* const kernel = reinterpret_cast<const void*>(assignment_sharded_kernel<T>);
  const ffi::Error error = launch(kernel, arguments);
  if (!d.core || error.failure()) return error;
  auto p = o.without_costs();
  void* for_search[] = {&p, &d.continuation, &placement.rows, &cache_size};
  const ffi::Error search_error = launch(search_kernel(), for_search);
  if (search_error.failure()) return search_error;
  again = true;
  return launch(kernel, arguments);
}

}  // namespace jaxmatch::assignment::large

#define JAXMATCH_INSTANCE(T)                                                 \
  namespace jaxmatch::assignment::large {                                    \
  template ffi::Error launch_shard<T>(cudaStream_t, const ShardedOperands&); \
  }                                                                          \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_LARGE_CUDA_SHARDED_CUH_
