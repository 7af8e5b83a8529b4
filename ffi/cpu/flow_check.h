// Whether a traced network makes sense.
#ifndef JAXMATCH_CPU_FLOW_CHECK_H_
#define JAXMATCH_CPU_FLOW_CHECK_H_

#include <cstdint>

#include "flow_memory.h"
#include "jaxmatch/flow_operands.h"

namespace jaxmatch {

// From 0 up to `most` or less, never down.
inline bool AreRanges(const int32_t* ptr, int64_t count, int64_t most) {
  if (ptr[0] != 0 || ptr[count] < 0 || ptr[count] > most) return false;
  int32_t falls = 0;
  for (int64_t i = 0; i < count; ++i) falls |= ptr[i + 1] < ptr[i];
  return !falls;
}

// The loop has no exit in the middle, so that it becomes vector code: a sign bit anywhere says that
// something was outside.
inline bool AreBelow(const int32_t* index, int64_t count, int32_t bound) {
  const uint32_t last = uint32_t(bound) - 1;
  uint32_t outside = 0;
  for (int64_t k = 0; k < count; ++k) outside |= uint32_t(index[k]) | (last - uint32_t(index[k]));
  return !(outside >> 31);
}

// Every arc leads to another node, from which its partner leads back.
inline bool ArePartners(const FlowNetworkCsr& g) {
  uint32_t wrong = 0;
  for (int32_t u = 0; u < g.nodes; ++u) {
    for (int32_t a = g.arc_ptr[u]; a < g.arc_ptr[u + 1]; ++a) {
      const int32_t partner = g.arc_partner[a];
      wrong |= g.arc_head[a] == u;
      wrong |= g.arc_partner[partner] != a;
      wrong |= g.arc_head[partner] != u;
    }
  }
  return !wrong;
}

inline bool AreDistinct(const int32_t* index, int64_t count, FlowMemory& memory) {
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

// True if the network is as FlowNetworkCsr says, but for the order of arcs, on which nothing rests.
// Uses up memory.
inline bool IsSound(const FlowNetworkCsr& g, FlowMemory& memory) {
  return AreRanges(g.arc_ptr, g.nodes, g.arcs) && g.arc_ptr[g.nodes] == g.arcs &&
         AreRanges(g.edge_ptr, g.arcs, g.edges) && AreBelow(g.arc_head, g.arcs, g.nodes) &&
         AreBelow(g.arc_partner, g.arcs, g.arcs) && ArePartners(g) &&
         AreBelow(g.arc_edge, g.edges, g.edges) && AreDistinct(g.arc_edge, g.edges, memory);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_FLOW_CHECK_H_
