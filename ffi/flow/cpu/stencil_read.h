// Reads a network of a stencil (see stencil.h) and its capacities into the arrays of a grid.
#ifndef JAXMATCH_FLOW_CPU_STENCIL_READ_H_
#define JAXMATCH_FLOW_CPU_STENCIL_READ_H_

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "common/cpu/index_checks.h"
#include "common/cpu/parallel_for.h"
#include "flow/cpu/edge_runs.h"
#include "flow/cpu/int_pack.h"
#include "flow/cpu/stencil.h"
#include "flow/cpu/stencil_grid.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

// Checks all arrays of the network on the way. A pair of opposite arcs between cells is checked
// from the cell with the higher number, and one between a cell and a terminal from the cell. As
// arcs are counted, all have then been checked.
//
// Time goes into instructions as much as into memory. So cells that are regular (see StencilGrid)
// take a short path: their arcs are known, and have only to be compared.
template <int kArcs, class T>
class StencilReader {
 public:
  // Capacities of arcs count as `most` if they are larger.
  StencilReader(const FlowNetworkCsr& g, const int32_t* capacity, int32_t most,
                const CellNumbers& numbers, StencilGrid<kArcs, T>& grid)
      : g_(g), capacity_(capacity), most_(most), numbers_(numbers), grid_(grid) {}

  // Returns false if the network is invalid or not of this stencil, if a capacity is negative, or
  // if a terminal's sum of capacities reaches `most`. Does not check whether edges are distinct,
  // but adds all edges to `runs`.
  bool read(const Spread& spread, EdgeRuns& runs) {
    if (g_.arc_ptr[0] != 0 || g_.arc_ptr[g_.nodes] != g_.arcs || g_.edge_ptr[0] != 0 ||
        g_.edge_ptr[g_.arcs] > g_.edges) {
      return false;
    }
    Tally of_terminals;
    if (!read_source(of_terminals) || !check_sink(of_terminals)) return false;
    runs.add(of_terminals.runs, kRuns);
    std::atomic<bool> sound{true};
    std::atomic<int64_t> surplus{0}, source_arcs{0}, sink_arcs{0}, to_sink{0};
    spread(g_.nodes, 10, [&](int64_t first, int64_t last) {
      Tally tally;
      if (!read_nodes(int32_t(first), int32_t(last), tally)) sound = false;
      runs.add(tally.runs, kRuns);
      surplus += tally.surplus;
      source_arcs += tally.source_arcs;
      sink_arcs += tally.sink_arcs;
      to_sink += tally.to_sink;
    });
    return sound && surplus == 0 && source_arcs == of_terminals.source_arcs &&
           sink_arcs == of_terminals.sink_arcs && to_sink < most_ && read_loops(runs);
  }

 private:
  using Grid = StencilGrid<kArcs, T>;
  // Edges of arcs between cells have a run for each direction, by rank; others have these.
  enum Run { kFromSource = kArcs, kFromSink, kToSource, kToSink, kRuns };

  struct Tally {
    int64_t surplus = 0;                     // arcs to higher cells minus arcs to lower cells
    int64_t source_arcs = 0, sink_arcs = 0;  // between cells and terminals
    int64_t to_sink = 0;                     // sum of capacities
    EdgeRun runs[kRuns];
  };

