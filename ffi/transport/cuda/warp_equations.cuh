// Solves small systems of linear equations in one warp.
#ifndef JAXMATCH_CUDA_TRANSPORT_WARP_EQUATIONS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_WARP_EQUATIONS_CUH_

#include <cstdint>

#include "common/cuda/warp.cuh"

namespace jaxmatch::transport {

// The index of entry (i, j), j <= i, of a symmetric matrix. The lower triangle is stored by rows.
__device__ inline int32_t entry(int32_t i, int32_t j) { return i * (i + 1) / 2 + j; }

// Replaces x, the right side of m <= 32 equations, by their solution (Gauss-Jordan). The matrix is
// positive definite; pivots below `least_pivot`, which only rounding causes, are raised to it. Lane
// i has row i in registers. They move by one place in each step, so that the pivot's column is
// always first. One warp calls it. It is not inlined, because its code is the same for all types of
// costs.
__device__ __noinline__ inline void solve_in_warp(const float* matrix, float* x, int32_t m,
                                                  float least_pivot) {
  const int32_t i = int32_t(threadIdx.x) % kWarpSize;
  float row[kWarpSize], right = i < m ? x[i] : 0, own_pivot = 1;
#pragma unroll
  for (int32_t j = 0; j < kWarpSize; ++j) {
    row[j] = i < m && j < m ? matrix[entry(max(i, j), min(i, j))] : 0;
  }
  for (int32_t p = 0; p < m; ++p) {
    const float pivot = fmaxf(__shfl_sync(kAllLanes, row[0], p), least_pivot);
    const float factor = i == p ? 0 : row[0] / pivot;
    own_pivot = i == p ? pivot : own_pivot;
    right -= factor * __shfl_sync(kAllLanes, right, p);
#pragma unroll
    for (int32_t j = 1; j < kWarpSize; ++j) {
      row[j - 1] = row[j] - factor * __shfl_sync(kAllLanes, row[j], p);
    }
    row[kWarpSize - 1] = 0;
  }
  if (i < m) x[i] = right / own_pivot;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_WARP_EQUATIONS_CUH_
