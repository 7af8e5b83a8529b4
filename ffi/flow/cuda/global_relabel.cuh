// Breadth-first search over residual arcs. Global relabelling searches backwards from the target;
// the source side of the cut is found by a forward search from the source. All blocks search a
// level together, but one block alone searches small levels.
#ifndef JAXMATCH_FLOW_CUDA_GLOBAL_RELABEL_CUH_
#define JAXMATCH_FLOW_CUDA_GLOBAL_RELABEL_CUH_

#include "flow/cuda/state.cuh"

namespace jaxmatch::flow {

constexpr int kSearchUnroll = 4;  // arcs that a lane loads together

// Distributes the arcs of the lanes' ranges evenly over the lanes of the warp. Calls f(arcs) with
// kSearchUnroll arcs per lane at a time, where -1 stands for no arc. All lanes call f.
template <class F>
__device__ inline void each_arc(const ArcRange& range, F f) {
  const int lane = FlowGrid::lane();
  const int begin = lanes_before(range.count), end = begin + range.count;
  const int total = __shfl_sync(kAllLanes, end, 31);
  const int32_t shift = range.first - begin;
  for (int k0 = 0; k0 < total; k0 += 32 * kSearchUnroll) {
    int32_t arcs[kSearchUnroll];
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      const int k = k0 + i * 32 + lane;
      arcs[i] = -1;
      if (k0 + i * 32 >= total) continue;
      int owner = 0;  // the first lane whose end is beyond k
#pragma unroll
      for (int step = 16; step > 0; step /= 2) {
        if (__shfl_sync(kAllLanes, end, owner + step - 1) <= k) owner += step;
      }
      const int32_t at = __shfl_sync(kAllLanes, shift, min(owner, 31)) + k;
      if (k < total) arcs[i] = at;
    }
    f(arcs);
  }
}

template <class Word, bool kForward>
class FlowSearch {
 public:
  __device__ FlowSearch(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning)
      : grid_(grid),
        s_(s),
        g_(s.network),
        residual_(s.residuals<Word>()),
        excess_(s.excesses<Word>()),
        tuning_(tuning) {}

  // Sets the height of every node that is not barred to its distance to `start`, or from `start` if
  // kForward. Before the call, all heights must be unreached() or barred(). A backward search lists
  // the nodes with excess in s.active[0], and it may end once `goal` of them are found. Returns the
  // number of nodes in this list. Nodes that are not found stay unreached().
  __device__ int32_t run(int32_t start, int32_t goal) {
    const int32_t begin = g_.arc_ptr[start], degree = g_.arc_ptr[start + 1] - begin;
    const int32_t ranges = (degree + kRangeArcs - 1) / kRangeArcs;
    grid_.each(ranges, [&](int64_t k) {
      const int32_t skip = int32_t(k) * kRangeArcs;
      s_.frontier[k] = {begin + skip, min(degree - skip, kRangeArcs)};
    });
    if (grid_.leader()) {
      s_.height[start] = 0;
      if (tuning_.gap && !kForward) s_.width[0] = 1;
    }
    grid_.barrier_reduce();
    int32_t heavy = degree;
    first_ = 0;
    last_ = ranges;
    level_ = found_ = 0;
    while (first_ < last_ && found_ < goal) {
      if (is_small(last_ - first_, heavy)) {
        if (grid_.block() == 0) search_alone(goal);
        grid_.barrier_reduce();
        const FlowControl& c = *s_.control;
        first_ = __ldcg(&c.first);
        last_ = __ldcg(&c.last);
        level_ = __ldcg(&c.level);
        found_ = __ldcg(&c.found);
        heavy = INT32_MAX;  // the block stopped: the search has ended, or the level is too large
      } else {
        search_together();
        const Tally t = grid_.barrier_reduce();
        step(t.count, t.found);
        heavy = t.more;
      }
    }
    return found_;
  }

 private:
  static constexpr int kManyArcs = 64;  // nodes with more arcs count as heavy
  static constexpr int kHeavyArcs = 8192;

  // Where the arc ranges of newly found nodes go, and the counters (see FlowShared). A block that
  // searches alone writes all ranges both to `stage` and to s.frontier. If several blocks search,
  // ranges that fit into `stage` go to s.frontier at the end of the level, and ranges that do not
  // fit go there at once; the counter `found` is then in global memory.
  struct Out {
    ArcRange* stage;
    int32_t room;
    int32_t *listed, *nodes, *heavy, *found;
    int32_t* overflow;  // number of ranges in s.frontier; null: one block alone
    bool bits;          // true: threads claim nodes by setting bits in shared memory
  };