  struct ArcRange {
    int32_t first, last;
  };
  ArcRange range_of(int32_t node) const { return {g_.arc_ptr[node], g_.arc_ptr[node + 1]}; }
  bool has_arcs(int32_t first, int32_t last) const {
    return g_.arc_ptr[first] >= 0 && is_non_decreasing(g_.arc_ptr, first, last) &&
           g_.arc_ptr[last] <= g_.arcs;
  }
  // True if everything that the arcs from `first` to `last` refer to is within its array.
  bool are_inside(int32_t first, int32_t last) const {
    return is_non_decreasing(g_.edge_ptr, first, last) && g_.edge_ptr[first] >= 0 &&
           g_.edge_ptr[last] <= g_.edges && are_below(g_.arc_head, first, last, g_.nodes) &&
           are_below(g_.reverse_arc, first, last, g_.arcs) &&
           are_below(g_.arc_edge, g_.edge_ptr[first], g_.edge_ptr[last], g_.edges);
  }
  // The capacity of arc a, or a negative number if one of its edges has a negative capacity.
  int32_t read_edges(int32_t a, EdgeRun& run) const {
    int32_t sum = 0;
    for (int32_t k = g_.edge_ptr[a]; k < g_.edge_ptr[a + 1]; ++k) {
      const int32_t edge = g_.arc_edge[k];
      run.add(edge);
      if (capacity_[edge] < 0) return -1;
      sum = std::min(sum + std::min(capacity_[edge], most_), most_);
    }
    return sum;
  }
  // Self-loops.
  bool read_loops(EdgeRuns& runs) const {
    if (!are_below(g_.arc_edge, g_.edge_ptr[g_.arcs], g_.edges, g_.edges)) return false;
    EdgeRun run;
    for (int32_t k = g_.edge_ptr[g_.arcs]; k < g_.edges; ++k) {
      run.add(g_.arc_edge[k]);
      if (capacity_[g_.arc_edge[k]] < 0) return false;
    }
    runs.add(&run, 1);
    return true;
  }
  // True if the reverse arc of arc a begins at its head and leads back.
  bool leads_back(int32_t tail, int32_t a) const {
    const int32_t r = g_.reverse_arc[a], head = g_.arc_head[a];
    return r >= g_.arc_ptr[head] && r < g_.arc_ptr[head + 1] && g_.reverse_arc[r] == a &&
           g_.arc_head[r] == tail;
  }

  bool has_rising_heads(int32_t terminal) const {
    if (!has_arcs(terminal, terminal + 1)) return false;
    const int32_t first = g_.arc_ptr[terminal], last = g_.arc_ptr[terminal + 1];
    if (!are_inside(first, last)) return false;
    int32_t falls = 0;
    for (int32_t a = first + 1; a < last; ++a) falls |= g_.arc_head[a] <= g_.arc_head[a - 1];
    return !falls;
  }
  bool read_source(Tally& tally) {
    const int32_t source = numbers_.source;
    if (!has_rising_heads(source)) return false;
    int64_t sum = 0;
    for (int32_t a = g_.arc_ptr[source]; a < g_.arc_ptr[source + 1]; ++a) {
      const int32_t head = g_.arc_head[a], units = read_edges(a, tally.runs[kFromSource]);
      sum += units;
      if (units < 0 || sum >= most_ || head == source) return false;
      if (head == numbers_.sink) {
        if (!leads_back(source, a)) return false;
      } else {
        grid_.excess[numbers_.cell(head)] = T(units);
        ++tally.source_arcs;
      }
    }
    return true;
  }
  bool check_sink(Tally& tally) const {
    const int32_t sink = numbers_.sink;
    if (!has_rising_heads(sink)) return false;
    for (int32_t a = g_.arc_ptr[sink]; a < g_.arc_ptr[sink + 1]; ++a) {
      const int32_t head = g_.arc_head[a];
      if (read_edges(a, tally.runs[kFromSink]) < 0 || head == sink) return false;
      if (head == numbers_.source) {
        if (!leads_back(sink, a)) return false;
      } else {
        ++tally.sink_arcs;
      }
    }
    return true;
  }

  bool read_nodes(int32_t first, int32_t last, Tally& tally) {
    const auto [low, high] = std::minmax(numbers_.source, numbers_.sink);
    return read_cells(first, std::min(last, low), 0, tally) &&
           read_cells(std::max(first, low + 1), std::min(last, high), 1, tally) &&
           read_cells(std::max(first, high + 1), last, 2, tally);
  }
  // Reads the cells of the nodes first .. last - 1, whose numbers are higher by `shift`.
  bool read_cells(int32_t first, int32_t last, int32_t shift, Tally& tally) {
    const int32_t far = grid_.neighbours.offset[Grid::kHalf - 1];
    for (int32_t begin = first, end; begin < last; begin = end) {
      end = std::min(last, begin + kBlock);
      if (!has_arcs(begin, end) || !are_inside(g_.arc_ptr[begin], g_.arc_ptr[end])) return false;
      for (int32_t u = begin; u < end; ++u) {
        // A regular cell has no terminal among the nodes between its neighbours.
        if (grid_.count == kArcs && u - first >= far && last - u > far) {
          u = read_regular(u, std::min(end, last - far), shift, tally);
          if (u == end) break;
        }
        if (!read_other(u, u - shift, tally)) return false;
      }
    }
    return true;
  }

