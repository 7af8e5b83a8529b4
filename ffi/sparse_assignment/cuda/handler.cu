// The target jaxmatch_sparse_assignment on CUDA: a team of blocks for each problem of the batch.
#include <algorithm>

#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "sparse_assignment/cuda/team.cuh"
#include "sparse_assignment/decode.h"

namespace jaxmatch::sparse_assignment {
namespace {

// The number of blocks of each problem: as many as have work, but no more than can run at once,
// because blocks wait for each other at barriers.
int blocks_of_each(const Batch& batch, const Workspace& w, int multiprocessors) {
  const int64_t most = multiprocessors / std::max<int64_t>(batch.size, 1);
  return int(std::max<int64_t>(1, std::min(w.blocks(), most)));
}

// The number of slots in each warp's hash table. All kernels use the same number, because results
// depend on it.
int64_t slots_for(const Workspace& w, const GpuLimits& gpu) {
  using Most = Shared<kManyThreads>;
  const bool few = w.vertices <= most_in(kFewSlots) ||
                   int64_t(sizeof(Most)) + Most::bytes_of_tables(kMostSlots) > gpu.shared_bytes;
  return few ? kFewSlots : kMostSlots;
}

template <int kThreads>
ffi::Error launch(cudaStream_t stream, const Batch& batch, SparseBatch work, const GpuLimits& gpu) {
  const SparseProblem& p = batch.first;
  int64_t shared_bytes =
      int64_t(sizeof(Shared<kThreads>)) + Shared<kThreads>::bytes_of_tables(work.slots);
  const int64_t state_bytes = Workspace(nullptr, p.n, p.m, p.capacity).move_state(nullptr);
  work.state_in_shared = work.blocks == 1 && shared_bytes + state_bytes <= gpu.shared_bytes;
  if (work.state_in_shared) shared_bytes += state_bytes;
  const SparseKernel kernel = pick_sparse_kernel<kThreads>();
  const void* const address = reinterpret_cast<const void*>(kernel);
  if (work.blocks == 1) {
    JAXMATCH_CUDA_CHECK(allow_shared_memory(address, gpu.shared_bytes));
    constexpr int64_t kMost = 1 << 30;  // most blocks of a launch
    for (int64_t first = 0; first < batch.size; first += kMost) {
      SparseBatch part = work;
      part.first = problem_at(batch.first, first);
      part.workspace += first * work.workspace_bytes;
      const unsigned count = unsigned(std::min(batch.size - first, kMost));
      kernel<<<count, kThreads, size_t(shared_bytes), stream>>>(part);
      JAXMATCH_CUDA_CHECK(cudaGetLastError());
    }
    return ffi::Error::Success();
  }
  // The counts of arrivals at barriers must start at zero.
  JAXMATCH_CUDA_CHECK(cudaMemset2DAsync(work.workspace, size_t(work.workspace_bytes), 0,
                                        sizeof(uint64_t), size_t(batch.size), stream));
  void* arguments[] = {&work};
  JAXMATCH_CUDA_CHECK(launch_cooperative(stream, address, int(batch.size) * work.blocks, kThreads,
                                         arguments, shared_bytes, gpu.shared_bytes));
  return ffi::Error::Success();
}

ffi::Error SparseAssignment(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                            ffi::Dictionary attributes) {
  Attributes given("jaxmatch_sparse_assignment", attributes);
  const auto decoded = decode_sparse(args, rets, given, 1);
  if (!decoded.has_value()) return decoded.error();
  const Batch& batch = *decoded;
  const SparseProblem& p = batch.first;
  if (batch.size == 0) return ffi::Error::Success();
  if (!p.col_ptr || !p.row_ind) return given.error("the edges by columns are missing");
  const auto workspace = result_at(rets, rets.size() - 1);
  const Workspace layout(nullptr, p.n, p.m, p.capacity);
  const int64_t bytes = layout.bytes;
  if (int64_t(workspace->size_bytes()) < batch.size * bytes) {
    return given.error("the result for the workspace is too small");
  }
  GpuLimits gpu;
  JAXMATCH_CUDA_CHECK(gpu.query());
  SparseBatch work{};
  work.first = p;
  work.blocks = blocks_of_each(batch, layout, gpu.multiprocessors);
  work.slots = int(slots_for(layout, gpu));
  work.workspace = static_cast<char*>(workspace->untyped_data());
  work.workspace_bytes = bytes;
  // If all columns of a problem fit into the table of a warp, no search needs the table of a block.
  const bool small = work.blocks == 1 && batch.size > gpu.multiprocessors &&
                     layout.vertices <= most_in(work.slots);
  return small ? launch<kFewThreads>(stream, batch, work, gpu)
               : launch<kManyThreads>(stream, batch, work, gpu);
}

}  // namespace
}  // namespace jaxmatch::sparse_assignment

JAXMATCH_HANDLER(jaxmatch_sparse_assignment, jaxmatch::sparse_assignment::SparseAssignment,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
