// Picks the kernel for a type of costs. Files that define the kernel templates must not include
// this header: they would compile the kernels of all types.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_PICK_H_
#define JAXMATCH_CUDA_ASSIGNMENT_PICK_H_

#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {

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

inline AuctionKernel auction_kernel(Dtype dtype) {
  switch (dtype) {
    case Dtype::kS32:
      return pick_auction_kernel<Integers>();
    case Dtype::kF64:
      return pick_auction_kernel<Doubles>();
    case Dtype::kS64:
      return pick_auction_kernel<LongIntegers>();
    default:
      return pick_auction_kernel<Floats>();
  }
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_PICK_H_
