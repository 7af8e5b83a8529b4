// Writes the flow of a solved grid to the edges of its network.
#ifndef JAXMATCH_FLOW_CPU_STENCIL_WRITE_H_
#define JAXMATCH_FLOW_CPU_STENCIL_WRITE_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/cpu/parallel_for.h"
#include "flow/cpu/stencil.h"
#include "flow/cpu/stencil_grid.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

template <int kArcs, class T>
class StencilWriter {
 public:
  // `net`: see GridSearch::flow. The excesses of the grid are what the search has left of them.
  StencilWriter(const FlowNetworkCsr& g, const int32_t* capacity, const CellNumbers& numbers,
                const StencilGrid<kArcs, T>& grid, const T* net)
      : g_(g), capacity_(capacity), numbers_(numbers), grid_(grid), net_(net) {}

  // Writes the flow of each edge. Returns the value of the flow, in units.
  int64_t write(const Spread& spread, int32_t* flow) const {
    std::atomic<int64_t> value{0};
    spread(g_.nodes, 10, [&](int64_t first, int64_t last) {
      value += write_nodes(int32_t(first), int32_t(last), flow);
    });
    const int32_t source = numbers_.source, sink = numbers_.sink;
    for (int32_t a = g_.arc_ptr[source]; a < g_.arc_ptr[source + 1]; ++a) {
      const int32_t head = g_.arc_head[a];
      int64_t amount = capacity_of(a);
      if (head == sink) {
        value += amount;
      } else {
        amount -= std::max<int64_t>(grid_.excess[numbers_.cell(head)], 0);
      }
      fill(a, amount, flow);
    }
    for (int32_t a = g_.arc_ptr[sink]; a < g_.arc_ptr[sink + 1]; ++a) fill(a, 0, flow);
    for (int32_t k = g_.edge_ptr[g_.arcs]; k < g_.edges; ++k) flow[g_.arc_edge[k]] = 0;
    return value;
  }

 private:
  static constexpr int kHalf = kArcs / 2;

  int64_t capacity_of(int32_t a) const {
    int64_t sum = 0;
    for (int32_t k = g_.edge_ptr[a]; k < g_.edge_ptr[a + 1]; ++k) sum += capacity_[g_.arc_edge[k]];
    return sum;
  }
  // The flow of an arc fills its edges one after another.
  void fill(int32_t a, int64_t amount, int32_t* flow) const {
    for (int32_t k = g_.edge_ptr[a]; k < g_.edge_ptr[a + 1]; ++k) {
      const int32_t edge = g_.arc_edge[k];
      flow[edge] = int32_t(std::min<int64_t>(amount, capacity_[edge]));
      amount -= flow[edge];
    }
  }
  // The net flow from a cell in direction k.
  T net_flow(int32_t cell, int k) const {
    const int64_t n = grid_.cells;
    if (k < kHalf) return net_[k * n + cell];
    return -net_[(k - kHalf) * n + cell + grid_.neighbours.offset[k]];
  }

  // Returns the flow into the sink. It works on copies of all pointers, because the compiler would
  // load them again after each number that is stored.
  int64_t write_nodes(int32_t first, int32_t last, int32_t* flow) const {
    const FlowNetworkCsr g = g_;
    const CellNumbers numbers = numbers_;
    const int32_t *const first_edge = grid_.first_edge, *const sink_edge = grid_.to_sink;
    const int32_t* const capacity = capacity_;
    const T* const excess = grid_.excess;
    const T* net[kArcs];
    for (int j = 0; j < kArcs; ++j) {
      const int k = grid_.rising[j % grid_.count];
      const int64_t n = grid_.cells;
      net[j] = k < kHalf ? net_ + k * n : net_ + (k - kHalf) * n + grid_.neighbours.offset[k];
    }
    int64_t arriving = 0;
    for (int32_t u = first; u < last; ++u) {
      if (!numbers.is_cell(u)) continue;
      const int32_t cell = numbers.cell(u), first_plus_1 = first_edge[cell];
      if (first_plus_1 == 0) {
        arriving += write_arcs(cell, g.arc_ptr[u], g.arc_ptr[u + 1], flow);
        continue;
      }
      const int32_t* const edge = g.arc_edge + first_plus_1 - 1;
      for (int j = 0; j < kArcs; ++j) {
        const T out = j < kHalf ? -net[j][cell] : net[j][cell];
        flow[edge[j]] = int32_t(std::max(out, T{0}));
      }
      if (sink_edge[cell] > 0) {
        const int32_t to_sink = sink_edge[cell] - 1;
        flow[to_sink] = int32_t(capacity[to_sink] + std::min(excess[cell], T{0}));
        arriving += flow[to_sink];
      }
    }
    return arriving;
  }
  int64_t write_arcs(int32_t cell, int32_t first, int32_t last, int32_t* flow) const {
    int64_t arriving = 0;
    int rank = 0;
    for (int32_t a = first; a < last; ++a) {
      if (g_.edge_ptr[a] == g_.edge_ptr[a + 1]) continue;
      const int32_t head = g_.arc_head[a];
      int64_t amount = 0;
      if (head == numbers_.sink) {
        amount = capacity_of(a) + std::min<int64_t>(grid_.excess[cell], 0);
        arriving += amount;
      } else if (head != numbers_.source) {
        while (grid_.offset_of(rank) != numbers_.cell(head) - cell) ++rank;
        amount = std::max(net_flow(cell, grid_.rising[rank]), T{0});
      }
      fill(a, amount, flow);
    }
    return arriving;
  }

  const FlowNetworkCsr g_;
  const int32_t* const capacity_;  // [edges]
  const CellNumbers numbers_;
  const StencilGrid<kArcs, T>& grid_;
  const T* const net_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_STENCIL_WRITE_H_
