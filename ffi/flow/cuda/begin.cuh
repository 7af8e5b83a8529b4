// The first kernel of a flow problem: validates the input, turns capacities into residual
// capacities, and saturates the arcs at the terminal where the preflow starts.
#ifndef JAXMATCH_FLOW_CUDA_BEGIN_CUH_
#define JAXMATCH_FLOW_CUDA_BEGIN_CUH_

#include "flow/cuda/fixed_point.cuh"

namespace jaxmatch::flow {

// True if the arrays form a network and the terminals are two different nodes of it. The heads of
// the source's arcs and of the sink's arcs must increase. With `ordered`, the heads of every node's
// arcs must increase, because NodeOperations (papers/two_level.cuh) searches them for a given head.
// No read is out of bounds, whatever the arrays hold. All threads return the same result.
__device__ inline bool network_is_valid(FlowGrid& grid, const FlowState& s, bool ordered) {
  const FlowNetworkCsr& g = s.network;
  const auto exists = [](int32_t x, int32_t count) { return uint32_t(x) < uint32_t(count); };
  bool bad = g.arc_ptr[0] != 0 || g.arc_ptr[g.nodes] != g.arcs || g.edge_ptr[0] != 0;
  bad |= !exists(*s.source, g.nodes) || !exists(*s.sink, g.nodes) || *s.source == *s.sink;
  grid.each(g.nodes, [&](int64_t u) { bad |= g.arc_ptr[u] > g.arc_ptr[u + 1]; });
  grid.each(g.arcs, [&](int64_t a) {
    const int32_t reverse = g.reverse_arc[a], head = g.arc_head[a];
    bool good = exists(reverse, g.arcs) && exists(head, g.nodes) && reverse != a &&
                g.edge_ptr[a] <= g.edge_ptr[a + 1] && g.edge_ptr[a + 1] <= g.edges;
    if (good) {
      const int32_t tail = g.arc_head[reverse];
      good = exists(tail, g.nodes) && tail != head && g.reverse_arc[reverse] == a;
      if (good) {
        const int32_t last = g.arc_ptr[tail + 1];
        const bool rise = ordered || tail == *s.source || tail == *s.sink;
        good = g.arc_ptr[tail] <= a && a < last &&
               (!rise || a + 1 >= last || a + 1 >= g.arcs || head < g.arc_head[a + 1]);
      }
    }
    bad |= !good;
  });
  grid.each(g.edges, [&](int64_t k) {
    const int32_t edge = g.arc_edge[k];
    if (exists(edge, g.edges)) {
      s.slot[edge] = int32_t(k);
    } else {
      bad = true;
    }
  });
  count_all(&grid.tally()->found, bad);
  const bool valid = grid.barrier_reduce().found == 0;
  // Check that no entry of arc_edge occurs twice.
  bad = false;
  if (valid) {
    grid.each(g.edges, [&](int64_t k) { bad |= __ldcg(s.slot + g.arc_edge[k]) != k; });
  }
  count_all(&grid.tally()->found, bad);
  return grid.barrier_reduce().found == 0 && valid;
}

// Sets initial and residual capacities; one thread writes both arcs of a pair. The arcs out of the
// root are saturated, and their flow becomes the excess of their heads. Before the call, all
// excesses must be zero.
template <class Word, class C>
__device__ inline void fill_residuals(FlowGrid& grid, const FlowState& s,
                                      const FixedPoint<C>& units) {
  const FlowNetworkCsr& g = s.network;
  const int exponent = __ldcg(&s.control->exponent);
  const int64_t bound = __ldcg(&s.control->bound);
  const bool reversed = __ldcg(&s.control->reversed) != 0;
  const int32_t root = reversed ? *s.sink : *s.source, target = reversed ? *s.source : *s.sink;
  ArcResidual<Word>* const residual = s.residuals<Word>();
  int64_t left = 0;  // flow out of the root
  grid.each(g.arcs, [&](int64_t at) {
    const int32_t arc = int32_t(at), reverse = g.reverse_arc[arc];
    if (arc > reverse) return;
    int64_t out = units.arc_units(reversed ? reverse : arc, exponent, bound);
    int64_t in = units.arc_units(reversed ? arc : reverse, exponent, bound);
    s.initials<Word>()[arc] = Word(out);
    s.initials<Word>()[reverse] = Word(in);
    const int32_t tail = g.arc_head[reverse], head = g.arc_head[arc];
    if (tail == root || head == root) {
      const int64_t moved = tail == root ? out : in;
      const int32_t other = tail == root ? head : tail;
      out += tail == root ? -moved : moved;
      in += tail == root ? moved : -moved;
      if (other != target) s.excesses<Word>()[other] = Word(moved);
      left += moved;
    }
    residual[arc] = {Word(out), Word(in)};
    residual[reverse] = {Word(in), Word(out)};
  });
  left = warp_sum(left);
  if (grid.lane() == 0 && left != 0) add_atomically(&s.control->value, left);
}

template <class C>
__device__ inline void begin_flow(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning,
                                  bool ordered) {
  FlowControl& c = *s.control;
  const auto end = [&](FlowStage stage, Status status) {
    grid.barrier_reduce();
    if (!grid.leader()) return;
    c.stage = int32_t(stage);
    c.status = status;
    c.step = grid.steps();
  };
  if (!network_is_valid(grid, s, ordered)) return end(FlowStage::kBad, kInvalidGraph);
  FixedPoint<C> units(grid, s);
  if (!units.are_valid()) return end(FlowStage::kBad, kInvalidCapacity);
  grid.each(s.network.nodes, [&](int64_t v) {
    s.excess[v] = 0;
    s.closed[v] = kOpen;
  });
  units.choose(tuning);
  const int64_t bound = __ldcg(&c.bound);
  if (bound >= kMostUnits) return end(FlowStage::kBad, kOverflow);
  const bool reversed = __ldcg(&c.reversed) != 0;
  const int32_t root = reversed ? *s.sink : *s.source;
  if (__ldcg(&c.narrow) != 0) {
    fill_residuals<int32_t>(grid, s, units);
  } else {
    fill_residuals<int64_t>(grid, s, units);
  }
  if (grid.leader()) {
    c.root = root;
    c.target = reversed ? *s.source : *s.sink;
    s.closed[root] = kOutside;
  }
  end(FlowStage::kPreflow, kOptimal);
}

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_BEGIN_CUH_
