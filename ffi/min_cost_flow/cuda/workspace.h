// Memory of the CUDA kernel.
#ifndef JAXMATCH_MIN_COST_FLOW_CUDA_WORKSPACE_H_
#define JAXMATCH_MIN_COST_FLOW_CUDA_WORKSPACE_H_

#include <cstdint>

#include "common/sizes.h"

namespace jaxmatch::min_cost_flow {

// Bytes of a warp. Arrays of hot memory: nodes and runs of the tree, prices of 64 bits, and arcs.
// They are in shared memory if they fit there; other arrays, and those of solves with prices of 128
// bits, are not. An array takes up to 255 bytes more than its numbers do.
inline int64_t hot_bytes(int64_t nodes, int64_t edges) {
  return (nodes + 1) * (32 + 12 + 8) + edges * 24 + 4 * 256;
}
inline int64_t cold_bytes(int64_t nodes, int64_t edges) {
  // Masses; the start of a solve, of which a forest; costs of both kinds and for a solve without
  // costs; the memory of a solve with 128 bits, and of one without costs; flows and flags.
  const int64_t of_nodes =
      8 + 8 + (8 + 8 + 8 + 4 * 4 + 24 + 1 + 16) + 3 * 8 + (48 + 12 + 16) + (48 + 12 + 8) + 1 + 36;
  const int64_t of_edges = 8 + 8 + (8 + 8) + (8 + 16 + 8) + 48 + 24 + 8;
  const int64_t sum = hot_bytes(nodes, edges) + (nodes + 1) * of_nodes + edges * of_edges;
  return (sum + 65 * 256) / 256 * 256;
}

constexpr Size kSizes[] = {
    {"min_cost_flow.workspace",  // arguments: nodes, edges
     [](const int64_t* a) { return words(cold_bytes(a[0], a[1])); }},
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CUDA_WORKSPACE_H_
