// Which rows a warp looks after while labels settle, and for which its block gathers arcs.
#ifndef JAXMATCH_LARGE_CUDA_ROWS_OF_WARPS_CUH_
#define JAXMATCH_LARGE_CUDA_ROWS_OF_WARPS_CUH_

#include "assignment/large/device_api.h"

namespace jaxmatch::assignment::large {

// Neighbouring rows belong to different multiprocessors. Where there are more rows than threads,
// groups of neighbours belong to the same warp: their labels, which every look reads, share a
// sector of memory, without which 150,000 labels take longer than the latency of a look.
struct RowsOfWarps {
  static constexpr int kGroupBits = 2, kGroup = 1 << kGroupBits;
  int bits;    // of a row's place in its group
  float part;  // of all groups that are a block's

  __device__ static RowsOfWarps of(int64_t count) {
    const bool many = count > int64_t(gridDim.x) * blockDim.x;
    return {many ? kGroupBits : 0, 1.0f / float(gridDim.x)};
  }
  // The rows of a block have slots: its first warp has the first group of them, its second the
  // second, and so on.
  __device__ int64_t row_of(int slot) const {
    return (int64_t(slot >> bits) * gridDim.x + blockIdx.x) << bits | place_in_group(slot);
  }
  // A float finds the quotient: there are less than 2^18 rows.
  __device__ int slot_of(int64_t i) const {
    return int((float(int(i) >> bits) + 0.5f) * part) << bits | place_in_group(int(i));
  }
  // The row that is a warp's k-th.
  __device__ int64_t row_of_warp(int k) const {
    const int warps = blockDim.x / Lanes::kCount, warp = threadIdx.x / Lanes::kCount;
    return row_of(((k >> bits) * warps + warp) << bits | place_in_group(k));
  }
  __device__ int place_in_group(int x) const { return x & ((1 << bits) - 1); }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CUDA_ROWS_OF_WARPS_CUH_
