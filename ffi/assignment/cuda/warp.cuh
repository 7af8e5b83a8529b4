// Kernels that solve one problem per warp, for one type of costs.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_WARP_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_WARP_CUH_

#include "assignment/cuda/kernel.cuh"
#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {

template <class Costs>
AssignmentKernel pick_warp_kernel(int columns_per_lane) {
  switch (columns_per_lane) {
    case 1:
      return assignment_warp_kernel<Costs, 1>;
    case 2:
      return assignment_warp_kernel<Costs, 2>;
    default:
      return assignment_warp_kernel<Costs, 4>;
  }
}

}  // namespace jaxmatch::assignment

#define JAXMATCH_INSTANCE(Costs)                          \
  namespace jaxmatch::assignment {                        \
  template AssignmentKernel pick_warp_kernel<Costs>(int); \
  }                                                       \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_ASSIGNMENT_WARP_CUH_
