// The stages of a solve, which are the same for all methods:
// - kPreflow finds a maximum preflow from the root to the target. These are the source and the sink
//   or, reversed, the sink and the source.
// - kCancel and kReturn bring excess that cannot reach the target back to the root.
// - kCut finds the source side of the minimum cut.
//
// A round of kPreflow or kReturn begins with a global relabelling, which sets heights to exact
// distances by a search backwards from the target. Then nodes push until no node is active or a new
// search pays off. A stage ends when the search reaches no node with excess, because then no
// residual path leads from excess to the target. Correctness relies on this search and not on
// heights, so races between threads may leave invalid heights.
//
// Termination. For the first FlowTuning::racing rounds of a stage, heights only rise between two
// searches, and a limit on time or iterations ends the pushes. In later rounds nodes are not
// relabelled between searches, so heights are the distances to the target that the last search
// found. A push leads from distance d to d - 1, and the residual arc that it creates leads from
// distance d - 1 to d. So no distance falls. Such a round ends when no node with excess has a
// residual arc to a smaller distance. Nodes that still have excess then have a greater distance at
// the next search. Each such round thus raises at least one distance, and distances are at most n.
// So there are at most n^2 such rounds.
#ifndef JAXMATCH_FLOW_CUDA_STAGES_CUH_
#define JAXMATCH_FLOW_CUDA_STAGES_CUH_

#include "flow/cuda/async_push.cuh"
#include "flow/cuda/global_relabel.cuh"

namespace jaxmatch::flow {

template <class Word>
class FlowSolve {
 public:
  __device__ FlowSolve(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning)
      : grid_(grid), s_(s), c_(*s.control), n_(s.network.nodes), tuning_(tuning) {}

  // Runs the stages to the end, or at most `budget` rounds of them if `budget` is not negative.
  // push(active, relabels, cycles) discharges the first `active` nodes of s.active[0]. If
  // `relabels`, it also relabels nodes and takes about `cycles` of the first thread's clock;
  // otherwise it continues until no node can push.
  template <class Push>
  __device__ void run(const Push& push, int64_t budget) {
    FlowStage stage = FlowStage(__ldcg(&c_.stage));
    int32_t rounds = __ldcg(&c_.rounds);
    while (budget != 0 && stage < FlowStage::kCut) {
      const int late = stage == FlowStage::kPreflow ? 0 : 2;
      if (stage == FlowStage::kCancel) {
        const int64_t start = clock64();
        cancel();
        spend(kCancelling, start);
        stage = FlowStage::kReturn;
        --budget;
        continue;
      }
      const int64_t start = clock64();
      const int32_t active = global_relabel(stage);
      spend(kSearching + late, start);
      if (grid_.leader()) ++c_.searches[late / 2];
      const int64_t cycles = max(int64_t(double(clock64() - start) * tuning_.patience),
                                 int64_t(tuning_.least_push) * kMicrosecond);
      if (active > 0) {
        const int64_t pushing = clock64();
        push(active, rounds < tuning_.racing, cycles);
        spend(kPushing + late, pushing);
        ++rounds;
        --budget;
      } else if (stage == FlowStage::kPreflow) {
        turn_back();
        stage = FlowStage::kCancel;
        rounds = 0;
      } else {
        stage = FlowStage::kCut;
      }
    }
    if (stage == FlowStage::kCut) {
      const int64_t start = clock64();
      find_source_side();
      spend(kCutting, start);
      stage = FlowStage::kEnd;
    }
    grid_.barrier_reduce();
    if (grid_.leader()) {
      c_.stage = int32_t(stage);
      c_.rounds = rounds;
      c_.step = grid_.steps();
    }
  }

  // Index into FlowControl::cycles. kSearchingBack and kPushingBack belong to the stage kReturn.
  enum Part { kSearching, kPushing, kSearchingBack, kPushingBack, kCancelling, kCutting };

 private:
  static constexpr int64_t kMicrosecond = 1700;  // approximate clock cycles

  __device__ void spend(int part, int64_t start) {
    if (grid_.leader()) c_.cycles[part] += clock64() - start;
  }

