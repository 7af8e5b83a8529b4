// The last kernel of a flow problem: writes the flow on the given edges, the source side of the cut
// and the value.
#ifndef JAXMATCH_FLOW_CUDA_FINISH_CUH_
#define JAXMATCH_FLOW_CUDA_FINISH_CUH_

#include "common/compensated_sum.h"
#include "flow/cuda/fixed_point.cuh"
#include "flow/cuda/stages.cuh"

namespace jaxmatch::flow {

template <class T>
__device__ inline T no_number() {
  if constexpr (kIsFloat<T>) return T(__longlong_as_double(0x7ff8000000000000));
  return T(-1);
}

// C is the type of capacities, V the type of values.
template <class C, class V>
class FlowFinish {
 public:
  __device__ FlowFinish(FlowGrid& grid, const FlowState& s)
      : grid_(grid),
        s_(s),
        c_(*s.control),
        g_(s.network),
        flow_(static_cast<C*>(s.flow)),
        capacity_(static_cast<const C*>(s.capacity)),
        reversed_(__ldcg(&s.control->reversed) != 0) {}

  // True if the problem must be solved again in finer units. In that case also resets the control
  // words and stores the capacity of the cut found as a bound on the flow.
  __device__ bool must_repeat() {
    if (FlowStage(__ldcg(&c_.stage)) != FlowStage::kEnd) return false;
    FixedPoint<C> units(grid_, s_);
    if (!kIsFloat<C> && units.is_fine(0)) return false;
    const double cut = cut_capacity();
    const bool infinite = __ldcg(&c_.unbounded) != 0 && __ldcg(&c_.value) >= __ldcg(&c_.bound);
    if (infinite || units.is_fine(cut)) return false;
    grid_.barrier_reduce();
    if (grid_.leader()) {
      // An upper bound on the flow, even though the sum was rounded.
      c_.known = cut * (1 + 0x1p-20);
      c_.stage = int32_t(FlowStage::kBegin);
      c_.value = c_.rounds = c_.gap = c_.finest = c_.unbounded = 0;
      for (int group = kAtSource; group <= kOfAll; ++group) {
        c_.greatest[group] = c_.infinite[group] = 0;
        c_.roughly[group] = c_.high[group] = c_.low[group] = 0;
      }
    }
    grid_.barrier_reduce();
    return true;
  }

  // Writes the results. Call it once must_repeat() has returned false. If the number of rounds of a
  // call is limited, call it in any case; the status may then be kUnfinished.
  __device__ void run() {
    const FlowStage stage = FlowStage(__ldcg(&c_.stage));
    Status status = stage == FlowStage::kBad   ? Status(__ldcg(&c_.status))
                    : stage == FlowStage::kEnd ? kOptimal
                                               : kUnfinished;
    const int64_t flow = __ldcg(&c_.value);
    V value = V(flow);
    bool infinite = false;
    if constexpr (kIsFloat<V>) {
      if (status == kOptimal) {
        infinite = __ldcg(&c_.unbounded) != 0 && flow >= __ldcg(&c_.bound);
        value = V(__ldcg(&c_.cut));
        if (value == V(infinity()) && !infinite) status = kOverflow;
        if (infinite) value = V(infinity());
      }
    } else {
      if (status == kOptimal && int64_t(value) != flow) status = kOverflow;
    }
    // A broken invariant must not pass for a proof of optimality.
    if (status == kOptimal && __ldcg(&c_.overdrawn) != 0) status = kUnfinished;
    if (status == kOptimal) {
      write_flow(infinite, kIsFloat<V> && value == V(0));
    } else {
      value = no_number<V>();
      grid_.each(g_.edges, [&](int64_t k) { flow_[k] = no_number<C>(); });
    }
    grid_.each(g_.nodes, [&](int64_t v) {
      s_.source_side[v] = status == kOptimal && is_on_source_side(s_, reversed_, int32_t(v));
    });
    grid_.barrier_reduce();
    if (grid_.leader()) {
      *static_cast<V*>(s_.value) = value;
      *s_.status = status;
      c_.done = stage == FlowStage::kBad || stage == FlowStage::kEnd;
      c_.step = grid_.steps();
    }
  }

