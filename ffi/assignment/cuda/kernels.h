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

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