  // Sets heights to exact distances to the target. Lists the nodes with excess that can reach the
  // target in s.active[0] and returns their number. The search ends as soon as it has found all
  // nodes with excess; nodes not reached by then count as unreachable until the next search.
  __device__ int32_t global_relabel(FlowStage stage) {
    const int32_t target = __ldcg(&c_.target);
    const Word* const excess = s_.excesses<Word>();
    int active = 0;
    grid_.each(n_, [&](int64_t v) {
      const bool open = __ldcg(s_.closed + v) == kOpen;
      __stcg(s_.height + v, open ? s_.unreached() : s_.barred());
      s_.width[v] = 0;
      active += open && __ldcg(excess + v) > 0;
    });
    count_by_blocks(&grid_.tally()->count, active);
    if (grid_.leader()) c_.gap = INT32_MAX;
    const int32_t all = grid_.barrier_reduce().count;
    if (all == 0 && stage == FlowStage::kReturn) return 0;
    const int32_t found =
        FlowSearch<Word, false>(grid_, s_, tuning_).run(target, all > 0 ? all : INT32_MAX);
    if (found == all && all > 0) return found;
    // In kReturn the target is the root, from which all excess came. All of it can return, so if
    // the search misses some, excess was lost.
    if (stage == FlowStage::kReturn && grid_.leader()) c_.overdrawn = 1;
    // A node that the search did not find has no residual path to the target and never gets one. A
    // new path would need a push from a found node to a node that was not found. But pushes lead to
    // lower nodes only, and nodes that were not found have the greatest height.
    grid_.each(n_, [&](int64_t v) {
      if (__ldcg(s_.height + v) == s_.unreached()) __stcg(s_.closed + v, int32_t(kDead));
    });
    grid_.barrier_reduce();
    return found;
  }

  // Prepares the return of excess after a maximum preflow. Nodes that can reach the target have no
  // excess, and no residual arc leads from the other nodes to them. So no path back to the root
  // passes through nodes that can reach the target. These nodes become kOutside, and all others
  // kOpen.
  __device__ void turn_back() {
    int64_t left = 0;
    const Word* const excess = s_.excesses<Word>();
    grid_.each(n_, [&](int64_t v) {
      __stcg(s_.closed + v, int32_t(__ldcg(s_.closed + v) == kOpen ? kOutside : kOpen));
      left += __ldcg(excess + v);
    });
    __syncwarp();
    left = warp_sum(left);
    if (grid_.lane() == 0 && left != 0) add_atomically(&c_.value, -left);
    grid_.barrier_reduce();  // all threads have read c_.target
    if (grid_.leader()) c_.target = c_.root;
    grid_.barrier_reduce();
  }

  // Most excess that cannot reach the target has not come far, so a few pushes against the flow
  // return it. Where flow runs in circles, such pushes could go on for too long. So
  // FlowTuning::cancel limits them, and kReturn returns the remaining excess.
  __device__ void cancel() {
    const Word* const excess = s_.excesses<Word>();
    grid_.each(n_, [&](int64_t v) {
      if (__ldcg(excess + v) > 0) s_.active[0][take_place(&grid_.tally()->count)] = int32_t(v);
    });
    __syncwarp();
    const int32_t count = grid_.barrier_reduce().count;
    FlowPush<Word>(grid_, s_, tuning_)
        .run(count, FlowPush<Word>::kCancel, tuning_.cancel, INT64_MAX);
  }

  // Sets heights below unreached() for the nodes reachable from the source. If the preflow began at
  // the sink, there is nothing to do: arcs are reversed and the target was the source, so the nodes
  // that could reach the target, which are now kOutside, are the nodes reachable from the source.
  __device__ void find_source_side() {
    if (__ldcg(&c_.reversed) != 0) return;
    grid_.each(n_, [&](int64_t v) { __stcg(s_.height + v, s_.unreached()); });
    grid_.barrier_reduce();
    FlowSearch<Word, true>(grid_, s_, tuning_).run(*s_.source, INT32_MAX);
  }

  FlowGrid& grid_;
  const FlowState& s_;
  FlowControl& c_;
  const int32_t n_;
  const FlowTuning& tuning_;
};

// True if v is on the source side of the cut; see FlowSolve::find_source_side().
__device__ inline bool is_on_source_side(const FlowState& s, bool reversed, int32_t v) {
  return reversed ? __ldcg(s.closed + v) == kOutside : __ldcg(s.height + v) < s.unreached();
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_STAGES_CUH_
