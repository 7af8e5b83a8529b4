// The target jaxmatch_assignment on CUDA: launches one kernel for the whole batch, preceded by an
// auction kernel if that helps.
#include <cstdlib>
#include <string>

#include "assignment/cuda/launch.h"
#include "assignment/cuda/pick.h"
#include "assignment/cuda/plan.h"
#include "assignment/decode.h"
#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"

namespace jaxmatch::assignment {

namespace {

// Launches the auctions of all problems. The solver's kernel, which follows in the stream, reads
// their results.
ffi::Error launch_auction(const AssignmentBatch& o, const GpuLimits& gpu, const char* asked,
                          cudaStream_t stream) {
  const AuctionKernel kernel = auction_kernel(o.cost_dtype);
  const void* address = reinterpret_cast<const void*>(kernel);
  // Code that was compiled for older GPUs and translated by the driver does not support clusters.
  cudaFuncAttributes code;
  JAXMATCH_CUDA_CHECK(cudaFuncGetAttributes(&code, address));
  const int most_blocks = code.ptxVersion >= 90 ? 8 : 1;  // 8 is the portable cluster size
  const int blocks = auction_blocks(o, gpu.multiprocessors, most_blocks, asked);
  AuctionBatch b = make_auction(o, blocks);
  b.always = asks_for(asked, "auction");
  JAXMATCH_CUDA_CHECK(allow_shared_memory(address, gpu.shared_bytes));
  cudaLaunchAttribute cluster;
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = unsigned(blocks);
  cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(unsigned(b.batch * blocks));
  config.blockDim = dim3(kAuctionThreads);
  config.dynamicSmemBytes = size_t(b.shared.bytes);
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = blocks > 1 ? 1 : 0;
  JAXMATCH_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, b));
  return ffi::Error::Success();
}

}  // namespace

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
  const char* asked = std::getenv("JAXMATCH_CUDA_KERNEL");
  const Plan plan = make_plan(b, asked, most_bytes);
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
  constexpr int kAlwaysThere = 48 << 10;  // bytes of shared memory that need no opt-in
  if (plan.bytes > kAlwaysThere) {
    JAXMATCH_CUDA_CHECK(allow_shared_memory(reinterpret_cast<const void*>(kernel), most_bytes));
  }
  if (b.auction && make_auction(b, 1).shared.bytes > gpu.shared_bytes) b.auction = nullptr;
  if (b.auction) {
    if (ffi::Error error = launch_auction(b, gpu, asked, stream); error.failure()) return error;
    b.gathered = true;
  }
  kernel<<<unsigned(plan.blocks), plan.threads, plan.bytes, stream>>>(b);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

namespace {

ffi::Error Assignment(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                      ffi::Dictionary attributes) {
  Attributes given("jaxmatch_assignment", attributes);
  const auto decoded = decode_assignment(args, rets, given, 2);
  if (!decoded.has_value()) return decoded.error();
  if (!check_assignment(args, rets, given, *decoded)) return given.error();
  const auto workspace = result_at(rets, kNumResults);
  AssignmentBatch b{*decoded, workspace->untyped_data(), 0, {}, {}, false, nullptr, false};
  if (b.batch == 0) return ffi::Error::Success();
  const int word = size_of(b.cost_dtype) == 8 ? 8 : 4;
  b.workspace_costs = int64_t(workspace->size_bytes()) / b.batch / word;
  const auto auction = result_at(rets, kNumResults + 1);
  if (has_auction(b) && has_auction(b, std::getenv("JAXMATCH_CUDA_KERNEL"))) {
    if (int64_t(auction->size_bytes()) < b.batch * auction_words(b) * 4) {
      return given.error("the result for the auction is too small");
    }
    if (b.workspace_costs >= copied_costs(b))
      b.auction = static_cast<uint32_t*>(auction->untyped_data());
  }
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
