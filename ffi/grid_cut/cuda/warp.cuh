// Reductions over the threads of a warp.
#ifndef JAXMATCH_GRID_CUT_CUDA_WARP_CUH_
#define JAXMATCH_GRID_CUT_CUDA_WARP_CUH_

namespace jaxmatch::grid_cut {

template <class T>
__device__ inline T over_warp_max(T x) {
  for (int step = 16; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, x, step);
    x = other > x ? other : x;
  }
  return x;
}
template <class T>
__device__ inline T over_warp_sum(T x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_WARP_CUH_
