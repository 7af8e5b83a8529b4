// Helpers for the threads of a cooperative launch that matches one large graph: a block's shared
// memory, appends to lists, and load balancing over edges.
#ifndef JAXMATCH_MATCHING_CUDA_GRID_CUH_
#define JAXMATCH_MATCHING_CUDA_GRID_CUH_

#include <cstdint>

#include "common/cuda/grid.cuh"
#include "matching/cuda/layout.h"

namespace jaxmatch::matching {

// Shared memory of a block. The block's two stages (see WorkSharingBfs) follow it.
struct alignas(16) MatchingShared {
  Tally total;
  int staged, edges;  // number of entries that the block has found; number of their edges
  int begin, end;     // first found entry not searched yet; result of WorkSharingBfs::fitting()
  int base, count;    // first entry and length of a range of the list
  int stop, idle;     // copies of the control word `stop` and of the number of idle blocks
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

// Every lane of a warp holds a range [first, first + length) of indices. Calls f(owning lane,
// index, exists) for each index in each of the 32 ranges. The warp takes 32 indices at a time, one
// per lane. All lanes call f together; `exists` is false for a lane without an index.
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
