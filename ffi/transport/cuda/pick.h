// Which kernel solves a transport problem. (Not in kernels.h: with this in sight, the unit of each
// kernel would compile all of them.)
#ifndef JAXMATCH_CUDA_TRANSPORT_PICK_H_
#define JAXMATCH_CUDA_TRANSPORT_PICK_H_

#include "transport/cuda/kernels.h"

namespace jaxmatch::transport {

inline TransportKernel transport_kernel_for(const TransportProblem& p) {
  if (p.row_points) {
    return p.cost_dtype == Dtype::kF64 ? pick_transport_kernel<DoublePoints>()
                                       : pick_transport_kernel<FloatPoints>();
  }
  switch (p.cost_dtype) {
    case Dtype::kF64:
      return pick_transport_kernel<Doubles>();
    case Dtype::kS32:
      return pick_transport_kernel<Integers>();
    case Dtype::kS64:
      return pick_transport_kernel<LongIntegers>();
    case Dtype::kF32:
      return pick_transport_kernel<Floats>();
    default:
      return pick_transport_kernel<NarrowFloats>();
  }
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_PICK_H_
