// The kernel for a type of costs. Not for files that define the templates: all would be compiled.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_PICK_H_
#define JAXMATCH_CUDA_ASSIGNMENT_PICK_H_

#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {

inline AssignmentKernel WarpKernel(int columns_per_lane, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return PickWarp<Integers>(columns_per_lane);
    case Dtype::kF64:
      return PickWarp<Doubles>(columns_per_lane);
    default:
      return PickWarp<Floats>(columns_per_lane);
  }
}

inline AssignmentKernel BlockKernel(int warps, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return PickBlock<Integers>(warps);
    case Dtype::kF64:
      return PickBlock<Doubles>(warps);
    case Dtype::kS64:
      return PickBlock<LongIntegers>(warps);
    default:
      return PickBlock<Floats>(warps);
  }
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_PICK_H_
