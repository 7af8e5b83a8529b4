// The state of one flow problem on a GPU, and where its parts lie in one buffer.
#ifndef JAXMATCH_CUDA_FLOW_STATE_CUH_
#define JAXMATCH_CUDA_FLOW_STATE_CUH_

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "common/status.h"
#include "flow/cuda/grid.cuh"
#include "flow/operands.h"

namespace jaxmatch::flow {

enum class FlowStage : int32_t { kBegin, kPreflow, kCancel, kReturn, kCut, kEnd, kBad };

// What is decided for all threads. The first word is what Python reads of a state.
struct FlowControl {
  int32_t done, stage, status;
  int32_t step;          // of the ring, between launches
  int32_t root, target;  // the preflow starts at the root: the terminal whose arcs hold less
  int32_t reversed;      // the root is the sink, and every arc stands for its partner
  int32_t narrow;        // all sums fit into 31 bits
  int32_t rounds;        // global relabellings so far, of this stage
  int32_t gap;           // lowest height that nobody has, where one has been seen
  int32_t exponent;      // floats: a unit is two to the power of this
  int32_t unbounded;     // floats: arcs of infinite capacity leave the source and enter the sink
  int32_t overdrawn;     // an arc has carried more than it holds, or excess is lost: never
  // What one block tells all others at the end of a search of its own.
  int32_t first, last, level, found;
  // Of the capacities that leave the source, enter the sink, and all: see
  // flow/cuda/fixed_point.cuh.
  int32_t greatest[3];  // exponents
  int32_t infinite[3];  // how many are
  int32_t finest;       // of the lowest bit of any
  int64_t roughly[3];   // sums
  int64_t high[3], low[3];
  int64_t bound;  // no flow is greater
  int64_t value;  // what has left the root; from the second stage on the maximum flow
  double cut;     // floats: the capacity of the minimum cut
  // Where the time goes, for benchmarks: cycles of the leader's clock, see FlowSolve::Part, and of
  // both stages how many global relabellings they took.
  int64_t cycles[6];
  int32_t searches[2];
  Tally ring[kTallies];
};
constexpr int64_t kFlowControlWords = 128;
static_assert(sizeof(FlowControl) <= 4 * kFlowControlWords, "");
// As FlowBuffers of jaxmatch/_flow/native.py knows.
static_assert(offsetof(FlowControl, cycles) == 4 * 48 && offsetof(FlowControl, searches) == 4 * 60);

// What may still flow along an arc, and along its partner: a search against the arcs reads no
// partner, and a push changes both numbers of an arc at once where they are 32 bits each.
template <class Word>
struct alignas(2 * sizeof(Word)) ArcResidual {
  Word out, in;
};
__device__ inline ArcResidual<int32_t> load(const ArcResidual<int32_t>* at) {
  const int2 x = __ldcg(reinterpret_cast<const int2*>(at));
  return {x.x, x.y};
}
__device__ inline ArcResidual<int64_t> load(const ArcResidual<int64_t>* at) {
  const longlong2 x = __ldcg(reinterpret_cast<const longlong2*>(at));
  return {x.x, x.y};
}

// Some consecutive arcs of one node, at most kRangeArcs.
struct alignas(8) ArcRange {
  int32_t first, count;
};
#ifndef JAXMATCH_EMULATED
constexpr int kRangeArcs = 256;
#endif
constexpr int kSumEdges = 1024;  // whose capacities are summed by one warp

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
  int32_t* active[2];  // [nodes]: with excess
  ArcRange* frontier;  // [nodes + arcs / kRangeArcs + 1]
  int32_t* closed;     // [nodes]: see Closed
  int32_t* width;      // [nodes + 2]: of each height, how many have it
  int32_t* slot;       // [edges]: place of each edge in arc_edge; at the end, whether it is cut
  double* sums;        // [edges / kSumEdges + 1]

  template <class Word>
  __device__ ArcResidual<Word>* residuals() const {
    return reinterpret_cast<ArcResidual<Word>*>(residual);
  }
  template <class Word>
  __device__ Word* initials() const {
    return reinterpret_cast<Word*>(initial);
  }
  template <class Word>
  __device__ Word* excesses() const {
    return reinterpret_cast<Word*>(excess);
  }
  // The node that the arc leaves.
  __device__ int32_t tail(int32_t arc) const { return network.arc_head[network.arc_partner[arc]]; }
  // Heights: of nodes that a search from the target has not reached, and of those it must not.
  __device__ int32_t unreached() const { return network.nodes; }
  __device__ int32_t barred() const { return network.nodes + 1; }
};

// Nodes that searches leave out: those that nothing leads from to the target any more, and others
// that a stage has nothing to do with.
enum Closed : int32_t { kOpen, kDead, kOutside };

// Hands out parts of the scratch buffer; also with a null base, to learn its size, which Python
// computes likewise: with n nodes, a arcs and e edges, each of
//   16 a, 8 a, 8 n, 4 n, 4 n, 4 n, 8 (n + a // 256 + 1), 4 n, 4 (n + 2), 4 e, 8 (e // 1024 + 1)
// bytes, rounded up to a multiple of 256; with 512 bytes of control beside it.
JAXMATCH_HOST_DEVICE inline int64_t lay_out_flow(FlowState& s, char* base) {
  int64_t used = 0;
  const auto take = [&](auto*& part, int64_t count) {
    using T = std::remove_reference_t<decltype(*part)>;
    part = base ? reinterpret_cast<T*>(base + used) : nullptr;
    used += (count * int64_t(sizeof(T)) + 255) / 256 * 256;
  };
  const int64_t n = s.network.nodes, arcs = s.network.arcs, edges = s.network.edges;
  take(s.residual, 2 * arcs);
  take(s.initial, arcs);
  take(s.excess, n);
  take(s.height, n);
  take(s.active[0], n);
  take(s.active[1], n);
  take(s.frontier, n + arcs / kRangeArcs + 1);
  take(s.closed, n);
  take(s.width, n + 2);
  take(s.slot, edges);
  take(s.sums, edges / kSumEdges + 1);
  return used;
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

  // For measurements: above its lowest byte `choice` has four bits x for each of these but the last
  // two, in order; x > 0 stands for 2^x / 4, rounded down. `k` > 0 is `patience`.
  static FlowTuning of(int64_t choice, double k) {
    FlowTuning t;
    int32_t* const fields[] = {
        &t.search_alone, &t.push_alone, &t.share, &t.rounds,    &t.rounds_alone, &t.scans, &t.hops,
        &t.thread_arcs,  &t.gap,        &t.wide,  &t.direction, &t.least_push,   &t.cancel};
    int shift = 8;
    for (int32_t* field : fields) {
      const int x = int(choice >> shift & 15);
      if (x > 0) *field = (int32_t(1) << x) / 4;
      shift += 4;
    }
    for (int32_t* least : {&t.share, &t.rounds, &t.rounds_alone, &t.scans, &t.hops}) {
      if (*least < 1) *least = 1;
    }
    if (k > 0) t.patience = k;
    return t;
  }
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_CUDA_FLOW_STATE_CUH_
