// The element types that solvers read and write.
//
// This header must not use the C++ standard library: see assignment/cpu/problem.h.
#ifndef JAXMATCH_DTYPE_H_
#define JAXMATCH_DTYPE_H_

#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch {

enum class Dtype : uint8_t { kBF16, kF16, kF32, kF64, kS32, kS64 };

JAXMATCH_HOST_DEVICE constexpr int size_of(Dtype dtype) {
  return dtype == Dtype::kBF16 || dtype == Dtype::kF16  ? 2
         : dtype == Dtype::kF32 || dtype == Dtype::kS32 ? 4
                                                        : 8;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_DTYPE_H_
