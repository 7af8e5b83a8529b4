// Reads numbers from an array whose dtype is known only at run time.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_NUMBERS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_NUMBERS_H_

#include <cstdint>

#include "common/dtype.h"
#include "common/float16.h"
#include "common/host_device.h"

namespace jaxmatch::sparse_assignment {

JAXMATCH_DEVICE inline bool is_integer(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}
JAXMATCH_DEVICE inline int64_t whole_at(const void* array, Dtype dtype, int64_t k) {
  return dtype == Dtype::kS32 ? static_cast<const int32_t*>(array)[k]
                              : static_cast<const int64_t*>(array)[k];
}
// Integers beyond 2^53 are rounded.
JAXMATCH_DEVICE inline double real_at(const void* array, Dtype dtype, int64_t k) {
  switch (dtype) {
    case Dtype::kBF16:
      return double(single(static_cast<const BFloat16*>(array)[k]));
    case Dtype::kF16:
      return double(single(static_cast<const Float16*>(array)[k]));
    case Dtype::kF32:
      return double(static_cast<const float*>(array)[k]);
    case Dtype::kF64:
      return static_cast<const double*>(array)[k];
    default:
      return double(whole_at(array, dtype, k));
  }
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_NUMBERS_H_
