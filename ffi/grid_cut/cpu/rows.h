// The arcs of a grid, row by row.
#ifndef JAXMATCH_GRID_CUT_CPU_ROWS_H_
#define JAXMATCH_GRID_CUT_CPU_ROWS_H_

#include <cstdint>
#include <cstdlib>

#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// Calls f(first cell, offset to the neighbour, number of cells) for the part of each row whose
// cells have a neighbour in direction k.
template <int kArcs, class F>
void each_arc_row(const GridShape& s, int k, const F& f) {
  const GridStep step = grid_step<kArcs>(k);
  const int first = step.x < 0 ? 1 : 0;
  const int count = s.width - std::abs(step.x);
  if (count <= 0) return;
  for (int z = 0; z < s.depth; ++z) {
    for (int y = 0; y < s.height; ++y) {
      if (!s.holds(z + step.z, y + step.y, first + step.x)) continue;
      f((int64_t(z) * s.height + y) * s.width + first, s.offset(step), count);
    }
  }
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_ROWS_H_
