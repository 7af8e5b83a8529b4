// The state of one flow problem on a GPU, and where its parts lie in one buffer.
#ifndef JAXMATCH_FLOW_CUDA_LAYOUT_H_
#define JAXMATCH_FLOW_CUDA_LAYOUT_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/device_arena.h"
#include "common/sizes.h"
#include "common/tally.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

enum class FlowStage : int32_t { kBegin, kPreflow, kCancel, kReturn, kCut, kEnd, kBad };

// Control words, shared by all threads of a problem. Python asks kSizes for the places of words.
struct FlowControl {
  int32_t done, stage, status;
  int32_t step;          // step of the ring, kept between launches
  int32_t root, target;  // the preflow starts at the root: the terminal whose arcs hold less
  int32_t reversed;      // the root is the sink, and every arc stands for its reverse arc
  int32_t narrow;        // all sums fit into 31 bits
  int32_t rounds;        // global relabellings of this stage so far
  int32_t gap;           // lowest height found without nodes
  int32_t exponent;      // the unit is 2^exponent; for integers 0, or more in a rough solve
  int32_t rounded;       // floats: a capacity or a flow is rounded
  int32_t unbounded;     // floats: arcs of infinite capacity leave the source and enter the sink
  int32_t overdrawn;     // an arc carried more than its capacity, or excess was lost: never
  // Published by one block at the end of a search of its own.
  int32_t first, last, level, found;
  // Per capacity group: edges out of the source, into the sink, and all (see
  // flow/cuda/fixed_point.cuh).
  int32_t greatest[3];  // exponents of the largest capacities
  int32_t infinite[3];  // numbers of infinite capacities
  int32_t finest;       // exponent of the lowest set bit of all
  int64_t roughly[3];   // rounded sums
  int64_t high[3], low[3];
  double known;   // the capacity of a cut, which bounds the next solve; 0: none
  int64_t bound;  // upper bound on every flow
  int64_t value;  // flow out of the root; from the second stage on the maximum flow
  double cut;     // floats: the capacity of the minimum cut
  // For benchmarks: cycles of the leader's clock by FlowSolve::Part, and the number of global
  // relabellings of both stages.
  int64_t cycles[6];
  int32_t searches[2];
  Tally ring[kTallies];
};
constexpr int64_t kFlowControlWords = 128;
static_assert(sizeof(FlowControl) <= 4 * kFlowControlWords, "");

// Residual capacities of an arc and of its reverse arc: a search against the arcs does not load the
// reverse arc, and a push changes both numbers of an arc at once if they have 32 bits.
template <class Word>
struct alignas(2 * sizeof(Word)) ArcResidual {
  Word out, in;
};

// Consecutive arcs of one node, at most kRangeArcs.
struct alignas(8) ArcRange {
  int32_t first, count;
};
#ifndef JAXMATCH_EMULATED
constexpr int kRangeArcs = 256;
#endif
constexpr int kSumEdges = 1024;  // edges whose capacities are summed by one warp

struct FlowState {
  FlowControl* control;
  FlowNetworkCsr network;
  const void* capacity;  // [edges]
  const int32_t *source, *sink;
  void *value, *flow;  // one; [edges]
  bool* source_side;   // [nodes]
  int32_t* status;

  int64_t* residual;   // [2 * arcs]: ArcResidual of 32 or 64 bits
  int64_t* initial;    // [arcs], of 32 or 64 bits: `out` of each arc before anything flowed
  int64_t* excess;     // [nodes], of 32 or 64 bits
  int32_t* height;     // [nodes]
  int32_t* active[2];  // [nodes]: nodes with excess
  ArcRange* frontier;  // [nodes + arcs / kRangeArcs + 1]
  int32_t* closed;     // [nodes]: see Closed
  int32_t* width;      // [nodes + 2]: number of nodes of each height
  int32_t* slot;       // [edges]: place of each edge in arc_edge; at the end, whether it is cut
  double* sums;        // [edges / kSumEdges + 1]

  template <class Word>
  JAXMATCH_DEVICE ArcResidual<Word>* residuals() const {
    return reinterpret_cast<ArcResidual<Word>*>(residual);
  }
  template <class Word>
  JAXMATCH_DEVICE Word* initials() const {
    return reinterpret_cast<Word*>(initial);
  }
  template <class Word>
  JAXMATCH_DEVICE Word* excesses() const {
    return reinterpret_cast<Word*>(excess);
  }
  // The tail of the arc.
  JAXMATCH_DEVICE int32_t tail(int32_t arc) const {
    return network.arc_head[network.reverse_arc[arc]];
  }
  // Heights of nodes that a search has not reached, and of those that it must not enter.
  JAXMATCH_DEVICE int32_t unreached() const { return network.nodes; }
  JAXMATCH_DEVICE int32_t barred() const { return network.nodes + 1; }
};

// Nodes excluded from searches: kDead nodes can never reach the target again, kOutside nodes do not
// take part in this stage.
enum Closed : int32_t { kOpen, kDead, kOutside };

// Divides the scratch buffer; with a null base, measures it.
JAXMATCH_HOST_DEVICE inline int64_t lay_out_flow(FlowState& s, char* base) {
  DeviceArena arena{base};
  const int64_t n = s.network.nodes, arcs = s.network.arcs, edges = s.network.edges;
  arena.take(s.residual, 2 * arcs);
  arena.take(s.initial, arcs);
  arena.take(s.excess, n);
  arena.take(s.height, n);
  arena.take(s.active[0], n);
  arena.take(s.active[1], n);
  arena.take(s.frontier, n + arcs / kRangeArcs + 1);
  arena.take(s.closed, n);
  arena.take(s.width, n + 2);
  arena.take(s.slot, edges);
  arena.take(s.sums, edges / kSumEdges + 1);
  return arena.used;
}

constexpr Size kSizes[] = {
    {"flow.control", constant<kFlowControlWords>},
    {"flow.control.done", constant<offsetof(FlowControl, done) / 4>},
    {"flow.control.cycles", constant<offsetof(FlowControl, cycles) / 4>},
    {"flow.control.searches", constant<offsetof(FlowControl, searches) / 4>},
    {"flow.control.searches.count", constant<std::extent_v<decltype(FlowControl::searches)>>},
    {"flow.scratch",  // of nodes, arcs and edges
     [](const int64_t* a) {
       FlowState s{};
       s.network.nodes = int32_t(a[0]), s.network.arcs = int32_t(a[1]);
       s.network.edges = int32_t(a[2]);
       return words(lay_out_flow(s, nullptr));
     }},
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_LAYOUT_H_
