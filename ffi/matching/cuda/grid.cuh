// What the threads of a cooperative launch share while they match one large graph: a place in the
// grid, counters that all of them read after a barrier, and lists that they append to.
#ifndef JAXMATCH_MATCHING_CUDA_GRID_CUH_
#define JAXMATCH_MATCHING_CUDA_GRID_CUH_

#include <cstdint>

#include "common/cuda/grid.cuh"
#include "matching/cuda/layout.h"

namespace jaxmatch::matching {

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

__device__ inline Tally& block_total() { return in_block().total; }
using MatchingGrid = Grid<block_total, false>;

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

#endif  // JAXMATCH_MATCHING_CUDA_GRID_CUH_
