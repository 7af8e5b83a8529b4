// Checks of CSR pointers and indices, which may have any values, before their first use.
#ifndef JAXMATCH_CPU_INDEX_CHECKS_H_
#define JAXMATCH_CPU_INDEX_CHECKS_H_

#include <cstdint>

#include "common/cpu/instruction_set.h"

namespace jaxmatch {

// The loops have no early exit, so that they vectorise. They only collect errors; are_below()
// collects them in the sign bit of `outside`.

inline bool is_non_decreasing(const int32_t* ptr, int64_t first, int64_t last) {
  int32_t falls = 0;
  vectorized([&]() JAXMATCH_VECTORIZED {
    int32_t found = 0;
    for (int64_t i = first; i < last; ++i) found |= ptr[i + 1] < ptr[i];
    falls = found;
  });
  return !falls;
}

inline bool are_below(const int32_t* index, int64_t first, int64_t last, int32_t bound) {
  const uint32_t top = uint32_t(bound) - 1;
  uint32_t outside = 0;
  vectorized([&]() JAXMATCH_VECTORIZED {
    uint32_t found = 0;
    for (int64_t k = first; k < last; ++k) found |= uint32_t(index[k]) | (top - uint32_t(index[k]));
    outside = found;
  });
  return !(outside >> 31);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_INDEX_CHECKS_H_
