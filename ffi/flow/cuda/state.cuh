// Access of kernels to the state of a flow problem, and tuning constants.
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
  int64_t scratch_bytes;  // of one problem
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
  int32_t search_alone = 512;  // largest level, in ranges of arcs, that one block searches alone
  int32_t push_alone = 64;     // largest number of active nodes that one block pushes alone
  int32_t share = 8;           // least active nodes per block where several blocks push
  int32_t rounds = 8;          // of a block between two grid barriers
  int32_t rounds_alone = 16;   // the same where no other block pushes
  int32_t scans = 1;           // scans of a node's arcs before other nodes have their turn
  int32_t hops = 4;            // nodes that a thread discharges along one chain of pushes
  int32_t thread_arcs = 16;    // nodes with more arcs are discharged by a warp
  int32_t gap = 1;             // use the gap heuristic
  int32_t wide = 0;            // 64-bit residuals even where 32 bits would do
  int32_t direction =
      0;  // the preflow starts at the source (1), the sink (2), or as FixedPoint decides (0)
  int32_t least_push = 16;  // least time between two searches, in microseconds
  int32_t cancel = 32;      // grid barriers while excess returns against the flow that brought it
  int32_t racing = 4096;    // rounds that relabel between two searches; see FlowSolve
  double patience = 1;  // time between two searches, relative to the duration of the last search
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_STATE_CUH_
