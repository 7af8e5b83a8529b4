#include "assignment_kernel.cuh"
#include "assignment_kernels.h"

namespace jaxmatch {
namespace {

template <class Costs>
AssignmentKernel Pick(int warps) {
  if (warps <= 8) return assignment_block_kernel<Costs, 2, 8>;
  if (warps <= 12) return assignment_block_kernel<Costs, 1, 12>;
  return assignment_block_kernel<Costs, 2, 16>;
}

}  // namespace

AssignmentKernel BlockKernel(int warps, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return Pick<Integers>(warps);
    case Dtype::kF64:
      return Pick<Doubles>(warps);
    case Dtype::kS64:
      return assignment_block_kernel<LongIntegers, 2, 16>;
    default:
      return Pick<Floats>(warps);
  }
}

}  // namespace jaxmatch
