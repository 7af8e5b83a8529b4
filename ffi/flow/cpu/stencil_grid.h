// A network of a stencil (see stencil.h), as the search for grids takes it.
#ifndef JAXMATCH_FLOW_CPU_STENCIL_GRID_H_
#define JAXMATCH_FLOW_CPU_STENCIL_GRID_H_

#include <algorithm>
#include <cstdint>

#include "flow/cpu/stencil.h"
#include "grid_cut/cpu/memory.h"
#include "grid_cut/cpu/neighbours.h"

namespace jaxmatch::flow {

// T is the type of capacities and flows.
template <int kArcs, class T>
struct StencilGrid {
  static constexpr int kHalf = kArcs / 2;

  int32_t cells;
  grid_cut::Neighbours<kArcs> neighbours;
  T* excess;        // [cells], the capacity from the source minus the capacity to the sink
  T* arcs;          // [kArcs, cells], capacities by direction
  uint8_t* exists;  // [cells], see Neighbours
  // A regular cell has an arc in each direction, and each of them has one edge. The first of its
  // arcs to cells is begin[cell] - 1; the others follow. 0 if the cell is not regular.
  int32_t* begin;  // [cells]
  // Of regular cells with at most one edge to the sink and none to the source: the first edge of
  // its arcs to cells, as an index into arc_edge, plus 1; and the edge to the sink plus 1, or 0.
  // Both are 0 for other cells.
  int32_t *first_edge, *to_sink;  // [cells]
  // Heads rise, so a node's arcs to cells follow each other in this order of directions. The
  // position of a direction is its rank.
  int count;          // number of directions in the stencil
  int rising[kArcs];  // [count]; 0 beyond

  static int64_t bytes(int64_t cells) {
    using grid_cut::GridMemory;
    return GridMemory::bytes_for<T>(cells) + GridMemory::bytes_for<T>(kArcs * cells) +
           GridMemory::bytes_for<uint8_t>(cells) + 3 * GridMemory::bytes_for<int32_t>(cells);
  }
  StencilGrid(const Stencil& stencil, int32_t cells, grid_cut::GridMemory& memory)
      : cells(cells),
        excess(memory.take<T>(cells)),
        arcs(memory.take<T>(kArcs * int64_t(cells))),
        exists(memory.take<uint8_t>(cells)),
        begin(memory.take<int32_t>(cells)),
        first_edge(memory.take<int32_t>(cells)),
        to_sink(memory.take<int32_t>(cells)),
        count(2 * stencil.count),
        rising{} {
    for (int k = 0; k < kHalf; ++k) {
      const int32_t distance = stencil.distance[std::min(k, stencil.count - 1)];
      neighbours.offset[k] = distance;
      neighbours.offset[k + kHalf] = -distance;
    }
    neighbours.exists = exists;
    for (int k = 0; k < stencil.count; ++k) {
      rising[stencil.count - 1 - k] = k + kHalf;
      rising[stencil.count + k] = k;
    }
  }
  // The offset of the direction of this rank.
  int32_t offset_of(int rank) const { return neighbours.offset[rising[rank]]; }
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_STENCIL_GRID_H_
