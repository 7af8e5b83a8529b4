// Solves networks of a stencil (see stencil.h) by the search for grids.
#ifndef JAXMATCH_FLOW_CPU_STENCIL_FLOW_H_
#define JAXMATCH_FLOW_CPU_STENCIL_FLOW_H_

#include <cstdint>
#include <type_traits>

#include "common/cpu/host_arena.h"
#include "common/cpu/parallel_for.h"
#include "common/status.h"
#include "flow/cpu/check_network.h"
#include "flow/cpu/edge_runs.h"
#include "flow/cpu/stencil.h"
#include "flow/cpu/stencil_grid.h"
#include "flow/cpu/stencil_read.h"
#include "flow/cpu/stencil_write.h"
#include "flow/operands.h"
#include "grid_cut/cpu/ibfs.h"
#include "grid_cut/cpu/memory.h"

namespace jaxmatch::flow {

template <int kArcs, class V>
bool solve_stencil(const FlowNetworkCsr& g, const int32_t* capacity, const CellNumbers& numbers,
                   const Stencil& stencil, const Spread& spread, HostArena& memory,
                   const FlowResults<int32_t, V>& out) {
  using T = int32_t;
  using Search = grid_cut::GridSearch<kArcs, T>;
  constexpr int32_t kMost = (1 << 30) - 1;
  const int32_t cells = g.nodes - 2;
  grid_cut::GridMemory of_grid(StencilGrid<kArcs, T>::bytes(cells) + Search::bytes(cells));
  StencilGrid<kArcs, T> grid(stencil, cells, of_grid);
  StencilReader reader(g, capacity, kMost, numbers, grid);
  EdgeRuns runs;
  if (!reader.read(spread, runs)) return false;
  if (!runs.prove_distinct() && !are_distinct(g.arc_edge, g.edges, memory)) return false;
  const grid_cut::GridCapacities<T> capacities{{1, 1, cells}, false, nullptr, nullptr, grid.arcs};
  Search search(capacities, grid.neighbours, grid.excess, of_grid);
  try {
    search.run(most_stencil_steps(g.arcs));
  } catch (const grid_cut::TooManySteps&) {
    return false;
  }
  const StencilWriter writer(g, capacity, numbers, grid, search.flow());
  *out.value = V(writer.write(spread, out.flow));
  const auto [low, high] = std::minmax(numbers.source, numbers.sink);
  search.write_sides(0, low, out.source_side);
  search.write_sides(low, high - 1, out.source_side + 1);
  search.write_sides(high - 1, cells, out.source_side + 2);
  out.source_side[numbers.source] = true;
  out.source_side[numbers.sink] = false;
  *out.status = kOptimal;
  return true;
}

// Solves the problem if its network is of a stencil, is valid, has small sums of capacities at the
// terminals, and is not too hard. Otherwise returns false; then any solver may overwrite the
// results. Source and sink must be different nodes in range.
template <class V>
bool solve_by_stencil(const FlowNetworkCsr& g, const int32_t* capacity, int32_t source,
                      int32_t sink, const Spread& spread, HostArena& memory,
                      const FlowResults<int32_t, V>& out) {
  constexpr int32_t kFewestNodes = 1000;
  if (g.nodes < kFewestNodes) return false;
  const Stencil stencil = guess_stencil(g, source, sink);
  const auto solve = [&](auto arcs) {
    return solve_stencil<arcs>(g, capacity, CellNumbers{source, sink}, stencil, spread, memory,
                               out);
  };
  switch (stencil.count) {
    case 1:
    case 2:
      return solve(std::integral_constant<int, 4>{});
    case 3:
      return solve(std::integral_constant<int, 6>{});
    case 4:
      return solve(std::integral_constant<int, 8>{});
    default:
      return false;
  }
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_STENCIL_FLOW_H_
