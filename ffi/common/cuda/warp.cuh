// Constants of a warp and of its lanes.
#ifndef JAXMATCH_CUDA_WARP_CUH_
#define JAXMATCH_CUDA_WARP_CUH_

namespace jaxmatch {

constexpr unsigned kAllLanes = 0xffffffffu;
constexpr int kWarpSize = 32;

// Mask of the lanes below this one.
__device__ inline unsigned lanes_below(int lane) { return (1u << lane) - 1; }

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_WARP_CUH_
