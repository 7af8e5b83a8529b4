// The threads that solve a problem together: those of one block, or of several blocks that run at
// the same time.
#ifndef JAXMATCH_CUDA_TEAM_CUH_
#define JAXMATCH_CUDA_TEAM_CUH_

#include <cstdint>

#include "common/cuda/group.cuh"
#include "common/cuda/memory_order.cuh"
#include "common/cuda/team_slots.h"

namespace jaxmatch::team {

// The minimum and the sum over the lanes of a warp. Every lane gets the result.
__device__ inline uint64_t warp_least(uint64_t x) {
  const uint32_t high = __reduce_min_sync(kAllLanes, uint32_t(x >> 32));
  const uint32_t low = __reduce_min_sync(kAllLanes, uint32_t(x >> 32) == high ? uint32_t(x) : ~0u);
  return uint64_t(high) << 32 | low;
}
__device__ inline int64_t warp_sum(int64_t x) {
  constexpr int kBits = 26;  // 32 numbers of kBits bits have a sum below 2^32
  uint64_t sum = 0;
  for (int shift = 0; shift < 64; shift += kBits) {
    const uint32_t part = uint32_t(uint64_t(x) >> shift) & ((1u << kBits) - 1);
    sum += uint64_t(__reduce_add_sync(kAllLanes, part)) << shift;
  }
  return int64_t(sum);
}
// A team: the threads of `blocks` blocks, of which this block has the number `rank`. All threads of
// the team call sync() and the reductions in the same order. `kTeamThreads` is the number of
// threads per block, or 0 if it is chosen at launch to suit the problem. `Shared` lies in the
// shared memory of a block and has:
// - `slots`: two words for each warp;
// - `barriers`: the number of barriers that the block has passed;
// - `workspace`: global memory of the team, with `arrivals` (how often blocks have arrived at
//   barriers, summed over all blocks) and two sets of Slots.
template <class Shared, int kTeamThreads>
class TeamOf {
 public:
  static constexpr int kTeamWarps = kTeamThreads / kWarpSize;  // 0 if chosen at launch

  __device__ TeamOf(Shared& shared, int blocks, int rank) : s(shared), blocks(blocks), rank(rank) {}

  // A team that consists of the calling block alone.
  __device__ TeamOf alone() const { return {s, 1, 0}; }

  __device__ static int block_threads() {
    return kTeamThreads > 0 ? kTeamThreads : int(blockDim.x);
  }
  __device__ static int block_warps() { return block_threads() / kWarpSize; }
  __device__ int lane() const { return int(threadIdx.x) % kWarpSize; }
  __device__ int warp_of_block() const { return int(threadIdx.x) / kWarpSize; }
  // Consecutive warps are in different blocks.
  __device__ int warp() const { return warp_of_block() * blocks + rank; }
  __device__ int warps() const { return block_warps() * blocks; }
  __device__ int thread() const { return warp() * kWarpSize + lane(); }
  __device__ int threads() const { return block_threads() * blocks; }
  __device__ void sync_block() const {
    if (is_warp()) return __syncwarp();
    __barrier_sync_count(0, block_threads());
  }
  // A barrier of the team. After it, all threads see all writes that were made before it.
  __device__ void sync() const {
    sync_block();
    if (blocks == 1) return;
    meet(s, blocks);
    sync_block();
  }

  template <class F>
  __device__ void each(int64_t count, const F& f) const {
    for (int64_t k = thread(); k < count; k += threads()) f(k);
  }
  // Like each(), but every block goes through all k, divided among its threads.
  template <class F>
  __device__ void each_in_block(int64_t count, const F& f) const {
    for (int64_t k = threadIdx.x; k < count; k += block_threads()) f(k);
  }
  // Like each(), but all lanes of one warp call f(k) together.
  template <class F>
  __device__ void each_by_warp(int64_t count, const F& f) const {
#pragma unroll 1
    for (int64_t k = warp(); k < count; k += warps()) f(k);
  }
  template <class F>
  __device__ void one(const F& f) const {
    if (rank == 0 && threadIdx.x == 0) f();
  }

