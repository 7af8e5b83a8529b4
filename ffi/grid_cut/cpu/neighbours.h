// Which cells are neighbours.
#ifndef JAXMATCH_GRID_CUT_CPU_NEIGHBOURS_H_
#define JAXMATCH_GRID_CUT_CPU_NEIGHBOURS_H_

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "grid_cut/cpu/memory.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// A bit for each direction.
template <int kArcs>
using DirectionBits = std::conditional_t<(kArcs > 8), uint32_t, uint8_t>;

// The neighbour of cell i in direction k is i + offset[k]. It exists if bit k of exists[i] is set.
// The offset of the opposite direction has the opposite sign.
template <int kArcs>
struct Neighbours {
  int32_t offset[kArcs];
  const DirectionBits<kArcs>* exists;  // [cells]
};

// The neighbours in a grid that has at least one cell.
template <int kArcs>
Neighbours<kArcs> neighbours_in(const GridShape& shape, GridMemory& memory) {
  using Bits = DirectionBits<kArcs>;
  Bits* const exists = memory.take<Bits>(shape.cells());
  int64_t i = 0;
  for (int z = 0; z < shape.depth; ++z) {
    for (int y = 0; y < shape.height; ++y, i += shape.width) {
      const auto at = [&](int x) {
        uint32_t bits = 0;
        for (int k = 0; k < kArcs; ++k) {
          const GridStep s = grid_step<kArcs>(k);
          bits |= uint32_t(shape.holds(z + s.z, y + s.y, x + s.x)) << k;
        }
        return Bits(bits);
      };
      std::fill_n(&exists[i], shape.width, at(1));
      exists[i] = at(0);
      exists[i + shape.width - 1] = at(shape.width - 1);
    }
  }
  Neighbours<kArcs> found{{}, exists};
  for (int k = 0; k < kArcs; ++k) found.offset[k] = int32_t(shape.offset(grid_step<kArcs>(k)));
  return found;
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_NEIGHBOURS_H_
