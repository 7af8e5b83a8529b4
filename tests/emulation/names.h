// Names of dtypes, as tests pass them.
#pragma once

#include "common/attributes.h"
#include "common/dtype.h"

namespace jaxmatch {
constexpr Name<Dtype> kDtypes[] = {{"bfloat16", Dtype::kBF16}, {"float16", Dtype::kF16},
                                   {"float32", Dtype::kF32},   {"float64", Dtype::kF64},
                                   {"int32", Dtype::kS32},     {"int64", Dtype::kS64}};

// The value of a name; for an unknown name, the first value of the table.
template <class E, size_t kCount>
E named(const Name<E> (&table)[kCount], const char* name) {
  E value = table[0].value;
  find_name(table, name, &value);
  return value;
}
}  // namespace jaxmatch
