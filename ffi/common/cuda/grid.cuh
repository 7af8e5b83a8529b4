// The threads of a cooperative launch: their indices in the grid, counters that all threads read at
// a barrier, and lists that the threads append to.
#ifndef JAXMATCH_CUDA_GRID_CUH_
#define JAXMATCH_CUDA_GRID_CUH_

#include <cstdint>

#include "common/cuda/memory_order.cuh"
#include "common/cuda/warp.cuh"
#include "common/tally.h"

#ifndef JAXMATCH_EMULATED
#include <cooperative_groups.h>
#endif

namespace jaxmatch {

#ifndef JAXMATCH_EMULATED
__device__ inline void grid_barrier() { cooperative_groups::this_grid().sync(); }

// Reserves a place in a list for each calling lane and returns it. `count` is the length of the
// list. All lanes that call together share one atomic operation.
__device__ inline int32_t take_place(int32_t* count) {
  const auto lanes = cooperative_groups::coalesced_threads();
  int at = 0;
  if (lanes.thread_rank() == 0) at = atomicAdd(count, int(lanes.size()));
  return lanes.shfl(at, 0) + int(lanes.thread_rank());
}
#endif

// All threads of a launch. With kMayBeAlone, a Grid may instead be the threads of a single block,
// which solves a problem alone. kTotal() returns a Tally in the block's shared memory.
template <Tally& (*kTotal)(), bool kMayBeAlone>
class Grid {
 public:
  // `ring` has kTallies tallies, which must be zero. `step` is the number of the first step; a step
  // is the work between two barriers. `alone`: whether this block is alone.
  __device__ explicit Grid(Tally* ring, int step = 0, bool alone = false)
      : ring_(ring), step_(step), alone_(alone) {}

  __device__ int blocks() const { return is_alone() ? 1 : int(gridDim.x); }
  __device__ int block() const { return is_alone() ? 0 : int(blockIdx.x); }
  // Consecutive warps are in different blocks, so that even a few items keep all multiprocessors
  // busy.
  __device__ int warp() const { return int(threadIdx.x / 32) * blocks() + block(); }
  __device__ int warps() const { return int(blockDim.x / 32) * blocks(); }
  __device__ int thread() const { return warp() * 32 + lane(); }
  __device__ int threads() const { return int(blockDim.x) * blocks(); }
  __device__ static int lane() { return int(threadIdx.x % 32); }
  __device__ bool leader() const { return block() == 0 && threadIdx.x == 0; }

  __device__ Tally* tally() const { return ring_ + step_ % kTallies; }
  // A barrier for all threads. Returns the tally: the counts that all threads have added since the
  // previous barrier. Threads add to the tally at any time, by atomic operations in global memory.
  // So a block has no sum that it could announce together with its arrival, as a block does in
  // assignment/large/cuda/team.cuh and grid_cut/cuda/barrier.cuh.
  __device__ Tally barrier_reduce() {
    if (leader()) ring_[(step_ + 2) % kTallies] = Tally{};
    if (is_alone()) {
      __threadfence();
      __syncthreads();
    } else {
      grid_barrier();
    }
    if (threadIdx.x == 0) {
      const int4 x = __ldcg(reinterpret_cast<const int4*>(tally()));
      kTotal() = {x.x, x.y, x.z, x.w};
    }
    __syncthreads();
    const Tally result = kTotal();
    __syncthreads();  // all have read kTotal() before the next barrier writes it
    ++step_;
    return result;
  }
  __device__ int steps() const { return step_; }

  template <class F>
  __device__ void each(int64_t count, F f) const {
    for (int64_t k = thread(); k < count; k += threads()) f(k);
  }
  // Like each(), but all lanes of a warp call f(k, exists) together. `exists` is whether k < count.
  template <class F>
  __device__ void each_warp(int64_t count, F f) const {
    for (int64_t first = thread() - lane(); first < count; first += threads()) {
      f(first + lane(), first + lane() < count);
    }
  }

 private:
  __device__ bool is_alone() const { return kMayBeAlone && alone_; }

  Tally* ring_;
  int step_;
  bool alone_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GRID_CUH_
