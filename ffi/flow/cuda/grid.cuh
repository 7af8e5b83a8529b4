// The threads that solve one flow network: all blocks of a cooperative launch, or one block alone.
#ifndef JAXMATCH_FLOW_CUDA_GRID_CUH_
#define JAXMATCH_FLOW_CUDA_GRID_CUH_

#include "common/cuda/grid.cuh"
#include "flow/operands.h"

namespace jaxmatch::flow {

constexpr int kFlowThreads = 1024;  // per block; one block per multiprocessor
#ifndef JAXMATCH_EMULATED
constexpr int kFlowStaged = 2048;  // entries of eight bytes in each of a block's two lists
// Networks of up to this many nodes have one bit per node in shared memory.
constexpr int32_t kKnownNodes = 1 << 19;
#endif

// The beginning of a block's shared memory; two lists follow.
struct alignas(16) FlowShared {
  Tally total;
  // Counters of a round, in three copies used in rotation, so that one barrier per round suffices:
  // while one copy counts, the next is cleared, and threads may still read the previous one.
  // - `listed`: entries of the list, including those that did not fit
  // - `nodes`: nodes reached
  // - `found`: nodes with excess
  // - `heavy`: arcs of nodes with many arcs
  int32_t listed[3], nodes[3], found[3], heavy[3];
  int32_t base, sum;
};
constexpr int kFlowStagesBytes = int(sizeof(FlowShared)) + 2 * kFlowStaged * 8;
// Bytes of shared memory for a block. They include one bit per node if there are at most
// kKnownNodes nodes.
JAXMATCH_HOST_DEVICE constexpr int flow_shared_bytes(int32_t nodes) {
  return kFlowStagesBytes + (nodes <= kKnownNodes ? (nodes + 31) / 32 * 4 : 0);
}
extern __shared__ __align__(16) char flow_shared[];
__device__ inline FlowShared& flow_block() { return *reinterpret_cast<FlowShared*>(flow_shared); }
template <class Entry>
__device__ inline Entry* flow_stage(int which) {
  static_assert(sizeof(Entry) <= 8, "");
  return reinterpret_cast<Entry*>(flow_shared + sizeof(FlowShared)) + which * kFlowStaged;
}

__device__ inline uint32_t* flow_bits() {
  return reinterpret_cast<uint32_t*>(flow_shared + kFlowStagesBytes);
}

__device__ inline Tally& block_total() { return flow_block().total; }
using FlowGrid = Grid<block_total, true>;

template <class T>
__device__ inline T warp_sum(T x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
// Exclusive prefix sum over the lanes.
__device__ inline int lanes_before(int x) {
  const int own = x;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, x, step);
    if (FlowGrid::lane() >= step) x += other;
  }
  return x - own;
}
// Adds `mine` of all lanes to a counter; every lane of a warp must call it. If thousands of warps
// add to the same word, their additions are serialised. So use this for rare events, or for a
// counter of one block.
__device__ inline void count_all(int32_t* counter, int mine) {
  const int all = __reduce_add_sync(kAllLanes, mine);
  if (FlowGrid::lane() == 0 && all != 0) atomicAdd(counter, all);
}

// Adds `mine` of all threads to a global counter, once per block; every thread of the block must
// call it.
__device__ inline void count_by_blocks(int32_t* counter, int mine) {
  int32_t& sum = flow_block().sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  count_all(&sum, mine);
  __syncthreads();
  if (threadIdx.x == 0 && sum != 0) atomicAdd(counter, sum);
}

__device__ inline void add_atomically(int64_t* at, int64_t x) {
  atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)x);
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_GRID_CUH_
