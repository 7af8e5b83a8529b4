// Whether a traced graph can be walked at all.
#ifndef JAXMATCH_CPU_MATCHING_GRAPH_H_
#define JAXMATCH_CPU_MATCHING_GRAPH_H_

#include <atomic>
#include <cstdint>

#include "jaxmatch/matching_operands.h"
#include "matching_parallel.h"

namespace jaxmatch {

// The loops have no exit in the middle, so that they become vector code: a sign bit anywhere says
// that something was out of range.
inline bool IsMonotone(const int32_t* ptr, int32_t count, int64_t capacity) {
  if (ptr[0] != 0 || ptr[count] > capacity) return false;
  int32_t falls = 0;
  for (int32_t i = 0; i < count; ++i) falls |= ptr[i + 1] < ptr[i];
  return !falls;
}

inline bool AllBelow(const int32_t* index, int64_t count, int32_t bound) {
  const uint32_t last = uint32_t(bound) - 1;
  uint32_t outside = 0;
  for (int64_t k = 0; k < count; ++k) outside |= uint32_t(index[k]) | (last - uint32_t(index[k]));
  return !(outside >> 31);
}

// True if no walk along either direction leaves the arrays. That both name the same edges is not
// checked: an algorithm must end and stay inside where they differ.
inline bool IsWalkable(const BipartiteCsr& g, const Spread& spread) {
  if (!IsMonotone(g.row_ptr, g.n, g.capacity) || !IsMonotone(g.col_ptr, g.m, g.capacity) ||
      g.row_ptr[g.n] != g.col_ptr[g.m]) {
    return false;
  }
  std::atomic<bool> inside{true};
  spread(g.row_ptr[g.n], 0.3, [&](int64_t first, int64_t last) {
    if (!AllBelow(g.col_ind + first, last - first, g.m) ||
        !AllBelow(g.row_ind + first, last - first, g.n)) {
      inside.store(false, std::memory_order_relaxed);
    }
  });
  return inside;
}

// Of `count` vertices, those that have edges.
inline int32_t CountWithEdges(const int32_t* ptr, int32_t count) {
  int32_t found = 0;
  for (int32_t v = 0; v < count; ++v) found += ptr[v] < ptr[v + 1];
  return found;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_MATCHING_GRAPH_H_
