// The kernels that the handler launches. Each type of costs is compiled in its own translation unit
// (jaxmatch_instances in ffi/CMakeLists.txt).
#ifndef JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
#define JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_

#include "assignment/cuda/auction_plan.h"
#include "assignment/cuda/batch.h"

namespace jaxmatch {
struct Floats;
struct Doubles;
struct Integers;
struct LongIntegers;
}  // namespace jaxmatch

namespace jaxmatch::assignment {

using AssignmentKernel = void (*)(AssignmentBatch);
using AuctionKernel = void (*)(AuctionBatch);

// Returns the kernel with one warp for each problem and this many columns per lane; not for int64.
template <class Costs>
AssignmentKernel pick_warp_kernel(int columns_per_lane);
// Returns the kernel with one block of this many warps for each problem.
template <class Costs>
AssignmentKernel pick_block_kernel(int warps);
// Returns the kernel with one cluster of blocks for each problem.
template <class Costs>
AuctionKernel pick_auction_kernel();

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_KERNELS_H_
