// Maps each row to the warp that corrects its labels, and to the block that caches its arcs.
#ifndef JAXMATCH_LARGE_CUDA_ROWS_OF_WARPS_CUH_
#define JAXMATCH_LARGE_CUDA_ROWS_OF_WARPS_CUH_

#include "assignment/large/device_api.h"

namespace jaxmatch::assignment::large {

// Neighbouring rows belong to different multiprocessors. If there are more rows than threads,
// groups of neighbouring rows belong to one warp. The labels of a group, which every poll loads,
// then share a memory sector. Without groups, loading 150,000 labels takes longer than the latency
// of a poll.
struct RowsOfWarps {
  static constexpr int kGroupBits = 2, kGroup = 1 << kGroupBits;
  int bits;    // bits of a row's place in its group
  float part;  // the fraction of all groups that belongs to one block

  __device__ static RowsOfWarps of(int64_t count) {
    const bool many = count > int64_t(gridDim.x) * blockDim.x;
    return {many ? kGroupBits : 0, 1.0f / float(gridDim.x)};
  }
  // The row in a slot of this block. The first group of slots belongs to the block's first warp,
  // the second group to its second warp, and so on.
  __device__ int64_t row_of(int slot) const {
    return (int64_t(slot >> bits) * gridDim.x + blockIdx.x) << bits | place_in_group(slot);
  }
  // The slot of a row in its block. The float quotient is exact, because there are fewer than 2^18
  // rows.
  __device__ int slot_of(int64_t i) const {
    return int((float(int(i) >> bits) + 0.5f) * part) << bits | place_in_group(int(i));
  }
  // The k-th row of this warp.
  __device__ int64_t row_of_warp(int k) const {
    const int warps = blockDim.x / Lanes::kCount, warp = threadIdx.x / Lanes::kCount;
    return row_of(((k >> bits) * warps + warp) << bits | place_in_group(k));
  }
  __device__ int place_in_group(int x) const { return x & ((1 << bits) - 1); }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CUDA_ROWS_OF_WARPS_CUH_
