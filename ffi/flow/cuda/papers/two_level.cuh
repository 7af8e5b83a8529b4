// The methods "thread_centric" and "two_level": algorithms 1 and 2 of C.-Y. Hsieh, P.-C. Lin and
// S.-Y. Kuo, Accelerating push-relabel algorithm on GPU via two-level parallelism paradigm and
// efficient CSR designs, HPEC 2025. Algorithm 1 is by Z. He and B. Hong, Dynamically tuned
// push-relabel algorithm for the maximum flow problem on CPU-GPU-hybrid platforms, IPDPS 2010. An
// operation on a node either pushes to the lowest neighbour only, or relabels.
//
// Kept for comparison with the paper: "auto" is faster.
#ifndef JAXMATCH_FLOW_CUDA_PAPERS_TWO_LEVEL_CUH_
#define JAXMATCH_FLOW_CUDA_PAPERS_TWO_LEVEL_CUH_

#include "flow/cuda/push_and_relabel.cuh"

namespace jaxmatch::flow {

// How the reverse arc is found (section III-B of the paper): stored in an array (kRcsr), by binary
// search among the sorted arcs of the head (kBcsr), or by a linear scan of these arcs (kCsr).
enum class FlowLayout : int { kRcsr, kBcsr, kCsr };
constexpr Name<FlowLayout> kFlowLayouts[] = {
    {"rcsr", FlowLayout::kRcsr}, {"bcsr", FlowLayout::kBcsr}, {"csr", FlowLayout::kCsr}};

constexpr Name<int> kTiles[] = {{"degree", 0}, {"4", 4}, {"8", 8}, {"16", 16}, {"32", 32}};

// Options of "thread_centric", which has no tiles, and of "two_level".
struct TwoLevelOptions {
  FlowLayout layout = FlowLayout::kRcsr;
  int tile = 0;            // threads per node; 0: by the node's degree
  int64_t cycle = kCycle;  // maximum number of rounds between two global relabellings

  static TwoLevelOptions of(FlowMethod method, Options& options) {
    if (method != FlowMethod::kThreadCentric && method != FlowMethod::kTwoLevel) return {};
    const FlowLayout layout = options.named("layout", kFlowLayouts);
    const int tile = method == FlowMethod::kTwoLevel ? options.named("tile", kTiles) : 0;
    const int64_t cycle = options.integer("cycle");
    return {layout, tile, cycle > 0 ? cycle : kCycle};
  }
  static constexpr int64_t kCycle = 1024;
};

template <FlowLayout kLayout>
__device__ inline int32_t backward_arc(const FlowNetworkCsr& g, int32_t arc, int32_t tail,
                                       int32_t head) {
  if constexpr (kLayout == FlowLayout::kRcsr) return g.reverse_arc[arc];
  int32_t first = g.arc_ptr[head];
  if constexpr (kLayout == FlowLayout::kCsr) {
    while (g.arc_head[first] != tail) ++first;
  } else {
    for (int32_t last = g.arc_ptr[head + 1] - 1; first < last;) {
      const int32_t middle = first + (last - first) / 2;
      if (g.arc_head[middle] < tail) {
        first = middle + 1;
      } else {
        last = middle;
      }
    }
  }
  return first;
}

// The operation of both methods on a node. `lowest` is the least key_of() among the node's arcs.
template <class Word, FlowLayout kLayout>
class NodeOperations {
 public:
  __device__ NodeOperations(const FlowState& s, bool gap) : ops_(s, gap), g_(s.network) {}

  static constexpr uint64_t kNone = UINT64_MAX;
  __device__ bool is_active(int32_t u) const {
    return __ldcg(ops_.excess + u) > 0 && __ldcg(ops_.height + u) < ops_.unreached;
  }
  // Sort key of an arc: the height of its head, then the arc; kNone if the arc is full.
  __device__ uint64_t key_of(int32_t arc) const {
    if (load(ops_.residual + arc).out <= 0) return kNone;
    return uint64_t(uint32_t(__ldcg(ops_.height + g_.arc_head[arc]))) << 32 | uint32_t(arc);
  }
  // Pushes from the node or relabels it. Returns true if it has pushed, or if the node may still be
  // active after the relabelling.
  __device__ bool operate(int32_t u, uint64_t lowest, bool relabels) const {
    const int32_t height = __ldcg(ops_.height + u);
    const int32_t least = lowest == kNone ? ops_.unreached : int32_t(lowest >> 32);
    if (height > least) {
      push(u, int32_t(lowest));
      return true;
    }
    if (!relabels) return false;
    return ops_.relabel(u, height, height > ops_.gap() ? ops_.unreached : least + 1);
  }

 private:
  __device__ void push(int32_t u, int32_t arc) const {
    const int32_t v = g_.arc_head[arc];
    const Word amount = min(__ldcg(ops_.excess + u), load(ops_.residual + arc).out);
    if (ops_.overdrawn(ops_.leave(true, arc, amount), amount)) ops_.report_overdraft();
    ops_.lose(u, amount);
    ops_.arrive(backward_arc<kLayout>(g_, arc, u, v), amount);
    if (v != ops_.target) ops_.gain(true, v, amount);
  }

