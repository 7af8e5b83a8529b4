// The target jaxmatch_transport on CUDA: one block for each problem of the batch.
#include <algorithm>

#include "common/cuda/check.h"
#include "transport/cuda/block.cuh"
#include "transport/cuda/kernels.h"
#include "transport/cuda/workspace.h"
#include "transport/decode.h"

namespace jaxmatch::transport {
namespace {

ffi::Error Transport(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                     ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport", attributes);
  const auto decoded = decode_transport(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const Batch& batch = *decoded;
  if (batch.size == 0) return ffi::Error::Success();
  const auto workspace = assignment::result_at(rets, kNumResults);
  if (!workspace) return given.error("a result for the workspace is missing");
  const int64_t bytes = (Workspace(nullptr, batch.first.n, batch.first.m).bytes + 3) / 4 * 4;
  if (int64_t(workspace->size_bytes()) < batch.size * bytes) {
    return given.error("the result for the workspace is too small");
  }
  const TransportBatch work{batch.first, batch.size, static_cast<char*>(workspace->untyped_data()),
                            bytes};
  constexpr int64_t kMostBlocks = 1 << 16;
  const unsigned blocks = unsigned(std::min(batch.size, kMostBlocks));
  transport_kernel_for(batch.first.cost_dtype)<<<blocks, kThreads, sizeof(Shared), stream>>>(work);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::transport

JAXMATCH_HANDLER(jaxmatch_transport, jaxmatch::transport::Transport,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
