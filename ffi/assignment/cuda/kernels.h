// The kernels that the handler may launch. Those of each type of costs are compiled in a file of
// their own (jaxmatch_instances in ffi/CMakeLists.txt).
#ifndef JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
#define JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_

#include "assignment/cuda/batch.h"

namespace jaxmatch::assignment {

using AssignmentKernel = void (*)(AssignmentBatch);

struct Floats;
struct Doubles;
struct Integers;
struct LongIntegers;

// One warp for each problem, by columns for each lane; not for int64.
template <class Costs>
AssignmentKernel PickWarp(int columns_per_lane);
// One block for each problem, by its size.
template <class Costs>
AssignmentKernel PickBlock(int warps);

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

#endif  // JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
