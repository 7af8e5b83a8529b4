// The three kernels of a flow problem: begin, solve, finish.
#ifndef JAXMATCH_FLOW_CUDA_KERNELS_CUH_
#define JAXMATCH_FLOW_CUDA_KERNELS_CUH_

#include "flow/cuda/async_push.cuh"
#include "flow/cuda/begin.cuh"
#include "flow/cuda/finish.cuh"
#include "flow/cuda/papers/two_level.cuh"
#include "flow/cuda/stages.cuh"

namespace jaxmatch::flow {

struct FlowPlan {
  FlowTuning tuning;
  TwoLevelOptions two_level;
  bool ordered;  // true: each node's arcs must be sorted, so that reverse arcs can be searched
  int64_t budget;
};

template <class C>
__device__ inline void begin_problem(const FlowState& s, const FlowPlan& plan, bool alone) {
  if (FlowStage(__ldcg(&s.control->stage)) != FlowStage::kBegin) return;
  FlowGrid grid(s.control->ring, __ldcg(&s.control->step), alone);
  begin_flow<C>(grid, s, plan.tuning, plan.ordered);
}

// The pushes of the method "auto" between two global relabellings.
template <class Word>
class AutoPushes {
 public:
  __device__ AutoPushes(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning)
      : push_(grid, s, tuning) {}

  __device__ void run(int32_t active, bool relabels, int64_t cycles) {
    push_.run(active, relabels ? push_.kRelabel : push_.kByDistance, INT32_MAX,
              relabels ? cycles : INT64_MAX);
  }

 private:
  FlowPush<Word> push_;
};

// Solves with the pushes of the class `Pushes`. Returns at once unless Word is the width chosen for
// this problem.
template <class Word, class Pushes, class... Options>
__device__ inline void solve_problem(const FlowState& s, const FlowPlan& plan, bool alone,
                                     const Options&... options) {
  if ((__ldcg(&s.control->narrow) != 0) != (sizeof(Word) == 4)) return;
  FlowGrid grid(s.control->ring, __ldcg(&s.control->step), alone);
  FlowSolve<Word>(grid, s, plan.tuning)
      .run(
          [&](int32_t active, bool relabels, int64_t cycles) {
            Pushes(grid, s, plan.tuning, options...).run(active, relabels, cycles);
          },
          plan.budget);
}

// Solves a problem again, to its end, with 64-bit numbers. Not inlined, so that all types of
// capacities share one copy.
__device__ __noinline__ void solve_again(FlowGrid& grid, const FlowState& s,
                                         const FlowTuning& tuning) {
  FlowSolve<int64_t>(grid, s, tuning)
      .run(
          [&](int32_t active, bool relabels, int64_t cycles) {
            AutoPushes<int64_t>(grid, s, tuning).run(active, relabels, cycles);
          },
          -1);
}

// Writes the results. If the unit was too coarse, the problem is first solved again. This happens
// in the same kernel, because the host reads nothing back and so cannot launch another one. If the
// rounds of a call are limited, the next call solves the problem again.
template <class C, class V>
__device__ inline void finish_problem(const FlowState& s, const FlowPlan& plan, bool alone) {
  FlowGrid grid(s.control->ring, __ldcg(&s.control->step), alone);
  FlowTuning tuning = plan.tuning;
  tuning.wide = 1;
  while (FlowFinish<C, V>(grid, s).must_repeat() && plan.budget < 0) {
    begin_flow<C>(grid, s, tuning, plan.ordered);
    grid.barrier_reduce();
    if (FlowStage(__ldcg(&s.control->stage)) == FlowStage::kBad) break;
    solve_again(grid, s, tuning);
    grid.barrier_reduce();
  }
  FlowFinish<C, V>(grid, s).run();
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_KERNELS_CUH_
