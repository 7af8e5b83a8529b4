// How kernels access the state of a flow problem, and tuning constants.
#ifndef JAXMATCH_FLOW_CUDA_STATE_CUH_
#define JAXMATCH_FLOW_CUDA_STATE_CUH_

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

// A batch of problems and its workspace.
struct FlowBatch {
  FlowOperands operands;
  int32_t* control;
  char* scratch;
  int64_t scratch_bytes;  // per problem
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

// Tuning constants; tests and measurements vary them.
struct FlowTuning {
  int32_t search_alone = 512;  // one block alone searches levels of up to this many arc ranges
  int32_t push_alone = 64;     // one block alone pushes if at most this many nodes are active
  int32_t share = 8;           // minimum number of active nodes per block if several blocks push
  int32_t rounds = 8;          // rounds of a block between two grid barriers
  int32_t rounds_alone = 16;   // the same if one block pushes alone
  int32_t scans = 1;           // maximum scans of a node's arcs before its thread takes other nodes
  int32_t hops = 4;            // maximum nodes that a thread discharges along one chain of pushes
  int32_t thread_arcs = 16;    // nodes with more arcs are discharged by a warp
  int32_t gap = 1;             // 1: use the gap heuristic
  int32_t wide = 0;            // 1: use 64-bit residuals even if 32 bits suffice
  int32_t direction = 0;       // preflow starts at source (1) or sink (2); 0: FixedPoint decides
  int32_t least_push = 16;     // minimum time between two global relabellings, in microseconds
  int32_t cancel = 32;         // maximum number of grid barriers in the stage kCancel
  int32_t racing = 4096;       // pushes stop relabelling after this many rounds; see FlowSolve
  double patience = 1;         // pushing time as a multiple of the last global relabelling's time
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_STATE_CUH_
