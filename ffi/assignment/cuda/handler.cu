// The target jaxmatch_assignment on CUDA: launches one kernel for the whole batch.
#include <cstdlib>
#include <string>

#include "assignment/cuda/launch.h"
#include "assignment/cuda/pick.h"
#include "assignment/cuda/plan.h"
#include "assignment/decode.h"
#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"

namespace jaxmatch::assignment {

ffi::Error launch_assignment(AssignmentBatch b, cudaStream_t stream) {
  if (b.batch == 0) return ffi::Error::Success();
  if (const int64_t longest = longest_side(b.cost_dtype); std::max(b.n, b.m) > longest) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: a side longer than " +
                                       std::to_string(longest) + " on CUDA");
  }
  if (b.workspace_costs > 0 && b.workspace_costs < copied_costs(b)) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: the workspace is too small");
  }
  GpuLimits gpu;
  JAXMATCH_CUDA_CHECK(gpu.query());
  const int most_bytes = gpu.shared_bytes;
  const Plan plan = make_plan(b, std::getenv("JAXMATCH_CUDA_KERNEL"), most_bytes);
  if (plan.bytes > most_bytes) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment: problems of " + std::to_string(b.n) + " x " +
                          std::to_string(b.m) + " need " + std::to_string(plan.bytes) +
                          " bytes of shared memory, this GPU has " + std::to_string(most_bytes) +
                          "; method=\"xla\" needs none");
  }
  if (plan.blocks > INT32_MAX) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment: too many problems in one batch");
  }
  const AssignmentKernel kernel = plan.one_warp ? warp_kernel(plan.columns_per_lane, b.cost_dtype)
                                                : block_kernel(plan.threads / 32, b.cost_dtype);
  constexpr int kAlwaysThere = 48 << 10;  // bytes that every kernel may use
  if (plan.bytes > kAlwaysThere) {
    JAXMATCH_CUDA_CHECK(allow_shared_memory(reinterpret_cast<const void*>(kernel), most_bytes));
  }
  kernel<<<unsigned(plan.blocks), plan.threads, plan.bytes, stream>>>(b);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

namespace {

ffi::Error Assignment(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                      ffi::Dictionary attributes) {
  Attributes given("jaxmatch_assignment", attributes);
  const auto decoded = decode_assignment(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const auto workspace = result_at(rets, kNumResults);
  if (!workspace) return given.error("a result for the workspace is missing");
  AssignmentBatch b{*decoded, workspace->untyped_data(), 0, {}, {}, false};
  if (b.batch == 0) return ffi::Error::Success();
  const int word = size_of(b.cost_dtype) == 8 ? 8 : 4;
  b.workspace_costs = int64_t(workspace->size_bytes()) / b.batch / word;
  return launch_assignment(b, stream);
}

}  // namespace
}  // namespace jaxmatch::assignment

JAXMATCH_HANDLER(jaxmatch_assignment, jaxmatch::assignment::Assignment,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
