// Launches of kernels that need much shared memory, or whose blocks wait for each other.
#ifndef JAXMATCH_CUDA_COOPERATIVE_LAUNCH_H_
#define JAXMATCH_CUDA_COOPERATIVE_LAUNCH_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace jaxmatch {

// Limits of the calling thread's GPU. A block may use up to `shared_bytes` of shared memory.
struct GpuLimits {
  int multiprocessors = 0, shared_bytes = 0;

  cudaError_t query() {
    int device = 0;
    cudaError_t status = cudaGetDevice(&device);
    if (status != cudaSuccess) return status;
    status = cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, device);
    if (status != cudaSuccess) return status;
    return cudaDeviceGetAttribute(&shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
  }
};

// Allows launches of the kernel with up to `most_bytes` of shared memory. Pass the same number for
// all launches of a kernel: the setting belongs to the kernel, so a smaller number could make a
// launch by another thread fail.
inline cudaError_t allow_shared_memory(const void* kernel, int most_bytes) {
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, most_bytes);
}

// Calls allow_shared_memory(kernel, most_shared_bytes), then launches the kernel. Fails unless all
// blocks can be resident at the same time.
inline cudaError_t launch_cooperative(cudaStream_t stream, const void* kernel, int blocks,
                                      int threads, void** arguments, int64_t shared_bytes,
                                      int most_shared_bytes) {
  const cudaError_t status = allow_shared_memory(kernel, most_shared_bytes);
  if (status != cudaSuccess) return status;
  return cudaLaunchCooperativeKernel(kernel, dim3(unsigned(blocks)), dim3(unsigned(threads)),
                                     arguments, size_t(shared_bytes), stream);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_COOPERATIVE_LAUNCH_H_
