// Kernels that solve one problem per block, for one type of costs.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_BLOCK_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_BLOCK_CUH_

#include <type_traits>

#include "assignment/cuda/kernel.cuh"
#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {

template <class Costs>
AssignmentKernel pick_block_kernel(int warps) {
  if constexpr (!std::is_same_v<Costs, LongIntegers>) {
    if (warps <= 8) return assignment_block_kernel<Costs, 2, 8>;
    if (warps <= 12) return assignment_block_kernel<Costs, 1, 12>;
  }
  return assignment_block_kernel<Costs, 2, 16>;
}

}  // namespace jaxmatch::assignment

#define JAXMATCH_INSTANCE(Costs)                           \
  namespace jaxmatch::assignment {                         \
  template AssignmentKernel pick_block_kernel<Costs>(int); \
  }                                                        \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_ASSIGNMENT_BLOCK_CUH_