  const PushRelabelOps<Word> ops_;
  const FlowNetworkCsr& g_;
};

// Algorithm 1: each node is always discharged by the same single thread. Threads synchronise only
// every few rounds, to detect termination.
template <class Word, FlowLayout kLayout>
class ThreadCentric {
 public:
  __device__ ThreadCentric(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning,
                           const TwoLevelOptions& options)
      : grid_(grid), s_(s), node_(s, tuning.gap != 0), options_(options) {}

  __device__ void run(int32_t, bool relabels, int64_t) {
    for (int64_t cycle = 0; cycle < options_.cycle || !relabels; cycle += kTogether) {
      bool any = false;
      for (int k = 0; k < kTogether; ++k) {
        grid_.each(s_.network.nodes, [&](int64_t at) {
          const int32_t u = int32_t(at);
          if (!node_.is_active(u)) return;
          uint64_t lowest = node_.kNone;
          for (int32_t arc = s_.network.arc_ptr[u]; arc < s_.network.arc_ptr[u + 1]; ++arc) {
            lowest = min(lowest, node_.key_of(arc));
          }
          any |= node_.operate(u, lowest, relabels);
        });
      }
      __syncwarp();
      count_all(&grid_.tally()->found, any);
      if (grid_.barrier_reduce().found == 0) return;
    }
  }

 private:
  static constexpr int kTogether = 4;  // rounds between two barriers

  FlowGrid& grid_;
  const FlowState& s_;
  const NodeOperations<Word, kLayout> node_;
  const TwoLevelOptions& options_;
};

// Algorithm 2: active nodes are queued, and a tile (some lanes of a warp) finds the lowest
// neighbour of each. If tiles are chosen by degree, each tile size has its own queue.
template <class Word, FlowLayout kLayout>
class TwoLevel {
 public:
  __device__ TwoLevel(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning,
                      const TwoLevelOptions& options)
      : grid_(grid), s_(s), node_(s, tuning.gap != 0), options_(options) {}

  __device__ void run(int32_t, bool relabels, int64_t) {
    for (int64_t cycle = 0; cycle < options_.cycle || !relabels; ++cycle) {
      fill_queues();
      const Tally t = grid_.barrier_reduce();
      bool any = discharge_queue(0, t.count, 4, relabels);
      any |= discharge_queue(1, t.found, 8, relabels);
      any |= discharge_queue(2, t.more, 16, relabels);
      any |= discharge_queue(3, t.work, 32, relabels);
      __syncwarp();
      count_all(&grid_.tally()->found, any);
      if (grid_.barrier_reduce().found == 0) return;
    }
  }

 private:
  __device__ int32_t* queue(int which) const {
    if (which < 2) return s_.active[which];
    return reinterpret_cast<int32_t*>(s_.frontier) + int64_t(which - 2) * s_.network.nodes;
  }
  __device__ void fill_queues() const {
    Tally* const t = grid_.tally();
    grid_.each(s_.network.nodes, [&](int64_t at) {
      const int32_t u = int32_t(at);
      if (!node_.is_active(u)) return;
      const int32_t arcs = s_.network.arc_ptr[u + 1] - s_.network.arc_ptr[u];
      const int tile = options_.tile > 0 ? options_.tile : arcs;
      const int which = (tile > 4) + (tile > 8) + (tile > 16);
      int32_t* const counter = which == 0   ? &t->count
                               : which == 1 ? &t->found
                               : which == 2 ? &t->more
                                            : &t->work;
      for (int k = 0; k < 4; ++k) {
        if (which == k) queue(k)[take_place(counter)] = u;
      }
    });
  }
  __device__ bool discharge_queue(int which, int32_t count, int tile, bool relabels) const {
    const int lane = grid_.lane(), tiles = 32 / tile, rank = lane % tile;
    bool any = false;
    for (int64_t k = int64_t(grid_.warp()) * tiles; k < count;
         k += int64_t(grid_.warps()) * tiles) {
      const int64_t at = k + lane / tile;
      int32_t u = -1, first = 0, last = 0;
      if (at < count) {
        u = __ldcg(queue(which) + at);
        first = s_.network.arc_ptr[u];
        last = s_.network.arc_ptr[u + 1];
      }
      uint64_t lowest = node_.kNone;
      for (int32_t arc = first + rank; arc < last; arc += tile) {
        lowest = min(lowest, node_.key_of(arc));
      }
      __syncwarp();
      for (int step = tile / 2; step > 0; step /= 2) {
        lowest = min(lowest, __shfl_xor_sync(kAllLanes, lowest, step));
      }
      if (u >= 0 && rank == 0) any |= node_.operate(u, lowest, relabels);
      __syncwarp();
    }
    return any;
  }

  FlowGrid& grid_;
  const FlowState& s_;
  const NodeOperations<Word, kLayout> node_;
  const TwoLevelOptions& options_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_PAPERS_TWO_LEVEL_CUH_
