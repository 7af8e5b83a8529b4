// The stages of a solve, whatever pushes: a maximum preflow, the return of what does not reach the
// target to the root, and the source's side of the cut.
//
// In the first and the last but one stage a round is a global relabelling, exact distances by a
// search back from the target, and pushes until nobody is active or a new search pays. A stage is
// over when the search meets no node with excess: no residual path leads from excess to the target.
// It is this, and not heights, that correctness rests on, so races may leave heights wrong.
//
// Termination. Between two searches heights only rise, and pushes are bounded by their work. After
// FlowTuning::racing rounds nodes are not relabelled any more between searches. Then all heights
// are the distances D of the last search, pushes lead from D to D - 1 and the residual arcs they
// make from D - 1 to D, so nobody's distance falls. A round ends when no node with excess has an
// arc to push along; such nodes, and some there are until the stage is over, have a greater
// distance at the next search. Distances are at most n, so at most n^2 rounds follow.
#ifndef JAXMATCH_CUDA_FLOW_SOLVE_CUH_
#define JAXMATCH_CUDA_FLOW_SOLVE_CUH_

#include "flow/cuda/async_push.cuh"
#include "flow/cuda/global_relabel.cuh"

namespace jaxmatch::flow {

template <class Word>
class FlowSolve {
 public:
  __device__ FlowSolve(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning)
      : grid_(grid), s_(s), c_(*s.control), n_(s.network.nodes), tuning_(tuning) {}

  // To the end, or so many rounds of it; negative: no bound. push(active, relabels, cycles) pushes
  // from the first nodes of s.active[0], for about so many cycles of the leader's clock; without
  // `relabels`, until nobody can.
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

  // What FlowControl::cycles counts. The second two are of the return of flow.
  enum Part { kSearching, kPushing, kSearchingBack, kPushingBack, kCancelling, kCutting };

 private:
  static constexpr int64_t kMicrosecond = 1700;  // about, in cycles

  __device__ void spend(int part, int64_t start) {
    if (grid_.leader()) c_.cycles[part] += clock64() - start;
  }

  // Exact heights. Returns how many nodes with excess the target can be reached from, all of which
  // are then in s.active[0]. The search ends as soon as it has them all; who it has not met by then
  // counts as unreachable until the next one.
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
    // All excess can go back to the root: it has come from there.
    if (stage == FlowStage::kReturn && grid_.leader()) c_.overdrawn = 1;
    // Nothing leads any more from the others to the target, now or later: pushes go to nodes that
    // are nearer to it.
    grid_.each(n_, [&](int64_t v) {
      if (__ldcg(s_.height + v) == s_.unreached()) __stcg(s_.closed + v, int32_t(kDead));
    });
    grid_.barrier_reduce();
    return found;
  }

  // From a maximum preflow: those that still reach the target have no excess, and no residual arc
  // leads to them from the others, so what these have goes back among themselves.
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
    grid_.barrier_reduce();  // all have read the target
    if (grid_.leader()) c_.target = c_.root;
    grid_.barrier_reduce();
  }

  // Most of what does not reach the target has not come far, and is back after a few pushes along
  // the way it came. Where flow runs in circles that would take very long: the rest is for
  // searches.
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

  // Where the preflow began at the sink, kOutside are those that the source reaches, which is the
  // root's residual network backwards.
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

// What the last search has found; see FlowSolve::find_source_side().
__device__ inline bool is_on_source_side(const FlowState& s, bool reversed, int32_t v) {
  return reversed ? __ldcg(s.closed + v) == kOutside : __ldcg(s.height + v) < s.unreached();
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_CUDA_FLOW_SOLVE_CUH_
