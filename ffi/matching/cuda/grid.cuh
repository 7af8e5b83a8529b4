// What the threads of a cooperative launch share while they match one large graph: a place in the
// grid, counters that all of them read after a barrier, and lists that they append to.
#ifndef JAXMATCH_CUDA_MATCHING_GRID_CUH_
#define JAXMATCH_CUDA_MATCHING_GRID_CUH_

#include <cstdint>

#ifndef JAXMATCH_EMULATED
#include <cooperative_groups.h>
#endif

namespace jaxmatch::matching {

constexpr int kMatchingThreads = 1024;  // of a block; one block for each multiprocessor
constexpr unsigned kAllLanes = 0xffffffffu;

#ifndef JAXMATCH_EMULATED
__device__ inline void meet_all_blocks() { cooperative_groups::this_grid().sync(); }

// What other blocks write meanwhile, for loops that wait for it: a plain load, also __ldcg(), may
// be taken out of the loop.
__device__ inline int2 poll(const void* at) {
  int2 x;
  asm volatile("ld.relaxed.gpu.global.v2.s32 {%0, %1}, [%2];"
               : "=r"(x.x), "=r"(x.y)
               : "l"(at)
               : "memory");
  return x;
}

// A place for each lane that calls it: one atomic operation for all that come together.
__device__ inline int32_t take_place(int32_t* count) {
  const auto lanes = cooperative_groups::coalesced_threads();
  int at = 0;
  if (lanes.thread_rank() == 0) at = atomicAdd(count, int(lanes.size()));
  return lanes.shfl(at, 0) + int(lanes.thread_rank());
}

__device__ inline void prefetch(const void* at) {
  asm volatile("prefetch.global.L1 [%0];" ::"l"(at));
}
#endif

// Counters of one step, zero when it begins.
struct alignas(16) Tally {
  int32_t count, found, more;
  int32_t unused;  // four words are one load
};
constexpr int kTallies = 4;

// What the threads of a block tell each other. The stages of Roaming lie behind it.
struct alignas(16) MatchingShared {
  Tally total;
  int staged, edges;  // entries found, and their neighbours
  int begin, end;     // of those: where they have not been searched, and where no more fit
  int base, count;    // of a piece of the list
  int stop, idle;     // what one thread has read for all
  int sums[kMatchingThreads / 32];
};
extern __shared__ __align__(16) char matching_shared[];
__device__ inline MatchingShared& in_block() {
  return *reinterpret_cast<MatchingShared*>(matching_shared);
}

class MatchingGrid {
 public:
  // The tallies must be zero, and steps are counted from `step` on.
  __device__ explicit MatchingGrid(Tally* ring, int step = 0) : ring_(ring), step_(step) {}

  // Warps are dealt round the blocks, so that a few items keep all multiprocessors busy.
  __device__ int thread() const {
    return (int(threadIdx.x / 32) * int(gridDim.x) + int(blockIdx.x)) * 32 + lane();
  }
  __device__ int warp() const { return int(threadIdx.x / 32) * int(gridDim.x) + int(blockIdx.x); }
  __device__ int threads() const { return int(gridDim.x * blockDim.x); }
  __device__ int warps() const { return threads() / 32; }
  __device__ static int lane() { return int(threadIdx.x % 32); }
  __device__ bool leader() const { return blockIdx.x == 0 && threadIdx.x == 0; }

  __device__ Tally* tally() { return ring_ + step_ % kTallies; }
  // All threads meet. Returns what they have counted since the last time.
  __device__ Tally meet() {
    if (leader()) ring_[(step_ + 2) % kTallies] = Tally{};
    meet_all_blocks();
    if (threadIdx.x == 0) {
      const int4 x = __ldcg(reinterpret_cast<const int4*>(tally()));
      in_block().total = {x.x, x.y, x.z, x.w};
    }
    __syncthreads();
    const Tally result = in_block().total;
    __syncthreads();  // before the next meeting writes it
    ++step_;
    return result;
  }
  __device__ int steps() const { return step_; }

  template <class F>
  __device__ void each(int64_t count, F f) const {
    for (int64_t k = thread(); k < count; k += threads()) f(k);
  }
  // The same for whole warps: f(k, exists), with all lanes there.
  template <class F>
  __device__ void each_warp(int64_t count, F f) const {
    for (int64_t first = thread() - lane(); first < count; first += threads()) {
      f(first + lane(), first + lane() < count);
    }
  }

 private:
  Tally* ring_;
  int step_;
};

template <class T>
__device__ inline void append_now(T* list, int32_t* count, T x) {
  list[take_place(count)] = x;
}

// Every lane holds a range; f(lane that holds it, place, exists) for each place of them all, 32 at
// a time and with all lanes there: whatever the lengths, none is idle.
template <class F>
__device__ inline void each_edge(int32_t first, int32_t length, F f) {
  const int lane = MatchingGrid::lane();
  int end = length;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, end, step);
    if (lane >= step) end += other;
  }
  const int total = __shfl_sync(kAllLanes, end, 31);
  const int32_t shift = first - (end - length);
  for (int k0 = 0; k0 < total; k0 += 32) {
    const int k = k0 + lane;
    int owner = 0;  // the first lane whose end is beyond k
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      if (__shfl_sync(kAllLanes, end, owner + step - 1) <= k) owner += step;
    }
    owner = min(owner, 31);
    f(owner, __shfl_sync(kAllLanes, shift, owner) + k, k < total);
  }
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_CUDA_MATCHING_GRID_CUH_
