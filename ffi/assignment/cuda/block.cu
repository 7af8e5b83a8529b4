#include "assignment/cuda/kernel.cuh"
#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {
namespace {

template <class Costs>
AssignmentKernel PickBlock(int warps) {
  if (warps <= 8) return assignment_block_kernel<Costs, 2, 8>;
  if (warps <= 12) return assignment_block_kernel<Costs, 1, 12>;
  return assignment_block_kernel<Costs, 2, 16>;
}

}  // namespace

AssignmentKernel BlockKernel(int warps, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return PickBlock<Integers>(warps);
    case Dtype::kF64:
      return PickBlock<Doubles>(warps);
    case Dtype::kS64:
      return assignment_block_kernel<LongIntegers, 2, 16>;
    default:
      return PickBlock<Floats>(warps);
  }
}

}  // namespace jaxmatch::assignment