  __device__ bool is_small(int32_t ranges, int32_t heavy) const {
    return ranges <= min(tuning_.search_alone, kFlowStaged) && heavy <= kHeavyArcs;
  }
  __device__ void step(int32_t listed, int32_t found) {
    first_ = last_;
    last_ += listed;
    found_ += found;
    ++level_;
  }

  // Searches one level with all blocks. Each block adds up its counts first: thousands of warps
  // adding to the same word would serialise.
  __device__ void search_together() {
    FlowShared& b = flow_block();
    Tally* const tally = grid_.tally();
    if (threadIdx.x == 0) b.listed[0] = b.nodes[0] = b.heavy[0] = 0;
    __syncthreads();
    ArcRange* const stage = flow_stage<ArcRange>(0);
    constexpr int32_t kRoom = 2 * kFlowStaged;
    expand(nullptr, grid_.warp(), grid_.warps(),
           {stage, kRoom, b.listed, b.nodes, b.heavy, &tally->found, &tally->count, false});
    __syncthreads();
    const int32_t staged = min(b.listed[0], kRoom);
    if (threadIdx.x == 0) {
      if (staged > 0) b.base = atomicAdd(&tally->count, staged);
      if (b.heavy[0] > 0) atomicAdd(&tally->more, b.heavy[0]);
      if (tuning_.gap && !kForward && b.nodes[0] > 0) {
        atomicAdd(s_.width + level_ + 1, b.nodes[0]);
      }
    }
    __syncthreads();
    for (int32_t k = threadIdx.x; k < staged; k += blockDim.x) {
      s_.frontier[last_ + b.base + k] = stage[k];
    }
  }

