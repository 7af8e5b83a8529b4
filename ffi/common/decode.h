// Conversion of XLA element types to Dtype.
#ifndef JAXMATCH_DECODE_H_
#define JAXMATCH_DECODE_H_

#include <optional>

#include "common/dtype.h"
#include "common/handler.h"

namespace jaxmatch {

inline std::optional<Dtype> dtype_of(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::BF16:
      return Dtype::kBF16;
    case ffi::F16:
      return Dtype::kF16;
    case ffi::F32:
      return Dtype::kF32;
    case ffi::F64:
      return Dtype::kF64;
    case ffi::S32:
      return Dtype::kS32;
    case ffi::S64:
      return Dtype::kS64;
    default:
      return std::nullopt;
  }
}

// The dtype of capacities, which must not be a 16-bit type.
inline std::optional<Dtype> capacity_dtype_of(ffi::DataType dtype) {
  const std::optional<Dtype> found = dtype_of(dtype);
  return found && size_of(*found) > 2 ? found : std::nullopt;
}

// Whether values of flows and cuts may have the dtype `value` if capacities have the dtype
// `capacity`.
inline bool is_value_dtype(Dtype capacity, Dtype value) {
  return capacity == value || (capacity == Dtype::kS32 && value == Dtype::kS64);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_DECODE_H_
