// The targets jaxmatch_transport and jaxmatch_transport_points on CUDA. A warp or a team of blocks
// solves each problem of the batch.
#include <algorithm>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "transport/cuda/pick.h"
#include "transport/cuda/small_memory.h"
#include "transport/cuda/team.cuh"
#include "transport/cuda/workspace.h"
#include "transport/decode.h"

namespace jaxmatch::transport {
namespace {

// The number of blocks per problem: as many as have enough work, but no more than can run at the
// same time, because blocks wait for each other at barriers.
int blocks_of_each(const Batch& batch, int multiprocessors) {
  const int64_t n = batch.first.n, m = batch.first.m;
  const int64_t pairs = has_few_columns(n, m) ? 1 << 12 : 1 << 16;  // least pairs per block
  const int64_t useful = n * m / pairs;
  const int64_t most =
      std::min<int64_t>(multiprocessors / std::max<int64_t>(batch.size, 1), kMostBlocks);
  return int(std::max<int64_t>(1, std::min(useful, most)));
}

// Solves a batch of small problems (is_small()), with one warp per problem.
ffi::Error solve_small(cudaStream_t stream, TransportKernel kernel, const TransportBatch& work,
                       int most_shared) {
  const TransportProblem& p = work.first;
  const int64_t shared_bytes = int64_t(sizeof(Shared)) + 8 * SmallMemory{p.n, p.m}.shared_words();
  JAXMATCH_CUDA_CHECK(allow_shared_memory(reinterpret_cast<const void*>(kernel), most_shared));
  kernel<<<unsigned(work.size), kWarpSize, size_t(shared_bytes), stream>>>(work);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

ffi::Error solve(cudaStream_t stream, const ffi::ErrorOr<Batch>& decoded, ffi::RemainingRets rets,
                 const Attributes& given) {
  if (!decoded.has_value()) return decoded.error();
  const Batch& batch = *decoded;
  if (batch.size == 0) return ffi::Error::Success();
  const auto workspace = result_at(rets, rets.size() - 1);
  const int64_t bytes = (workspace_bytes(batch.first.n, batch.first.m) + 3) / 4 * 4;
  if (int64_t(workspace->size_bytes()) < batch.size * bytes) {
    return given.error("the result for the workspace is too small");
  }
  GpuLimits gpu;
  JAXMATCH_CUDA_CHECK(gpu.query());
  const int64_t n = batch.first.n, m = batch.first.m;
  int64_t shared_bytes = int64_t(sizeof(Shared));
  const auto fits = [&](int64_t more) {
    const bool yes = shared_bytes + more <= gpu.shared_bytes;
    if (yes) shared_bytes += more;
    return yes;
  };
  TransportBatch work{};
  work.first = batch.first;
  work.size = batch.size;
  work.blocks = blocks_of_each(batch, gpu.multiprocessors);
  const int64_t few = few_columns_bytes(n, m, false);
  if (few > 0 && fits(few)) {
    work.lengths_in_shared = fits(few_columns_bytes(n, m, true) - few);
    work.few_bytes = few_columns_bytes(n, m, work.lengths_in_shared);
  }
  work.tree_in_shared = fits(tree_bytes(n + m + 1));
  work.state_in_shared =
      work.blocks == 1 && fits(Workspace(nullptr, n, m).move_state(nullptr, n, m));
  work.workspace = static_cast<char*>(workspace->untyped_data());
  work.workspace_bytes = bytes;
  const TransportKernel small = small_transport_kernel_for(batch.first);
  work.only_left = small != nullptr;
  if (small) {
    const ffi::Error error = solve_small(stream, small, work, gpu.shared_bytes);
    if (error.failure()) return error;
  }
  const TransportKernel kernel = transport_kernel_for(batch.first);
  const void* const address = reinterpret_cast<const void*>(kernel);
  const int threads = threads_for(n, m);
  if (work.blocks == 1) {
    constexpr int kMostBlocksOfProcessor = 32;
    JAXMATCH_CUDA_CHECK(allow_shared_memory(address, gpu.shared_bytes));
    const int64_t most = int64_t(gpu.multiprocessors) * kMostBlocksOfProcessor;
    kernel<<<unsigned(std::min(batch.size, most)), threads, size_t(shared_bytes), stream>>>(work);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
    return ffi::Error::Success();
  }
  // The counts of arrivals at barriers begin at zero.
  JAXMATCH_CUDA_CHECK(cudaMemset2DAsync(work.workspace, size_t(bytes), 0, sizeof(uint64_t),
                                        size_t(batch.size), stream));
  void* arguments[] = {&work};
  JAXMATCH_CUDA_CHECK(launch_cooperative(stream, address, int(batch.size) * work.blocks, threads,
                                         arguments, shared_bytes, gpu.shared_bytes));
  return ffi::Error::Success();
}

ffi::Error Transport(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                     ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport", attributes);
  return solve(stream, decode_transport(args, rets, given, 1), rets, given);
}

ffi::Error TransportPoints(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                           ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport_points", attributes);
  return solve(stream, decode_transport_points(args, rets, given, 1), rets, given);
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
JAXMATCH_HANDLER(jaxmatch_transport_points, jaxmatch::transport::TransportPoints,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
