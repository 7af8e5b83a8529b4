// Computes the results of a solved problem: the source side of the cut, the flow on the given edges
// and the value.
#ifndef JAXMATCH_FLOW_CPU_FINISH_H_
#define JAXMATCH_FLOW_CPU_FINISH_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/compensated_sum.h"
#include "common/cpu/host_arena.h"
#include "common/cpu/parallel_for.h"
#include "common/status.h"
#include "flow/cpu/fixed_point.h"
#include "flow/cpu/setup.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

// Finds the source side of the minimum cut nearest to the source: all nodes that residual paths
// reach from the source or from a node with excess left after the solve. Once this excess has
// returned to the source (return_excess.h), exactly these nodes are reachable from the source.
template <class T>
void find_source_side(const FlowProblem<T>& p, HostArena& memory, bool* side) {
  const Residual<T>& g = p.residual;
  int32_t* const queue = memory.take<int32_t>(g.n);
  int32_t found = 0;
  for (int32_t v = 0; v < g.n; ++v) {
    side[v] = g.excess[v] > 0 || v == p.source;
    if (side[v]) queue[found++] = v;
  }
  for (int32_t i = 0; i < found; ++i) {
    const int32_t v = queue[i];
    for (int32_t a = g.begin[v]; a < g.end[v]; ++a) {
      const FlowArc<T>& arc = g.arcs[a];
      if (arc.out == 0 || side[arc.head]) continue;
      side[arc.head] = true;
      queue[found++] = arc.head;
    }
  }
}

// Net flow on arc a, in units: its flow minus the flow of its reverse arc. May be negative.
template <class T>
T net_flow(const FlowProblem<T>& p, int32_t tail, int32_t a) {
  const FlowArc<T>& arc = p.residual.arcs[a];
  if (!p.keeps_terminals) {
    if (tail == p.source) return arc.head == p.sink ? p.capacity[a] : p.supply[arc.head];
    if (tail == p.sink || arc.head == p.source) return 0;
    if (arc.head == p.sink) return p.capacity[a] + std::min(p.residual.excess[tail], T{0});
  }
  return p.capacity[a] - arc.out;
}

// Writes the flow of each edge. An arc's flow fills its edges one after another. Returns the net
// flow into the sink, in units.
template <class T, class C>
int64_t write_flow(const FlowProblem<T>& p, const C* capacity, const FixedPoint<C>& units,
                   const Spread& spread, C* flow) {
  const FlowNetworkCsr& g = p.network;
  spread(g.edges, 0.3,
         [&](int64_t first, int64_t last) { std::fill(flow + first, flow + last, C{0}); });
  const auto fill = [&](int32_t a, int64_t left) {
    for (int32_t k = g.edge_ptr[a]; k < g.edge_ptr[a + 1] && left > 0; ++k) {
      const int32_t edge = g.arc_edge[k];
      const int64_t amount = std::min(left, units.units(capacity[edge]));
      flow[edge] = units.flow(amount);
      left -= amount;
    }
  };
  std::atomic<int64_t> value{0};
  spread(g.nodes, 20, [&](int64_t first, int64_t last) {
    int64_t arriving = 0;
    for (int32_t u = int32_t(first); u < last; ++u) {
      for (int32_t a = g.arc_ptr[u]; a < g.arc_ptr[u + 1]; ++a) {
        const T net = net_flow(p, u, a);
        if (net <= 0) continue;
        fill(a, net);
        if (g.arc_head[a] == p.sink) arriving += net;
        if (u == p.sink) arriving -= net;
      }
    }
    value.fetch_add(arriving, std::memory_order_relaxed);
  });
  return value;
}

// Capacity of the cut whose source side is `side`, summed in the order of edge indices.
template <class C>
double cut_capacity(const FlowNetworkCsr& g, const C* capacity, const bool* side,
                    HostArena& memory) {
  const int64_t words = (int64_t(g.edges) + 63) / 64;
  uint64_t* const in_cut = memory.take<uint64_t>(words, 0);
  for (int32_t u = 0; u < g.nodes; ++u) {
    if (!side[u]) continue;
    for (int32_t a = g.arc_ptr[u]; a < g.arc_ptr[u + 1]; ++a) {
      if (side[g.arc_head[a]]) continue;
      for (int32_t k = g.edge_ptr[a]; k < g.edge_ptr[a + 1]; ++k) {
        in_cut[g.arc_edge[k] >> 6] |= uint64_t{1} << (g.arc_edge[k] & 63);
      }
    }
  }
  CompensatedSum sum;
  for (int64_t i = 0; i < words; ++i) {
    for (uint64_t word = in_cut[i]; word != 0; word &= word - 1) {
      sum.add(double(capacity[64 * i + __builtin_ctzll(word)]));
    }
  }
  return sum.value();
}

// Writes the results of a problem without a solution.
template <class C, class V>
void write_nothing(const FlowNetworkCsr& g, const FlowResults<C, V>& out, Status status) {
  constexpr bool kIsFloat = std::is_floating_point_v<C>;
  *out.value = kIsFloat ? std::numeric_limits<V>::quiet_NaN() : V(-1);
  std::fill_n(out.flow, g.edges, kIsFloat ? std::numeric_limits<C>::quiet_NaN() : C(-1));
  std::fill_n(out.source_side, g.nodes, false);
  *out.status = status;
}

// Writes the results of a maximum flow: all excess must have returned to the source. `cut` is the
// capacity of the minimum cut; it is not read if capacities are integers.
template <class T, class C, class V>
void write_results(const FlowProblem<T>& p, const C* capacity, const FixedPoint<C>& units,
                   double cut, const Spread& spread, const FlowResults<C, V>& out) {
  const int64_t value = write_flow(p, capacity, units, spread, out.flow);
  *out.status = kOptimal;
  if constexpr (std::is_integral_v<C>) {
    if (units.overflows(value) || value > std::numeric_limits<V>::max()) {
      return write_nothing(p.network, out, kOverflow);
    }
    *out.value = V(value);
  } else if (units.is_unbounded() && value >= units.bound()) {
    *out.value = std::numeric_limits<V>::infinity();
    std::fill_n(out.flow, p.network.edges, std::numeric_limits<C>::quiet_NaN());
  } else {
    const V sum = V(cut);
    if (sum > std::numeric_limits<V>::max()) return write_nothing(p.network, out, kOverflow);
    *out.value = sum;
    // If the maximum flow is 0, remove flow that merely circulates.
    if (cut == 0) std::fill_n(out.flow, p.network.edges, C{0});
  }
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_FINISH_H_
