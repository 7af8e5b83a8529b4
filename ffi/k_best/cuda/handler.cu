// The target jaxmatch_k_best on CUDA. One block solves each problem of the batch.
#include <algorithm>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "k_best/cuda/kernel.cuh"
#include "k_best/decode.h"

namespace jaxmatch::k_best {
namespace {

ffi::Error KBest(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                 ffi::Dictionary attributes) {
  Attributes given("jaxmatch_k_best", attributes);
  const auto decoded = decode_k_best(args, rets, given, 1);
  if (!decoded.has_value()) return decoded.error();
  const Batch& batch = *decoded;
  if (batch.size == 0) return ffi::Error::Success();
  const auto workspace = result_at(rets, rets.size() - 1);
  const Bounds size(batch.first.n, batch.first.m, batch.first.k);
  const int64_t bytes = (Workspace(nullptr, size).bytes + 3) / 4 * 4;
  if (int64_t(workspace->size_bytes()) < batch.size * bytes) {
    return given.error("the result for the workspace is too small");
  }
  if (size.stride > kLongestSide || batch.first.k > kLongestList) {
    return given.error("a side or a list that is too long for this kernel");
  }
  GpuLimits gpu;
  JAXMATCH_CUDA_CHECK(gpu.query());
  KBestBatch work{};
  work.workspace = static_cast<char*>(workspace->untyped_data());
  work.workspace_bytes = bytes;
  const int64_t shared_bytes = plan_shared_memory(size, gpu.shared_bytes, &work);
  JAXMATCH_CUDA_CHECK(
      allow_shared_memory(reinterpret_cast<const void*>(k_best_kernel), gpu.shared_bytes));
  constexpr int64_t kMost = 1 << 30;  // greatest number of blocks per launch
  for (int64_t first = 0; first < batch.size; first += kMost) {
    work.first = problem_at(batch.first, first);
    const unsigned count = unsigned(std::min(batch.size - first, kMost));
    k_best_kernel<<<count, kThreads, size_t(shared_bytes), stream>>>(work);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
    work.workspace += kMost * bytes;
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::k_best

JAXMATCH_HANDLER(jaxmatch_k_best, jaxmatch::k_best::KBest,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
