// Handler of the target jaxmatch_assignment_sharded on CUDA: one step of this GPU's shard. A step
// is one cooperative launch, or three with the core method, whose searches have a separate kernel.
#include "assignment/large/cuda/launch.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {

// See sharded.cuh.
template <class T>
ffi::Error launch_shard(cudaStream_t stream, const ShardedOperands& o);
const void* search_kernel();

namespace {

// A separate kernel gets its own register allocation. With searches inside the sharded kernel,
// problems of 150,000 rows took 133 ms instead of 114.
__global__ void __launch_bounds__(kGridThreads, 1)
    assignment_sharded_search_kernel(LargeProblem<float> p, Continuation* continuation, bool rows,
                                     ArcCacheSize cache_size) {
  GridTeam team(p.s.control, cache_size);
  search_shard(team, p, continuation, rows);
}

ffi::Error AssignmentSharded(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                             ffi::Dictionary attributes) {
  const auto o = decode_sharded(args, rets, attributes);
  if (!o.has_value()) return o.error();
  return o->for_costs([&](auto element) { return launch_shard<decltype(element)>(stream, *o); });
}

}  // namespace

const void* search_kernel() {
  return reinterpret_cast<const void*>(assignment_sharded_search_kernel);
}

}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(jaxmatch_assignment_sharded, jaxmatch::assignment::large::AssignmentSharded,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
