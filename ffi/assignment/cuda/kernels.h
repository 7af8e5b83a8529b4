// The kernels that the handler launches. Each type of costs is compiled in its own translation unit
// (jaxmatch_instances in ffi/CMakeLists.txt).
#ifndef JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
#define JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_

#include "assignment/cuda/batch.h"

namespace jaxmatch::assignment {

using AssignmentKernel = void (*)(AssignmentBatch);

struct Floats;
struct Doubles;
struct Integers;
struct LongIntegers;

// Kernel with one warp for each problem, chosen by columns for each lane; not for int64.
template <class Costs>
AssignmentKernel pick_warp_kernel(int columns_per_lane);
// Kernel with one block for each problem, chosen by warps of a block.
template <class Costs>
AssignmentKernel pick_block_kernel(int warps);

inline AssignmentKernel warp_kernel(int columns_per_lane, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return pick_warp_kernel<Integers>(columns_per_lane);
    case Dtype::kF64:
      return pick_warp_kernel<Doubles>(columns_per_lane);
    default:
      return pick_warp_kernel<Floats>(columns_per_lane);
  }
}

inline AssignmentKernel block_kernel(int warps, Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return pick_block_kernel<Integers>(warps);
    case Dtype::kF64:
      return pick_block_kernel<Doubles>(warps);
    case Dtype::kS64:
      return pick_block_kernel<LongIntegers>(warps);
    default:
      return pick_block_kernel<Floats>(warps);
  }
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