  // Sets (key, index) to the least pair over all threads, compared by key first. Every thread gets
  // the result.
  __device__ void least(uint64_t& key, uint64_t& index) const {
    least_of_block(key, index);
    if (blocks == 1) return;
    const Slots& slots = exchange(key, index);
    key = index = ~uint64_t(0);
    for (int k = lane(); k < blocks; k += kWarpSize) {
      const uint64_t other = slots[0][k], at = slots[1][k];
      if (other > key || (other == key && at > index)) continue;
      key = other;
      index = at;
    }
    least_of_warp(key, index);
  }
  // Sets a and b each to its minimum over all threads. Every thread gets both minima.
  __device__ void least_of_each(uint64_t& a, uint64_t& b) const {
    a = warp_least(a);
    b = warp_least(b);
    if (!is_warp()) {
      if (lane() == 0) {
        s.slots[0][warp_of_block()] = a;
        s.slots[1][warp_of_block()] = b;
      }
      sync_block();
      a = warp_least(lane() < block_warps() ? s.slots[0][lane()] : ~uint64_t(0));
      b = warp_least(lane() < block_warps() ? s.slots[1][lane()] : ~uint64_t(0));
    }
    sync_block();
    if (blocks == 1) return;
    const Slots& slots = exchange(a, b);
    a = b = ~uint64_t(0);
    for (int k = lane(); k < blocks; k += kWarpSize) {
      a = slots[0][k] < a ? slots[0][k] : a;
      b = slots[1][k] < b ? slots[1][k] : b;
    }
    a = warp_least(a);
    b = warp_least(b);
  }
  __device__ double most(double x) const {
    uint64_t key = ~ordered_bits(x), index = 0;
    least(key, index);
    return from_ordered_bits(~key);
  }
  __device__ int64_t sum(int64_t x) const {
    x = sum_of_block(x);
    if (blocks == 1) return x;
    const Slots& slots = exchange(uint64_t(x), 0);
    x = 0;
    for (int k = lane(); k < blocks; k += kWarpSize) x += int64_t(slots[0][k]);
    return warp_sum(x);
  }
  // The sum over the threads of one block. (A sum of doubles over several blocks would be rounded
  // differently for another number of blocks.)
  __device__ double sum_of_block(double x) const {
    return __longlong_as_double(reduce_in_block(__double_as_longlong(x), [](int64_t bits) {
      double y = __longlong_as_double(bits);
      for (int step = kWarpSize / 2; step > 0; step /= 2) {
        y += __shfl_xor_sync(kAllLanes, y, step);
      }
      return __double_as_longlong(y);
    }));
  }
  __device__ bool any(bool x) const { return sum(int64_t(x)) != 0; }

  Shared& s;
  const int blocks, rank;

 private:
  // A barrier of all blocks, at which the first thread of each block waits. It is not inlined,
  // because hundreds of places call it, and waiting takes far longer than a function call.
  __device__ __noinline__ static void meet(Shared& s, int blocks) {
    if (threadIdx.x != 0) return;
    const uint64_t all = ++s.barriers * uint64_t(blocks);
    __threadfence();
    uint64_t* const arrivals = s.workspace.arrivals;
    atomic_add_release(arrivals, 1);
    while (load_acquire(arrivals) < all) {
    }
  }
  __device__ static bool is_warp() { return kTeamThreads == 0 && blockDim.x == kWarpSize; }
  __device__ static void least_of_warp(uint64_t& key, uint64_t& index) {
    const uint64_t least = warp_least(key);
    index = warp_least(key == least ? index : ~uint64_t(0));
    key = least;
  }
  __device__ void least_of_block(uint64_t& key, uint64_t& index) const {
    least_of_warp(key, index);
    if (is_warp()) return __syncwarp();
    if (lane() == 0) {
      s.slots[0][warp_of_block()] = key;
      s.slots[1][warp_of_block()] = index;
    }
    sync_block();
    key = index = ~uint64_t(0);
    if (lane() < block_warps()) {
      key = s.slots[0][lane()];
      index = s.slots[1][lane()];
    }
    least_of_warp(key, index);
    sync_block();
  }
  template <class F>
  __device__ int64_t reduce_in_block(int64_t x, const F& reduce_in_warp) const {
    x = reduce_in_warp(x);
    if (is_warp()) return __syncwarp(), x;
    if (lane() == 0) s.slots[0][warp_of_block()] = uint64_t(x);
    sync_block();
    x = reduce_in_warp(lane() < block_warps() ? int64_t(s.slots[0][lane()]) : 0);
    sync_block();
    return x;
  }
  __device__ int64_t sum_of_block(int64_t x) const {
    return reduce_in_block(x, [](int64_t y) { return warp_sum(y); });
  }
  // Gives the numbers x and y of each block to all blocks. Successive barriers use two sets of
  // slots alternately. Before a block writes a set again, it passes another barrier, and every
  // block has read the set before it arrives at that barrier.
  __device__ const Slots& exchange(uint64_t x, uint64_t y) const {
    if (threadIdx.x == 0) {
      Slots& slots = s.workspace.slots[(s.barriers + 1) % 2];
      slots[0][rank] = x;
      slots[1][rank] = y;
    }
    sync();
    return s.workspace.slots[s.barriers % 2];
  }
};

}  // namespace jaxmatch::team

#endif  // JAXMATCH_CUDA_TEAM_CUH_
