// The blocks that work on one problem: a cluster, whose blocks read and write each other's shared
// memory, or a single block.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_CLUSTER_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_CLUSTER_CUH_

#include <cstdint>

#include "common/cuda/group.cuh"

namespace jaxmatch::assignment {

struct Cluster {
  int blocks, rank;

  // Barrier of all threads of the blocks. Writes before it are visible to all blocks after it.
  __device__ void sync() const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      asm volatile(
          "barrier.cluster.arrive.release;\n"
          "barrier.cluster.wait.acquire;" ::
              : "memory");
      return;
    }
#endif
    __barrier_sync_count(1, blockDim.x);
  }

  // Translates `here`, an address in this block's shared memory, to the same place in the shared
  // memory of block `of`.
  template <class T>
  __device__ T* in_block(T* here, int of) const {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    if (blocks > 1) {
      uint64_t there;
      asm("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(here), "r"(of));
      return reinterpret_cast<T*>(there);
    }
#endif
    return here;
  }
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_CLUSTER_CUH_