  // Reads regular cells from the node u on, up to the node `end`. Returns the first node that is
  // not a regular cell, or `end`. Local copies tell the compiler that no store changes them.
  int32_t read_regular(int32_t u, int32_t end, int32_t shift, Tally& tally) {
    const FlowNetworkCsr g = g_;
    const int32_t* const capacity = capacity_;
    const uint32_t most = uint32_t(most_);
    const CellNumbers numbers = numbers_;
    int32_t* const begin_of = grid_.begin - shift;
    int32_t* const first_edge = grid_.first_edge - shift;
    int32_t* const sink_edge = grid_.to_sink - shift;
    uint8_t* const exists = grid_.exists - shift;
    T* arcs[kArcs];
    IntPack<kArcs> offsets, ranks, last_edges, rises;
    for (int j = 0; j < kArcs; ++j) {
      offsets.set(j, grid_.offset_of(j));
      ranks.set(j, j + 1);
      last_edges.set(j, tally.runs[j].last);
      rises.set(j, tally.runs[j].rises ? -1 : 0);
      arcs[j] = grid_.arcs + grid_.rising[j] * int64_t(grid_.cells) - shift;
    }
    T* const excess = grid_.excess - shift;
    const ArcRange source_range = range_of(numbers.source), sink_range = range_of(numbers.sink);
    EdgeRun to_sink = tally.runs[kToSink];
    int64_t source_arcs = 0, sink_arcs = 0, sum = 0;
    bool has_begun = false;
    for (; u < end; ++u) {
      const int32_t first = g.arc_ptr[u], last = g.arc_ptr[u + 1];
      int32_t a = first;
      while (a < last && !numbers.is_cell(g.arc_head[a])) ++a;
      if (last - a < kArcs) break;
      const int32_t* const reverse = g.reverse_arc + a;
      const int32_t e = g.edge_ptr[a];
      const int32_t* const edge = g.arc_edge + e;
      if (u % 2 == 0) prefetch_block_after(g, a, edge);
      const auto heads = IntPack<kArcs>::load(g.arc_head + a);
      const auto ends = IntPack<kArcs>::load(g.edge_ptr + a + 1);
      if (((heads - offsets - u) | (ends - ranks - e)).any()) break;
      uint32_t differs = 0;
      for (int j = 0; j < Grid::kHalf; ++j) {
        const int32_t other = begin_of[u + offsets[j]];
        // Arc `back` of the neighbour leads here if the neighbour is regular.
        const int32_t back = other - 1 + kArcs - 1 - j;
        if (other == 0) {
          differs |= uint32_t(!leads_back(u, a + j));
        } else {
          differs |= uint32_t(reverse[j] ^ back) | uint32_t(g.reverse_arc[back] ^ (a + j));
        }
      }
      uint32_t bits = 0;
      for (int j = 0; j < kArcs; ++j) {
        const int32_t c = capacity[edge[j]];
        bits |= uint32_t(c);
        arcs[j][u] = T(c);
      }
      if (differs != 0 || bits > most) break;
      if (first != a || last - a != kArcs + 1) {
        bool reads = true;
        for (int32_t k = first; k < a; ++k) reads &= read_to_terminal(u, u - shift, k, tally);
        for (int32_t k = a + kArcs; k < last; ++k) {
          reads &= read_to_terminal(u, u - shift, k, tally);
        }
        if (!reads) break;
      } else {
        // Most cells have one terminal, and no edge from it that they would count here.
        const int32_t t = a + kArcs, head = g.arc_head[t], back = g.reverse_arc[t];
        const bool is_source = head == numbers.source;
        const ArcRange& range = is_source ? source_range : sink_range;
        const int32_t count = g.edge_ptr[t + 1] - (e + kArcs);
        if (!(is_source || head == numbers.sink) || back < range.first || back >= range.last ||
            g.reverse_arc[back] != t || g.arc_head[back] != u || count != !is_source) {
          if (!read_to_terminal(u, u - shift, t, tally)) break;
        } else if (is_source) {
          ++source_arcs;
          first_edge[u] = e + 1;
        } else {
          const int32_t c = capacity[edge[kArcs]];
          if (uint32_t(c) > most) break;
          to_sink.add(edge[kArcs]);
          ++sink_arcs;
          sum += c;
          excess[u] -= T(c);
          first_edge[u] = e + 1;
          sink_edge[u] = edge[kArcs] + 1;
        }
      }
      const auto edges = IntPack<kArcs>::load(edge);
      rises = rises & (edges > last_edges);
      last_edges = edges;
      exists[u] = uint8_t((1 << kArcs) - 1);
      begin_of[u] = a + 1;
      if (!has_begun) begin_runs(edge, tally);
      has_begun = true;
    }
    for (int j = 0; j < kArcs; ++j) {
      tally.runs[j].last = last_edges[j];
      tally.runs[j].rises = rises[j] != 0;
    }
    tally.runs[kToSink] = to_sink;
    tally.source_arcs += source_arcs;
    tally.sink_arcs += sink_arcs;
    tally.to_sink += sum;
    return u;
  }
  static void begin_runs(const int32_t* edge, Tally& tally) {
    for (int j = 0; j < kArcs; ++j) {
      if (tally.runs[j].first < 0) tally.runs[j].first = edge[j];
    }
  }
  // Many arrays are read side by side, which is too much for the hardware to foresee.
  static void prefetch_block_after(const FlowNetworkCsr& g, int32_t a, const int32_t* edge) {
    constexpr int64_t kNext = kBlock * (kArcs + 1);
    __builtin_prefetch(g.arc_head + a + kNext);
    __builtin_prefetch(g.reverse_arc + a + kNext);
    __builtin_prefetch(g.edge_ptr + a + kNext);
    __builtin_prefetch(edge + kNext);
  }
  bool read_to_terminal(int32_t u, int32_t cell, int32_t a, Tally& tally) {
    const int32_t head = g_.arc_head[a];
    if (numbers_.is_cell(head) || !leads_back(u, a)) return false;
    const bool is_source = head == numbers_.source;
    const int32_t units = read_edges(a, tally.runs[is_source ? kToSource : kToSink]);
    if (units < 0) return false;
    if (is_source) {
      ++tally.source_arcs;
    } else {
      ++tally.sink_arcs;
      tally.to_sink += units;
      grid_.excess[cell] -= T(units);
    }
    return true;
  }
  bool read_other(int32_t u, int32_t cell, Tally& tally) {
    int rank = 0, bits = 0;
    for (int32_t a = g_.arc_ptr[u]; a < g_.arc_ptr[u + 1]; ++a) {
      const int32_t head = g_.arc_head[a];
      if (!numbers_.is_cell(head)) {
        if (!read_to_terminal(u, cell, a, tally)) return false;
        continue;
      }
      const int32_t offset = numbers_.cell(head) - cell;
      while (rank < grid_.count && grid_.offset_of(rank) < offset) ++rank;
      if (rank == grid_.count || grid_.offset_of(rank) != offset) return false;
      const int k = grid_.rising[rank];
      const int32_t units = read_edges(a, tally.runs[rank++]);
      if (units < 0) return false;
      grid_.arcs[k * int64_t(grid_.cells) + cell] = T(units);
      bits |= 1 << k;
      if (offset > 0) {
        ++tally.surplus;
      } else {
        --tally.surplus;
        if (!leads_back(u, a)) return false;
      }
    }
    grid_.exists[cell] = uint8_t(bits);
    return true;
  }

  static constexpr int32_t kBlock = 512;  // cells whose arcs fit the second-level cache

  const FlowNetworkCsr g_;
  const int32_t* const capacity_;  // [edges]
  const int32_t most_;
  const CellNumbers numbers_;
  Grid& grid_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_STENCIL_READ_H_