 private:
  // Writes the flow of each edge. The edges of an arc are filled in order; if the net flow is in
  // the other direction, they get 0. With `infinite`, all flows are NaN. With `none`, all flows are
  // 0: the maximum flow is 0, so flow that merely circulates is dropped.
  __device__ void write_flow(bool infinite, bool none) {
    const int exponent = __ldcg(&c_.exponent);
    const bool narrow = __ldcg(&c_.narrow) != 0;
    grid_.each(g_.arcs, [&](int64_t at) {
      const int32_t arc = int32_t(at), first = g_.edge_ptr[arc], last = g_.edge_ptr[arc + 1];
      if (first == last) return;
      int64_t left = none ? 0 : narrow ? flow_of<int32_t>(arc) : flow_of<int64_t>(arc);
      for (int32_t k = first; k < last; ++k) {
        const int32_t edge = g_.arc_edge[k];
        const int64_t x = max(min(left, units_of(capacity_[edge], exponent)), int64_t(0));
        left -= x;
        C flow = C(x);
        if constexpr (kIsFloat<C>)
          flow = infinite ? no_number<C>() : C(scalbn(double(x), exponent));
        flow_[edge] = flow;
      }
    });
    const int32_t loops = g_.edge_ptr[g_.arcs];
    grid_.each(g_.edges - loops, [&](int64_t k) {
      flow_[g_.arc_edge[loops + k]] = infinite ? no_number<C>() : C(0);
    });
  }
  template <class Word>
  __device__ int64_t flow_of(int32_t arc) const {
    const int32_t at = reversed_ ? g_.reverse_arc[arc] : arc;
    return int64_t(s_.initials<Word>()[at]) - load(s_.residuals<Word>() + at).out;
  }

  // The capacity of the cut. The order of additions depends only on the number of edges: each lane
  // sums consecutive edges, then the sums of the lanes are added in order, then the sums of the
  // warps.
  __device__ double cut_capacity() {
    grid_.each(g_.edges, [&](int64_t k) { s_.slot[k] = 0; });
    grid_.barrier_reduce();
    grid_.each(g_.arcs, [&](int64_t at) {
      const int32_t arc = int32_t(at);
      if (!is_on_source_side(s_, reversed_, s_.tail(arc)) ||
          is_on_source_side(s_, reversed_, g_.arc_head[arc])) {
        return;
      }
      for (int32_t k = g_.edge_ptr[arc]; k < g_.edge_ptr[arc + 1]; ++k) s_.slot[g_.arc_edge[k]] = 1;
    });
    grid_.barrier_reduce();
    const int32_t parts = g_.edges / kSumEdges + 1;
    for (int32_t part = grid_.warp(); part < parts; part += grid_.warps()) {
      const int64_t first = int64_t(part) * kSumEdges;
      const double sum = ordered_sum(min(g_.edges - first, int64_t(kSumEdges)), [&](int64_t k) {
        return __ldcg(s_.slot + first + k) != 0 ? double(capacity_[first + k]) : 0.0;
      });
      if (grid_.lane() == 0) s_.sums[part] = sum;
    }
    grid_.barrier_reduce();
    if (grid_.warp() == 0) {
      const double sum = ordered_sum(parts, [&](int64_t k) { return __ldcg(s_.sums + k); });
      if (grid_.lane() == 0) c_.cut = sum;
    }
    grid_.barrier_reduce();
    return __ldcg(&c_.cut);
  }
  // One warp adds x(0), ..., x(count - 1).
  template <class F>
  __device__ static double ordered_sum(int64_t count, F x) {
    const int64_t each = (count + 31) / 32, first = FlowGrid::lane() * each;
    CompensatedSum own, sum;
    for (int64_t k = first; k < min(first + each, count); ++k) own.add(x(k));
    for (int lane = 0; lane < 32; ++lane) {
      sum.add(__shfl_sync(kAllLanes, own.sum, lane));
      sum.add(__shfl_sync(kAllLanes, own.error, lane));
    }
    return sum.value();
  }

  FlowGrid& grid_;
  const FlowState& s_;
  FlowControl& c_;
  const FlowNetworkCsr& g_;
  C* flow_;
  const C* capacity_;
  const bool reversed_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_FINISH_CUH_
