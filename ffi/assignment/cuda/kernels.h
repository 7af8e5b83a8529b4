// The kernels that the handler may launch, each compiled in a file of its own.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
#define JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_

#include "assignment/cuda/batch.h"

namespace jaxmatch::assignment {

using AssignmentKernel = void (*)(AssignmentBatch);

// One warp for each problem, by columns for each lane; not for int64.
AssignmentKernel WarpKernel(int columns_per_lane, Dtype dtype);

// One block for each problem, by its size.
AssignmentKernel BlockKernel(int warps, Dtype dtype);

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
