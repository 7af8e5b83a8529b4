// The state of one flow problem on a GPU, and the layout of its arrays in one buffer.
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

// Control words, shared by all threads of a problem. Python gets the offsets of words from kSizes.
struct FlowControl {
  int32_t done, stage, status;
  int32_t step;          // barriers so far, kept between launches; selects a tally of `ring`
  int32_t root, target;  // the terminals: the preflow runs from the root to the target
  int32_t reversed;      // 1: the root is the sink, and every arc stands for its reverse arc
  int32_t narrow;        // 1: residual capacities and excesses have 32 bits instead of 64
  int32_t rounds;        // rounds of this stage so far; see FlowSolve
  int32_t gap;           // lowest height known to have no nodes
  int32_t exponent;      // the unit is 2^exponent; 0 for integers, unless sums might overflow
  int32_t rounded;       // floats, 1: a capacity or a flow may be rounded
  int32_t unbounded;     // floats, 1: infinite capacities leave the source and enter the sink
  int32_t overdrawn;     // 1: invariant broken: a flow exceeded its capacity, or excess was lost
  // Where a search that block 0 ran alone has stopped; all blocks continue from there (see
  // FlowSearch).
  int32_t first, last, level, found;
  // Arrays of three have one number per CapacityGroup: edges out of the source, edges into the
  // sink, all edges.
  int32_t greatest[3];  // FixedPoint::kOffset + exponent of the largest capacity
  int32_t infinite[3];  // numbers of infinite capacities
  int32_t finest;       // FixedPoint::kOffset - exponent of the lowest set bit of all capacities
  int64_t roughly[3];   // sums of capacities, each rounded up; see FixedPoint::choose_unit
  int64_t high[3], low[3];  // sums of the upper and the lower 32 bits of capacities
  double known;             // capacity of a cut already found, which bounds the flow; 0: none
  int64_t bound;            // upper bound on every flow, in units
  int64_t value;            // flow out of the root, in units; after kPreflow, the maximum flow
  double cut;               // capacity of the minimum cut; not computed for integers in units of 1
  // For benchmarks: clock cycles that the first thread of the launch spent in each FlowSolve::Part,
  // and the numbers of global relabellings in kPreflow and in kReturn.
  int64_t cycles[6];
  int32_t searches[2];
  Tally ring[kTallies];
};
constexpr int64_t kFlowControlWords = 128;
static_assert(sizeof(FlowControl) <= 4 * kFlowControlWords, "");

// Residual capacities of an arc and of its reverse arc, so that a search against the arcs need not
// load reverse arcs. A push changes both numbers of an arc in one operation if they have 32 bits.
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
constexpr int kSumEdges = 1024;  // number of edges that one warp sums at a time

struct FlowState {
  FlowControl* control;
  FlowNetworkCsr network;
  const void* capacity;  // [edges]
  const int32_t *source, *sink;
  void *value, *flow;  // value: one number; flow: [edges]
  bool* source_side;   // [nodes]
  int32_t* status;

  int64_t* residual;   // [2 * arcs]: ArcResidual<int32_t> or <int64_t> of each arc
  int64_t* initial;    // [arcs], of 32 or 64 bits: `out` of each arc before anything flowed
  int64_t* excess;     // [nodes], of 32 or 64 bits
  int32_t* height;     // [nodes]
  int32_t* active[2];  // [nodes] each: lists of nodes with excess
  ArcRange* frontier;  // [nodes + arcs / kRangeArcs + 1]: arcs of the nodes found by a search
  int32_t* closed;     // [nodes]: see Closed
  int32_t* width;      // [nodes + 2]: number of nodes of each height
  int32_t* slot;       // [edges]: place of each edge in arc_edge; later 1 if the edge is in the cut
  double* sums;        // [edges / kSumEdges + 1]: parts of the cut's capacity

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
  JAXMATCH_DEVICE int32_t tail(int32_t arc) const {
    return network.arc_head[network.reverse_arc[arc]];
  }
  // Heights of nodes that a search has not reached, and of nodes that it must not enter.
  JAXMATCH_DEVICE int32_t unreached() const { return network.nodes; }
  JAXMATCH_DEVICE int32_t barred() const { return network.nodes + 1; }
};

// Whether searches exclude a node: kOpen nodes take part, kDead nodes can never reach the target
// again, and kOutside nodes do not belong to the current stage.
enum Closed : int32_t { kOpen, kDead, kOutside };

// Lays out the arrays in the scratch buffer and returns its size in bytes. With a null base it only
// measures.
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
    {"flow.scratch",  // arguments: nodes, arcs, edges
     [](const int64_t* a) {
       FlowState s{};
       s.network.nodes = int32_t(a[0]), s.network.arcs = int32_t(a[1]);
       s.network.edges = int32_t(a[2]);
       return words(lay_out_flow(s, nullptr));
     }},
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_LAYOUT_H_
