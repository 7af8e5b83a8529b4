// What the threads of a cooperative launch share while they match one large graph: a place in the
// grid, counters that all of them read after a barrier, and lists that they append to.
#ifndef JAXMATCH_CUDA_MATCHING_GRID_CUH_
#define JAXMATCH_CUDA_MATCHING_GRID_CUH_

#include <cooperative_groups.h>

#include <cstdint>

namespace jaxmatch {

constexpr int kMatchingThreads = 1024;  // of a block; one block for each multiprocessor
constexpr unsigned kAllLanes = 0xffffffffu;

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

// Counters of one step, zero when it begins.
struct alignas(16) Tally {
  int32_t count, found, more, spare;
};
constexpr int kTallies = 4;

class MatchingGrid {
 public:
  // The tallies must be zero, and steps are counted from `step` on.
  __device__ explicit MatchingGrid(Tally* ring, int step = 0)
      : grid_(cooperative_groups::this_grid()), ring_(ring), step_(step) {}

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
    __shared__ Tally total;
    if (leader()) ring_[(step_ + 2) % kTallies] = Tally{};
    grid_.sync();
    if (threadIdx.x == 0) {
      const int4 x = __ldcg(reinterpret_cast<const int4*>(tally()));
      total = {x.x, x.y, x.z, x.w};
    }
    __syncthreads();
    const Tally result = total;
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
  cooperative_groups::grid_group grid_;
  Tally* ring_;
  int step_;
};

// Appends from any subset of a warp's lanes: one atomic operation for all that come together.
template <class T>
__device__ inline void append_now(T* list, int32_t* count, T x) {
  const auto lanes = cooperative_groups::coalesced_threads();
  int at = 0;
  if (lanes.thread_rank() == 0) at = atomicAdd(count, int(lanes.size()));
  list[lanes.shfl(at, 0) + lanes.thread_rank()] = x;
}

// Appends to a list through a block's shared memory. All lanes of a warp call add() together, all
// threads of the block call flush().
template <class T>
class Appender {
 public:
  struct Shared {
    int count, base;
  };
  __device__ Appender(Shared* shared, T* stage, int room) : s_(shared), stage_(stage), room_(room) {
    if (threadIdx.x == 0) s_->count = 0;
    __syncthreads();
  }
  __device__ void add(bool wanted, T x, T* list, int32_t* count) {
    const unsigned who = __ballot_sync(kAllLanes, wanted);
    if (!who) return;
    const int lane = int(threadIdx.x % 32), leader = __ffs(who) - 1;
    int at = 0;
    if (lane == leader) at = atomicAdd(&s_->count, __popc(who));
    at = __shfl_sync(kAllLanes, at, leader) + __popc(who & ((1u << lane) - 1));
    if (!wanted) return;
    if (at < room_) {
      stage_[at] = x;
    } else {
      append_now(list, count, x);
    }
  }
  __device__ void flush(T* list, int32_t* count) {
    __syncthreads();
    const int n = s_->count < room_ ? s_->count : room_;
    if (n > 0) {
      if (threadIdx.x == 0) s_->base = atomicAdd(count, n);
      __syncthreads();
      for (int k = threadIdx.x; k < n; k += blockDim.x) list[s_->base + k] = stage_[k];
      __syncthreads();
      if (threadIdx.x == 0) s_->count = 0;
    }
    __syncthreads();
  }

 private:
  Shared* s_;
  T* stage_;
  int room_;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_MATCHING_GRID_CUH_
