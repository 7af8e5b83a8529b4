// The target jaxmatch_min_cost_flow on CUDA. A warp solves each network of the batch.
#include <algorithm>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "min_cost_flow/cuda/warp_lanes.cuh"
#include "min_cost_flow/cuda/workspace.h"
#include "min_cost_flow/operands.h"
#include "min_cost_flow/solve.h"

namespace jaxmatch::min_cost_flow {
namespace {

struct Work {
  Operands operands;
  char* workspace;
  int64_t bytes;      // of a warp
  int64_t hot_bytes;  // of shared memory
};

__global__ void __launch_bounds__(kWarpSize) min_cost_flow_kernel(Work work) {
  extern __shared__ __align__(256) char hot[];
  const Operands& o = work.operands;
  char* const cold = work.workspace + blockIdx.x * work.bytes;
  for (int64_t b = blockIdx.x; b < o.batch; b += gridDim.x) {
    WarpLanes lanes(DeviceArena{cold}, DeviceArena{hot}, work.hot_bytes);
    Problem<WarpLanes>(o.given(b), o.forgiven, lanes, o.results(b))
        .solve([](Problem<WarpLanes>& p, const MassUnits& masses) { return p.by_simplex(masses); });
    __syncwarp();
  }
}

ffi::Error MinCostFlow(cudaStream_t stream, Ends senders, Ends receivers, ffi::AnyBuffer capacity,
                       ffi::AnyBuffer lower, ffi::AnyBuffer cost, ffi::AnyBuffer supply,
                       ffi::AnyBuffer start_flow, ffi::AnyBuffer start_potential,
                       ffi::Result<ffi::AnyBuffer> flow, ffi::Result<ffi::AnyBuffer> value,
                       ffi::Result<ffi::AnyBuffer> potential, ffi::Result<ffi::AnyBuffer> gap,
                       ffi::Result<Flags> source_side, ffi::Result<Flags> cycle,
                       ffi::Result<Ends> status, ffi::Result<ffi::AnyBuffer> workspace,
                       ffi::Dictionary attributes) {
  const auto o =
      decode(senders, receivers, capacity, lower, cost, supply, start_flow, start_potential, flow,
             value, potential, gap, source_side, cycle, status, attributes);
  if (!o.has_value()) return o.error();
  if (o->batch == 0) return ffi::Error::Success();
  GpuLimits gpu;
  JAXMATCH_CUDA_CHECK(gpu.query());
  constexpr int64_t kMostBlocks = 4096;  // more than a GPU holds at a time
  const int64_t hot = hot_bytes(o->nodes, o->edges), blocks = std::min(o->batch, kMostBlocks);
  Work work{*o, static_cast<char*>(workspace->untyped_data()), cold_bytes(o->nodes, o->edges),
            hot <= gpu.shared_bytes ? hot : 0};
  if (int64_t(workspace->size_bytes()) < blocks * work.bytes) {
    return ffi::Error::InvalidArgument(
        "jaxmatch_min_cost_flow: the result for the workspace is too small");
  }
  JAXMATCH_CUDA_CHECK(
      allow_shared_memory(reinterpret_cast<const void*>(min_cost_flow_kernel), gpu.shared_bytes));
  min_cost_flow_kernel<<<unsigned(blocks), kWarpSize, size_t(work.hot_bytes), stream>>>(work);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::min_cost_flow

JAXMATCH_HANDLER(
    jaxmatch_min_cost_flow, jaxmatch::min_cost_flow::MinCostFlow,
    JAXMATCH_BIND_MIN_COST_FLOW(xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>())
        .Ret<xla::ffi::AnyBuffer>()
        .Attrs(),
    {xla::ffi::Traits::kCmdBufferCompatible});
