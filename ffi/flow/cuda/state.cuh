// How kernels read the state of a flow problem, and what may be measured in variants.
#ifndef JAXMATCH_CUDA_FLOW_STATE_CUH_
#define JAXMATCH_CUDA_FLOW_STATE_CUH_

#include "common/status.h"
#include "flow/cuda/grid.cuh"
#include "flow/cuda/layout.h"

namespace jaxmatch::flow {

__device__ inline ArcResidual<int32_t> load(const ArcResidual<int32_t>* at) {
  const int2 x = __ldcg(reinterpret_cast<const int2*>(at));
  return {x.x, x.y};
}
__device__ inline ArcResidual<int64_t> load(const ArcResidual<int64_t>* at) {
  const longlong2 x = __ldcg(reinterpret_cast<const longlong2*>(at));
  return {x.x, x.y};
}

// Some problems and their workspace.
struct FlowBatch {
  FlowOperands operands;
  int32_t* control;
  char* scratch;
  int64_t scratch_bytes;  // of one
  int capacity_bytes, value_bytes;

  JAXMATCH_HOST_DEVICE FlowState state(int64_t b) const {
    const FlowOperands& o = operands;
    FlowState s{};
    s.control = reinterpret_cast<FlowControl*>(control + b * kFlowControlWords);
    s.network = o.network(b);
    s.capacity = static_cast<const char*>(o.capacities) + b * o.first.edges * capacity_bytes;
    s.source = o.sources + b;
    s.sink = o.sinks + b;
    s.value = static_cast<char*>(o.values) + b * value_bytes;
    s.flow = static_cast<char*>(o.flows) + b * o.first.edges * capacity_bytes;
    s.source_side = o.source_sides + b * o.first.nodes;
    s.status = o.statuses + b;
    lay_out_flow(s, scratch + b * scratch_bytes);
    return s;
  }
};

// What may be measured in variants; the defaults are what the methods use.
struct FlowTuning {
  int32_t search_alone = 512;  // ranges of arcs of a level up to which one block searches
  int32_t push_alone = 64;     // active nodes up to which one block pushes
  int32_t share = 8;           // active nodes of a block, at least, where more than one pushes
  int32_t rounds = 8;          // of a block between two meetings of all
  int32_t rounds_alone = 16;   // where no other block pushes
  int32_t scans = 1;           // of one node's arcs before others have their turn
  int32_t hops = 4;            // a thread follows what it has pushed so far
  int32_t thread_arcs = 16;    // nodes of more arcs are discharged by a warp
  int32_t gap = 1;             // whether a height that nobody has cuts off those above
  int32_t wide = 0;            // 64-bit residuals even where 32 bits would do
  int32_t direction = 0;    // the preflow starts at the source (1), the sink (2), or see FlowUnits
  int32_t least_push = 16;  // microseconds between two searches, at least
  int32_t cancel = 32;      // meetings of all while flow is taken back where it came from
  int32_t racing = 4096;    // rounds that relabel between two searches; see FlowSolve
  double patience = 1;      // time from one search to the next, in parts of the former's
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_CUDA_FLOW_STATE_CUH_