  // Sets the bit of each node that is reached or barred.
  __device__ void mark_known_nodes() const {
    constexpr int kUnroll = 8;
    const int lane = grid_.lane(), warps = int(blockDim.x / 32);
    const int32_t words = (g_.nodes + 31) / 32;
    for (int32_t first = int32_t(threadIdx.x / 32); first < words; first += kUnroll * warps) {
      int32_t height[kUnroll];
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const int32_t node = (first + i * warps) * 32 + lane;
        height[i] = node < g_.nodes ? __ldcg(s_.height + node) : 0;
      }
#pragma unroll
      for (int i = 0; i < kUnroll; ++i) {
        const unsigned known = __ballot_sync(kAllLanes, height[i] != s_.unreached());
        const int32_t word = first + i * warps;
        if (lane == 0 && word < words) flow_bits()[word] = known;
      }
    }
  }

  // Searches level after level with this block alone, while levels are small.
  __device__ void search_alone(int32_t goal) {
    FlowShared& b = flow_block();
    const bool bits = g_.nodes <= kKnownNodes;
    if (bits) mark_known_nodes();
    if (threadIdx.x == 0) b.listed[0] = b.nodes[0] = b.found[0] = b.heavy[0] = 0;
    __syncthreads();
    const ArcRange* staged = nullptr;
    for (int round = 0;; ++round) {
      const int now = round % 3, next = (round + 1) % 3;
      if (threadIdx.x == 0) b.listed[next] = b.nodes[next] = b.found[next] = b.heavy[next] = 0;
      ArcRange* const stage = flow_stage<ArcRange>(round % 2);
      expand(staged, int(threadIdx.x / 32), int(blockDim.x / 32),
             {stage, kFlowStaged, b.listed + now, b.nodes + now, b.heavy + now, b.found + now,
              nullptr, bits});
      __syncthreads();
      const int32_t listed = b.listed[now], heavy = b.heavy[now];
      if (threadIdx.x == 0 && tuning_.gap && !kForward) s_.width[level_ + 1] = b.nodes[now];
      step(listed, b.found[now]);
      staged = stage;
      if (listed == 0 || found_ >= goal || !is_small(listed, heavy)) break;
    }
    if (threadIdx.x == 0) {
      FlowControl& c = *s_.control;
      c.first = first_;
      c.last = last_;
      c.level = level_;
      c.found = found_;
    }
  }

  // Visits the arcs of all ranges of this level, which are divided among `warps` warps.
  __device__ void expand(const ArcRange* staged, int warp, int warps, const Out& out) const {
    const int lane = grid_.lane();
    const int32_t count = last_ - first_;
    const int32_t each = min(32, (count + warps - 1) / warps);
    for (int64_t k = int64_t(warp) * each; k < count; k += int64_t(warps) * each) {
      ArcRange range{0, 0};
      if (lane < each && k + lane < count) {
        if (staged) {
          range = staged[k + lane];
        } else {
          const int2 x = __ldcg(reinterpret_cast<const int2*>(s_.frontier + first_ + k + lane));
          range = {x.x, x.y};
        }
      }
      each_arc(range, [&](const int32_t (&arcs)[kSearchUnroll]) { visit(arcs, out); });
    }
  }

  // Visits kSearchUnroll arcs per lane. Loads are unconditional, because a branch would serialise
  // them: a lane without an arc loads the arc 0.
  __device__ void visit(const int32_t (&arcs)[kSearchUnroll], const Out& out) const {
    int32_t node[kSearchUnroll], first[kSearchUnroll], degree[kSearchUnroll];
    Word residual[kSearchUnroll], excess[kSearchUnroll];
    bool open[kSearchUnroll], active[kSearchUnroll];
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      const int32_t arc = max(arcs[i], 0);
      node[i] = g_.arc_head[arc];
      residual[i] = passing(arc);
    }
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) open[i] = arcs[i] >= 0 && residual[i] > 0;
    if (out.bits) {
#pragma unroll
      for (int i = 0; i < kSearchUnroll; ++i) {
        const uint32_t bit = uint32_t{1} << (node[i] & 31);
        if (open[i]) open[i] = (atomicOr(flow_bits() + (node[i] >> 5), bit) & bit) == 0;
      }
    } else {
      int32_t height[kSearchUnroll];
#pragma unroll
      for (int i = 0; i < kSearchUnroll; ++i) height[i] = __ldcg(s_.height + node[i]);
#pragma unroll
      for (int i = 0; i < kSearchUnroll; ++i) open[i] &= height[i] == s_.unreached();
    }
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      const int32_t at = open[i] ? node[i] : 0;
      first[i] = g_.arc_ptr[at];
      degree[i] = g_.arc_ptr[at + 1];
      excess[i] = kForward ? Word(0) : __ldcg(excess_ + at);
    }
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      if (!open[i]) continue;
      if (out.bits) {
        __stcg(s_.height + node[i], level_ + 1);
      } else {
        open[i] = atomicCAS(s_.height + node[i], s_.unreached(), level_ + 1) == s_.unreached();
      }
    }
    int parts = 0, actives = 0, nodes = 0, heavy = 0;
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      degree[i] = open[i] ? degree[i] - first[i] : 0;
      active[i] = open[i] && excess[i] > 0;
      nodes += open[i];
      actives += active[i];
      parts += (degree[i] + kRangeArcs - 1) / kRangeArcs;
      heavy += degree[i] > kManyArcs ? min(degree[i], kHeavyArcs) : 0;
    }
    if (!__any_sync(kAllLanes, nodes > 0)) return;
    if (__any_sync(kAllLanes, heavy > 0)) count_all(out.heavy, heavy);
    count_all(out.nodes, nodes);
    int32_t at = take(parts, out.listed);
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      for (int32_t skip = 0; skip < degree[i]; skip += kRangeArcs, ++at) {
        const ArcRange part{first[i] + skip, min(degree[i] - skip, kRangeArcs)};
        if (at < out.room) out.stage[at] = part;
        if (out.overflow == nullptr) {
          s_.frontier[last_ + at] = part;
        } else if (at >= out.room) {
          s_.frontier[last_ + take_place(out.overflow)] = part;
        }
      }
    }
    if (kForward || !__any_sync(kAllLanes, actives > 0)) return;
    at = found_ + take(actives, out.found);
#pragma unroll
    for (int i = 0; i < kSearchUnroll; ++i) {
      if (active[i]) s_.active[0][at++] = node[i];
    }
  }
  __device__ Word passing(int32_t arc) const {
    const ArcResidual<Word> r = load(residual_ + arc);
    return kForward ? r.out : r.in;
  }
  // Reserves `count` consecutive places for each lane.
  __device__ static int32_t take(int count, int32_t* counter) {
    const int before = lanes_before(count);
    int32_t base = 0;
    if (FlowGrid::lane() == 31) base = atomicAdd(counter, before + count);
    return __shfl_sync(kAllLanes, base, 31) + before;
  }

  FlowGrid& grid_;
  const FlowState& s_;
  const FlowNetworkCsr& g_;
  ArcResidual<Word>* residual_;
  Word* excess_;
  const FlowTuning& tuning_;
  int32_t first_ = 0, last_ = 0, level_ = 0, found_ = 0;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_GLOBAL_RELABEL_CUH_
