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
AssignmentKernel pick_warp_kernel(int columns_per_lane);
// One block for each problem, by its size.
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
