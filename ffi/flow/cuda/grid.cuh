// The threads that solve one flow network: all blocks of a cooperative launch, or one block alone.
#ifndef JAXMATCH_CUDA_FLOW_GRID_CUH_
#define JAXMATCH_CUDA_FLOW_GRID_CUH_

#include "flow/operands.h"
#include "matching/cuda/grid.cuh"

namespace jaxmatch::flow {

constexpr int kFlowThreads = 1024;  // of a block; one block for each multiprocessor
#ifndef JAXMATCH_EMULATED
constexpr int kFlowStaged = 2048;         // entries of eight bytes in each of a block's two lists
constexpr int32_t kKnownNodes = 1 << 19;  // so many have a bit in shared memory
#endif

// Counters of one step, zero when it begins.
struct alignas(16) FlowTally {
  int32_t count, found, more, work;
};

// What the threads of a block tell each other. Two lists lie behind it.
struct alignas(16) FlowShared {
  FlowTally total;
  // Of three rounds in turn, so that one barrier a round is enough: while one counts, the next is
  // set to zero, and everybody has read the one before. Entries that came, also those there was no
  // room for; nodes that were reached; those with excess; arcs of nodes that have many.
  int32_t listed[3], nodes[3], found[3], heavy[3];
  int32_t base, sum;
};
constexpr int kFlowStagesBytes = int(sizeof(FlowShared)) + 2 * kFlowStaged * 8;
// With a bit for each node, where these are not too many.
JAXMATCH_ANYWHERE constexpr int flow_shared_bytes(int32_t nodes) {
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

class FlowGrid {
 public:
  // The tallies must be zero, and steps are counted from `step` on.
  __device__ FlowGrid(FlowTally* ring, int step, bool alone)
      : ring_(ring),
        step_(step),
        blocks_(alone ? 1 : int(gridDim.x)),
        block_(alone ? 0 : int(blockIdx.x)) {}

  __device__ int blocks() const { return blocks_; }
  __device__ int block() const { return block_; }
  // Warps are dealt round the blocks, so that a few items keep all multiprocessors busy.
  __device__ int warp() const { return int(threadIdx.x / 32) * blocks_ + block_; }
  __device__ int warps() const { return int(blockDim.x / 32) * blocks_; }
  __device__ int thread() const { return warp() * 32 + lane(); }
  __device__ int threads() const { return int(blockDim.x) * blocks_; }
  __device__ static int lane() { return int(threadIdx.x % 32); }
  __device__ bool leader() const { return block_ == 0 && threadIdx.x == 0; }

  __device__ FlowTally* tally() const { return ring_ + step_ % kTallies; }
  // All threads meet. Returns what they have counted since the last time.
  __device__ FlowTally meet() {
    if (leader()) ring_[(step_ + 2) % kTallies] = FlowTally{};
    if (blocks_ > 1) {
      meet_all_blocks();
    } else {
      __threadfence();
      __syncthreads();
    }
    if (threadIdx.x == 0) {
      const int4 x = __ldcg(reinterpret_cast<const int4*>(tally()));
      flow_block().total = {x.x, x.y, x.z, x.w};
    }
    __syncthreads();
    const FlowTally result = flow_block().total;
    __syncthreads();  // before the next meeting writes it
    ++step_;
    return result;
  }
  __device__ int steps() const { return step_; }

  template <class F>
  __device__ void each(int64_t count, F f) const {
    for (int64_t k = thread(); k < count; k += threads()) f(k);
  }

 private:
  FlowTally* ring_;
  int step_, blocks_, block_;
};

template <class T>
__device__ inline T warp_sum(T x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
  return x;
}
// What comes before this lane.
__device__ inline int lanes_before(int x) {
  const int own = x;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, x, step);
    if (FlowGrid::lane() >= step) x += other;
  }
  return x - own;
}
// Counts something for all threads; all lanes of a warp come together. Thousands of warps that add
// to the same word wait for each other: this is for what is rare, or counted by one block.
__device__ inline void count_all(int32_t* counter, int mine) {
  const int all = __reduce_add_sync(kAllLanes, mine);
  if (FlowGrid::lane() == 0 && all != 0) atomicAdd(counter, all);
}

// The same where all threads of a block come together, and only blocks wait for each other.
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

#endif  // JAXMATCH_CUDA_FLOW_GRID_CUH_
