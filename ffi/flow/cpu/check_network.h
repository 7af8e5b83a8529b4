// Validation of the arrays of a network. Python cannot check them if they are traced.
#ifndef JAXMATCH_FLOW_CPU_CHECK_NETWORK_H_
#define JAXMATCH_FLOW_CPU_CHECK_NETWORK_H_

#include <atomic>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/cpu/index_checks.h"
#include "common/cpu/parallel_for.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

// True if every arc of the nodes first .. last - 1 leads to another node, and its reverse arc leads
// back.
inline bool are_reverse_arcs(const FlowNetworkCsr& g, int64_t first, int64_t last) {
  uint32_t wrong = 0;
  for (int32_t u = int32_t(first); u < last; ++u) {
    for (int32_t a = g.arc_ptr[u]; a < g.arc_ptr[u + 1]; ++a) {
      const int32_t reverse = g.reverse_arc[a];
      wrong |= g.arc_head[a] == u;
      wrong |= g.reverse_arc[reverse] != a;
      wrong |= g.arc_head[reverse] != u;
    }
  }
  return !wrong;
}

// True if the heads of the node's arcs strictly increase, so that no two arcs lead to the same
// node.
inline bool heads_rise(const FlowNetworkCsr& g, int32_t node) {
  for (int32_t a = g.arc_ptr[node] + 1; a < g.arc_ptr[node + 1]; ++a) {
    if (g.arc_head[a] <= g.arc_head[a - 1]) return false;
  }
  return true;
}

inline bool are_distinct(const int32_t* index, int64_t count, HostArena& memory) {
  uint64_t* const seen = memory.take<uint64_t>((count + 63) / 64, 0);
  uint64_t twice = 0;
  for (int64_t k = 0; k < count; ++k) {
    uint64_t& word = seen[index[k] >> 6];
    const uint64_t bit = uint64_t{1} << (index[k] & 63);
    twice |= word & bit;
    word |= bit;
  }
  return !twice;
}

// True if the network meets the description of FlowNetworkCsr. The order of arcs is not checked
// here, because it matters only at the source and the sink (see heads_rise). Allocates from
// `memory`.
inline bool is_sound_network(const FlowNetworkCsr& g, const Spread& spread, HostArena& memory) {
  if (g.arc_ptr[0] != 0 || g.arc_ptr[g.nodes] != g.arcs || g.edge_ptr[0] != 0 ||
      g.edge_ptr[g.arcs] < 0 || g.edge_ptr[g.arcs] > g.edges) {
    return false;
  }
  std::atomic<bool> sound{true};
  const auto check = [&](int64_t count, auto holds) {
    spread(count, 1, [&](int64_t first, int64_t last) {
      if (!holds(first, last)) sound.store(false, std::memory_order_relaxed);
    });
  };
  check(g.nodes, [&](int64_t i, int64_t j) { return is_non_decreasing(g.arc_ptr, i, j); });
  check(g.arcs, [&](int64_t i, int64_t j) {
    return is_non_decreasing(g.edge_ptr, i, j) && are_below(g.arc_head, i, j, g.nodes) &&
           are_below(g.reverse_arc, i, j, g.arcs);
  });
  check(g.edges, [&](int64_t i, int64_t j) { return are_below(g.arc_edge, i, j, g.edges); });
  if (!sound) return false;
  check(g.nodes, [&](int64_t i, int64_t j) { return are_reverse_arcs(g, i, j); });
  return sound && are_distinct(g.arc_edge, g.edges, memory);
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_CHECK_NETWORK_H_
