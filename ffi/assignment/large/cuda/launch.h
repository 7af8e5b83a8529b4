// Launches a kernel that runs as a GridTeam, with one block per multiprocessor.
#ifndef JAXMATCH_LARGE_CUDA_LAUNCH_H_
#define JAXMATCH_LARGE_CUDA_LAUNCH_H_

#include <algorithm>
#include <string>

#include "assignment/large/cuda/team.cuh"
#include "common/cuda/check.h"
#include "common/cuda/cooperative_launch.h"
#include "xla/ffi/api/ffi.h"

namespace jaxmatch::assignment::large {

// Threads of a block. Each multiprocessor runs one block; there are not enough registers for twice
// as many threads.
constexpr int kGridThreads = 512;

// Sets `cache_size`, which is one of the kernel's arguments. The cache has room for arcs only if
// the kernel uses candidate sets (`has_core`).
inline ffi::Error launch_grid(cudaStream_t stream, const void* kernel, Control* control,
                              int64_t side, bool has_core, ArcCacheSize* cache_size,
                              void** arguments) {
  GpuLimits gpu;
  JAXMATCH_CUDA_CHECK(gpu.query());
  const int blocks = gpu.multiprocessors, most_bytes = gpu.shared_bytes;
  if (const int64_t most = GridTeam::most_rows(blocks * kGridThreads / 32); side > most) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch: a side of " + std::to_string(side) +
                          " is more than this GPU's threads can look after, " +
                          std::to_string(most) + "; one with more multiprocessors could");
  }
  *cache_size = ArcCacheSize::of(has_core ? side : 0, blocks, most_bytes - GridTeam::kBytesOfTeam);
  JAXMATCH_CUDA_CHECK(
      cudaMemsetAsync(GridTeam::barrier_of(control), 0, sizeof(BarrierState), stream));
  JAXMATCH_CUDA_CHECK(launch_cooperative(stream, kernel, blocks, kGridThreads, arguments,
                                         GridTeam::bytes(*cache_size), most_bytes));
  return ffi::Error::Success();
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CUDA_LAUNCH_H_
