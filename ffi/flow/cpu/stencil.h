// Networks whose nodes are the cells of a grid, as those of images and volumes are. They are solved
// by the search for grids (grid_cut/cpu/ibfs.h), which stores no arcs.
#ifndef JAXMATCH_FLOW_CPU_STENCIL_H_
#define JAXMATCH_FLOW_CPU_STENCIL_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "flow/operands.h"

namespace jaxmatch::flow {

// A cell is a node other than source and sink. The cells have consecutive numbers, in the order of
// their nodes.
struct CellNumbers {
  int32_t source, sink;

  int32_t cell(int32_t node) const { return node - (node > source) - (node > sink); }
  bool is_cell(int32_t node) const { return node != source && node != sink; }
};

// The differences between the numbers of neighbouring cells. In a grid without border each cell v
// has the neighbours v - distance[k] and v + distance[k] for each k < count.
struct Stencil {
  static constexpr int kMost = 4;

  int count = 0;
  int32_t distance[kMost] = {};  // positive, rising

  // Returns false if there is no room for another distance.
  bool add(int32_t d) {
    int32_t* const end = distance + count;
    int32_t* const at = std::lower_bound(distance, end, d);
    if (at != end && *at == d) return true;
    if (count == kMost) return false;
    std::copy_backward(at, end, end + 1);
    *at = d;
    ++count;
    return true;
  }
};

// After this many looks at arcs, a search for grids gives up. It loses less time than it saves
// where it ends sooner: noise takes 30 looks at each arc, and other methods take longer.
inline int64_t most_stencil_steps(int32_t arcs) { return 40 * std::max<int64_t>(arcs, 0); }

// Guesses the stencil of a network from a few of its nodes; jaxmatch/_flow/stencil.py looks at the
// same ones. Returns a stencil without distances if these nodes have none in common. Source and
// sink must be different nodes in range; the arrays may have any values.
inline Stencil guess_stencil(const FlowNetworkCsr& g, int32_t source, int32_t sink) {
  constexpr int32_t kNodes = 67;  // a prime number, so that the nodes are in different columns
  constexpr int32_t kMostArcs = 2 * Stencil::kMost + 2;
  const CellNumbers numbers{source, sink};
  const int32_t step = std::max(g.nodes / kNodes, 1);
  Stencil stencil;
  for (int64_t i = 0; i < g.nodes; i += step) {
    const int32_t u = int32_t(i);
    if (!numbers.is_cell(u)) continue;
    const int32_t first = g.arc_ptr[u], last = g.arc_ptr[u + 1];
    if (first < 0 || last > g.arcs || last < first || last - first > kMostArcs) return {};
    for (int32_t a = first; a < last; ++a) {
      const int32_t head = g.arc_head[a];
      if (head < 0 || head >= g.nodes || head == u) return {};
      if (!numbers.is_cell(head)) continue;
      if (!stencil.add(std::abs(numbers.cell(head) - numbers.cell(u)))) return {};
    }
  }
  return stencil;
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_STENCIL_H_
