#include "assignment_kernel.cuh"
#include "assignment_kernels.h"

namespace jaxmatch {

AssignmentKernel BlockKernel(Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return assignment_block_kernel<Integers, 4>;
    case Dtype::kF64:
      return assignment_block_kernel<Doubles, 4>;
    case Dtype::kS64:
      return assignment_block_kernel<LongIntegers, 4>;
    default:
      return assignment_block_kernel<Floats, 4>;
  }
}

}  // namespace jaxmatch
