// Which kernel solves a transport problem. This is not in kernels.h, because then each kernel's
// file would compile all kernels.
#ifndef JAXMATCH_CUDA_TRANSPORT_PICK_H_
#define JAXMATCH_CUDA_TRANSPORT_PICK_H_

#include <type_traits>

#include "transport/cuda/kernels.h"

namespace jaxmatch::transport {

// The kernel that `pick.of<Type>()` returns for the problem's type of costs.
template <class Pick>
TransportKernel kernel_for(const TransportProblem& p, const Pick& pick) {
  if (p.row_points) {
    return p.cost_dtype == Dtype::kF64 ? pick.template of<DoublePoints>()
                                       : pick.template of<FloatPoints>();
  }
  switch (p.cost_dtype) {
    case Dtype::kF64:
      return pick.template of<Doubles>();
    case Dtype::kS32:
      return pick.template of<Integers>();
    case Dtype::kS64:
      return pick.template of<LongIntegers>();
    case Dtype::kF32:
      return pick.template of<Floats>();
    default:
      return pick.template of<NarrowFloats>();
  }
}

struct PickTransport {
  template <class Type>
  TransportKernel of() const {
    return pick_transport_kernel<Type>();
  }
};
inline TransportKernel transport_kernel_for(const TransportProblem& p) {
  return kernel_for(p, PickTransport{});
}

struct PickSmallTransport {
  int64_t n, m;

  template <class Type>
  TransportKernel of() const {
    if constexpr (std::is_same_v<Type, LongIntegers>) {
      return nullptr;
    } else {
      return pick_small_transport_kernel<typename WrittenOf<Type>::Written>(n, m);
    }
  }
};
// The kernel for small problems; null for long sides and for 64-bit integer costs.
inline TransportKernel small_transport_kernel_for(const TransportProblem& p) {
  if (!is_small(p.n, p.m)) return nullptr;
  return kernel_for(p, PickSmallTransport{p.n, p.m});
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_PICK_H_
