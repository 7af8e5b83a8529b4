// Whether arrays of pointers and indices, which may hold anything, can be walked along.
#ifndef JAXMATCH_CPU_INDEX_CHECKS_H_
#define JAXMATCH_CPU_INDEX_CHECKS_H_

#include <cstdint>

namespace jaxmatch {

// The loops have no exit in the middle, so that they become vector code: a sign bit anywhere says
// that something was wrong.

inline bool is_non_decreasing(const int32_t* ptr, int64_t first, int64_t last) {
  int32_t falls = 0;
  for (int64_t i = first; i < last; ++i) falls |= ptr[i + 1] < ptr[i];
  return !falls;
}

inline bool are_below(const int32_t* index, int64_t first, int64_t last, int32_t bound) {
  const uint32_t top = uint32_t(bound) - 1;
  uint32_t outside = 0;
  for (int64_t k = first; k < last; ++k) outside |= uint32_t(index[k]) | (top - uint32_t(index[k]));
  return !(outside >> 31);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_INDEX_CHECKS_H_
