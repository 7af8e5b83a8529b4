// Builds the residual network of the zero flow from a network and its capacities in units.
#ifndef JAXMATCH_FLOW_CPU_SETUP_H_
#define JAXMATCH_FLOW_CPU_SETUP_H_

#include <algorithm>
#include <cstdint>
#include <limits>

#include "common/cpu/host_arena.h"
#include "common/cpu/parallel_for.h"
#include "flow/cpu/fixed_point.h"
#include "flow/cpu/residual.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

// One problem: its network, with the capacities of arcs and the current flow in units.
template <class T>
struct FlowProblem {
  FlowNetworkCsr network;
  int32_t source, sink;
  // True if the terminals are nodes of the residual network (see Residual).
  bool keeps_terminals;
  const T* capacity;  // [arcs]
  T* supply;          // [nodes], flow straight from the source to each node; initially the maximum
  Residual<T> residual;
};

// The larger of the sums of capacities out of the source and into the sink, in units. It decides
// the integer type and whether the terminals can be removed (see Residual).
struct FlowSums {
  int64_t largest;

  static constexpr int64_t kMost = int64_t{1} << 61;
  bool fit_int32() const { return largest < (int64_t{1} << 30) - 1; }
  bool fit_terminals() const { return largest < kMost; }
};

template <class C>
FlowSums sum_units(const FlowNetworkCsr& g, const C* capacity, const FixedPoint<C>& units,
                   int32_t source, int32_t sink) {
  if (units.is_unbounded()) return {FlowSums::kMost};
  const FlowSums sums{units.largest_sum()};
  if (sums.fit_int32()) return sums;
  // largest_sum() was computed before the bound was known. Now that units() clips capacities at the
  // bound, the sums may be smaller.
  int64_t out = 0, in = 0;
  const auto add = [&](int64_t& sum, int32_t k) {
    sum = std::min(sum + units.units(capacity[k]), FlowSums::kMost);
  };
  for_each_edge_out(g, source, [&](int32_t k) { add(out, k); });
  for_each_edge_into(g, sink, [&](int32_t k) { add(in, k); });
  return {std::max(out, in)};
}

// Capacity of arc a in units. No flow exceeds bound(), so the sum may saturate at bound() + 1.
template <class T, class C>
T units_of_arc(const FlowNetworkCsr& g, const C* capacity, const FixedPoint<C>& units, int32_t a) {
  int64_t sum = 0;
  for (int32_t k = g.edge_ptr[a]; k < g.edge_ptr[a + 1]; ++k) {
    sum = std::min(sum + units.units(capacity[g.arc_edge[k]]), units.bound() + 1);
  }
  return T(sum);
}

template <class T>
void close(FlowArc<T>* arcs, T* arc_units, int32_t a) {
  arc_units[a] = arcs[a].out = arcs[arcs[a].reverse].in = 0;
}

template <class T, class C>
FlowProblem<T> set_up_flow(const FlowNetworkCsr& g, const C* capacity, const FixedPoint<C>& units,
                           int32_t source, int32_t sink, bool keeps_terminals, const Spread& spread,
                           HostArena& memory) {
  T* const arc_units = memory.take<T>(g.arcs);
  spread(g.arcs, 2, [&](int64_t first, int64_t last) {
    for (int64_t a = first; a < last; ++a) {
      arc_units[a] = units_of_arc<T>(g, capacity, units, int32_t(a));
    }
  });
  FlowArc<T>* const arcs = memory.take<FlowArc<T>>(g.arcs);
  spread(g.arcs, 3, [&](int64_t first, int64_t last) {
    for (int64_t a = first; a < last; ++a) {
      const int32_t reverse = g.reverse_arc[a];
      arcs[a] = {g.arc_head[a], reverse, arc_units[a], arc_units[reverse]};
    }
  });
  T* const excess = memory.take<T>(g.nodes, T{0});
  T* const supply = memory.take<T>(g.nodes, T{0});
  int32_t* const begin = memory.take<int32_t>(g.nodes);
  int32_t* const end = memory.take<int32_t>(g.nodes);
  std::copy_n(g.arc_ptr, g.nodes, begin);
  std::copy_n(g.arc_ptr + 1, g.nodes, end);
  if (keeps_terminals) {
    // A maximum flow never needs to enter the source or leave the sink.
    for (int32_t a = begin[source]; a < end[source]; ++a) close(arcs, arc_units, arcs[a].reverse);
    for (int32_t a = begin[sink]; a < end[sink]; ++a) close(arcs, arc_units, a);
    excess[source] = supply[source] = T(units.bound());
    excess[sink] = -T(units.bound());
  } else {
    for (const int32_t terminal : {source, sink}) {
      for (int32_t a = begin[terminal]; a < end[terminal]; ++a) {
        const int32_t v = arcs[a].head, back = arcs[a].reverse;
        if (terminal == source) {
          supply[v] += arc_units[a];
          excess[v] += arc_units[a];
        } else {
          excess[v] -= arc_units[back];
        }
        arcs[a].out = arcs[a].in = arcs[back].out = arcs[back].in = 0;
        // If the arc back to the terminal is the first or the last one of the node v, the range of
        // arcs of v is shortened to exclude it.
        if (begin[v] == back) ++begin[v];
        if (end[v] == back + 1 && begin[v] < end[v]) --end[v];
      }
    }
    for (const int32_t terminal : {source, sink}) {
      excess[terminal] = supply[terminal] = 0;
      end[terminal] = begin[terminal];
    }
  }
  return {g,
          source,
          sink,
          keeps_terminals,
          arc_units,
          supply,
          {g.nodes, begin, end, arcs, excess, g.arcs}};
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_SETUP_H_
