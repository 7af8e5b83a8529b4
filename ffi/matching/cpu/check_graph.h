// Checks the arrays of a graph. Python cannot check them under jax.jit, where their values are
// unknown.
#ifndef JAXMATCH_MATCHING_CPU_CHECK_GRAPH_H_
#define JAXMATCH_MATCHING_CPU_CHECK_GRAPH_H_

#include <atomic>
#include <cstdint>

#include "common/cpu/index_checks.h"
#include "matching/cpu/parallel.h"
#include "matching/operands.h"

namespace jaxmatch::matching {

inline bool are_pointers(const int32_t* ptr, int32_t count, int64_t capacity) {
  return ptr[0] == 0 && ptr[count] <= capacity && is_non_decreasing(ptr, 0, count);
}

// True if all pointers and indices stay within the arrays. Does not check that the two directions
// of the graph (by rows and by columns) agree. If they differ, algorithms must still terminate and
// stay within bounds.
inline bool is_walkable(const BipartiteCsr& g, const Spread& spread) {
  if (!are_pointers(g.row_ptr, g.n, g.capacity) || !are_pointers(g.col_ptr, g.m, g.capacity) ||
      g.row_ptr[g.n] != g.col_ptr[g.m]) {
    return false;
  }
  std::atomic<bool> inside{true};
  spread(g.row_ptr[g.n], 0.3, [&](int64_t first, int64_t last) {
    if (!are_below(g.col_ind, first, last, g.m) || !are_below(g.row_ind, first, last, g.n)) {
      inside.store(false, std::memory_order_relaxed);
    }
  });
  return inside;
}

// The number of vertices, out of `count`, that have edges.
inline int32_t count_with_edges(const int32_t* ptr, int32_t count) {
  int32_t found = 0;
  for (int32_t v = 0; v < count; ++v) found += ptr[v] < ptr[v + 1];
  return found;
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_CHECK_GRAPH_H_
