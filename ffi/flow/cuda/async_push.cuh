// The pushes of the method "auto": each active node is discharged along all admissible arcs in one
// scan. A block keeps working on the nodes that it activates; all blocks synchronise rarely.
//
// This is an asynchronous form of the push-relabel algorithm of A. V. Goldberg and R. E. Tarjan, A
// new approach to the maximum-flow problem, JACM 1988. It follows B. Hong and Z. He, An
// asynchronous multithreaded algorithm for the maximum network flow problem with nonblocking global
// relabeling heuristic, TPDS 2011. The thread that activates a node owns it: it discharges the node
// or appends it to a list. A node has only one owner, so it needs no lock.
#ifndef JAXMATCH_FLOW_CUDA_ASYNC_PUSH_CUH_
#define JAXMATCH_FLOW_CUDA_ASYNC_PUSH_CUH_

#include "flow/cuda/push_and_relabel.cuh"

namespace jaxmatch::flow {

template <class Word>
class FlowPush {
 public:
  __device__ FlowPush(FlowGrid& grid, const FlowState& s, const FlowTuning& tuning)
      : grid_(grid),
        s_(s),
        g_(s.network),
        ops_(s, tuning.gap != 0),
        initial_(s.initials<Word>()),
        tuning_(tuning) {}

  // - kRelabel: pushes to lower nodes and relabels.
  // - kByDistance: pushes to lower nodes by the heights of the last search, without relabelling.
  // - kCancel: pushes excess back against the flow that brought it. The flow into a node is at
  //   least its excess, so all of the excess can be pushed back. Every such push reduces the sum of
  //   all arcs' flows, so pushes come to an end.
  enum Mode { kRelabel, kByDistance, kCancel };

  // Discharges the first `count` nodes of s.active[0] and the nodes that they activate. Stops when
  // no active node can push, after `barriers` grid barriers, or after `cycles` of the clock of the
  // leader (the first thread). Returns the number of active nodes that are still listed.
  __device__ int32_t run(int32_t count, Mode mode, int32_t barriers, int64_t cycles) {
    mode_ = mode;
    const int64_t start = clock64();
    for (int turn = 0; count > 0 && barriers > 0; turn = 1 - turn, --barriers) {
      superstep(s_.active[turn], count, s_.active[1 - turn]);
      if (grid_.leader() && clock64() - start > cycles) grid_.tally()->found = 1;
      const Tally t = grid_.barrier_reduce();
      count = t.count;
      if (t.found != 0) break;
    }
    return count;
  }

 private:
  static constexpr int kBatch = 4;  // arcs that a thread loads together
  static constexpr int kStage = 2 * kFlowStaged;

  // Where newly active nodes go: to `stage`, a list in the block's shared memory, or to the global
  // `list` if `stage` is full.
  struct Out {
    int32_t* stage;
    int32_t* staged;
    int32_t* list;
    int32_t* listed;

    __device__ void put(int32_t v) const {
      const int32_t at = take_place(staged);
      if (at < kStage) {
        stage[at] = v;
      } else {
        list[take_place(listed)] = v;
      }
    }
  };

  // The work between two grid barriers. Each block discharges its part of `nodes`, then the nodes
  // that this has activated, and so on for a few rounds.
  __device__ void superstep(const int32_t* nodes, int32_t count, int32_t* next) {
    const int blocks = count <= tuning_.push_alone
                           ? 1
                           : min(grid_.blocks(), (count + tuning_.share - 1) / tuning_.share);
    if (grid_.block() < blocks) {
      const int32_t part = (count + blocks - 1) / blocks, begin = grid_.block() * part;
      const bool alone = blocks == 1 && grid_.blocks() > 1;
      rounds(nodes + begin, min(part, count - begin), next,
             blocks == 1 ? tuning_.rounds_alone : tuning_.rounds,
             alone ? min(kStage, 4 * tuning_.push_alone) : kStage);
    }
  }

  __device__ void rounds(const int32_t* nodes, int32_t count, int32_t* next, int most,
                         int32_t room) {
    FlowShared& b = flow_block();
    int32_t* const listed = &grid_.tally()->count;
    if (threadIdx.x == 0) b.listed[0] = 0;
    __syncthreads();
    const int32_t* stage = nullptr;
    for (int round = 0; round < most && count > 0 && (round == 0 || count <= room); ++round) {
      if (threadIdx.x == 0) b.listed[(round + 1) % 3] = 0;
      int32_t* const found = flow_stage<int32_t>(0) + round % 2 * kStage;
      int32_t* const staged = b.listed + round % 3;
      discharge_all(round == 0 ? nodes : stage, round > 0, count, {found, staged, next, listed});
      __syncthreads();
      count = *staged;
      stage = found;
    }
    if (stage == nullptr) return;  // the block had no nodes
    count = min(count, kStage);
    if (threadIdx.x == 0) b.base = count > 0 ? atomicAdd(listed, count) : 0;
    __syncthreads();
    for (int k = threadIdx.x; k < count; k += blockDim.x) next[b.base + k] = stage[k];
  }

  __device__ void discharge_all(const int32_t* nodes, bool staged, int32_t count, const Out& out) {
    const int warps = int(blockDim.x / 32), lane = grid_.lane();
    const int32_t each = min(32, (count + warps - 1) / warps);
    for (int32_t k = int32_t(threadIdx.x / 32) * each; k < count; k += warps * each) {
      int32_t u = -1, arcs = 0;
      if (lane < each && k + lane < count) {
        u = staged ? nodes[k + lane] : __ldcg(nodes + k + lane);
        arcs = g_.arc_ptr[u + 1] - g_.arc_ptr[u];
      }
      unsigned many = __ballot_sync(kAllLanes, arcs > tuning_.thread_arcs);
      for (unsigned left = many; left != 0; left &= left - 1) {
        discharge_by_warp(__shfl_sync(kAllLanes, u, __ffs(int(left)) - 1), out);
      }
      if (u >= 0 && arcs <= tuning_.thread_arcs) follow(u, out);
      __syncwarp();
    }
  }

  // Discharges the node, then one of the nodes it has activated, and so on.
  __device__ void follow(int32_t u, const Out& out) {
    for (int hop = 1;; ++hop) {
      int32_t next = -1;
      if (discharge(u, next, out)) out.put(u);
      if (next < 0) return;
      if (hop >= tuning_.hops || g_.arc_ptr[next + 1] - g_.arc_ptr[next] > tuning_.thread_arcs) {
        return out.put(next);
      }
      u = next;
    }
  }

  // The amount that may be pushed along the arc.
  __device__ Word available(int32_t arc) const {
    const Word out = load(ops_.residual + arc).out;
    return mode_ == kCancel ? out - initial_[arc] : out;
  }
  __device__ int32_t level_of(Word available, int32_t head) const {
    if (available <= 0) return s_.barred();
    return mode_ == kCancel ? -1 : __ldcg(s_.height + head);
  }

  // Discharges a node and returns true if it is still active. `next` must be -1. The first node
  // that the pushes activate is stored in `next`, and the others are added to `out`.
  __device__ bool discharge(int32_t u, int32_t& next, const Out& out) {
    const int32_t first = g_.arc_ptr[u], last = g_.arc_ptr[u + 1];
    Word left = __ldcg(ops_.excess + u);
    int32_t height = __ldcg(s_.height + u);
    const int32_t gap = ops_.gap();
    for (int scan = 0; scan < tuning_.scans; ++scan) {
      Word sent = 0;
      int32_t least = s_.unreached();
      for (int32_t k = first; k < last && left > 0; k += kBatch) {
        push_batch(k, last, height, left, sent, least, next, out);
      }
      const bool stuck = left > 0;
      left = ops_.lose(u, sent);
      if (left == 0) return false;
      if (!stuck) continue;  // more excess has arrived
      if (mode_ != kRelabel) return false;
      if (!ops_.relabel(u, height, height > gap ? s_.unreached() : least + 1)) {
        return false;
      }
      height = least + 1;
    }
    return true;
  }

  __device__ void push_batch(int32_t k, int32_t last, int32_t height, Word& left, Word& sent,
                             int32_t& least, int32_t& next, const Out& out) {
    int32_t head[kBatch], reverse[kBatch], level[kBatch];
    Word holds[kBatch], amount[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const bool exists = k + i < last;
      head[i] = exists ? g_.arc_head[k + i] : 0;
      reverse[i] = exists ? g_.reverse_arc[k + i] : 0;
      holds[i] = exists ? available(k + i) : 0;
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      level[i] = level_of(holds[i], head[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      amount[i] = 0;
      if (level[i] < height) {
        amount[i] = min(left, holds[i]);
        left -= amount[i];
        sent += amount[i];
      } else {
        least = min(least, level[i]);
      }
    }
    // The results of the atomic operations are used only after all of them have been issued.
    uint64_t held[kBatch];
    Word before[kBatch];
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      held[i] = ops_.leave(amount[i] > 0, k + i, amount[i]);
      before[i] = ops_.gain(amount[i] > 0 && head[i] != ops_.target, head[i], amount[i]);
    }
    bool overdrawn = false;
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (amount[i] > 0) ops_.arrive(reverse[i], amount[i]);
      overdrawn |= amount[i] > 0 && ops_.overdrawn(held[i], amount[i]);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (amount[i] == 0 || head[i] == ops_.target || before[i] != 0) continue;
      if (next < 0) {
        next = head[i];
      } else {
        out.put(head[i]);
      }
    }
    if (overdrawn) ops_.report_overdraft();
  }

  // Discharges a node with many arcs by a whole warp, like discharge().
  __device__ void discharge_by_warp(int32_t u, const Out& out) {
    const int32_t first = g_.arc_ptr[u], last = g_.arc_ptr[u + 1];
    Word left = __ldcg(ops_.excess + u);
    int32_t height = __ldcg(s_.height + u);
    left = __shfl_sync(kAllLanes, left, 0);  // excess that arrives later waits for the next scan
    const int32_t gap = ops_.gap();
    for (int scan = 0; scan < tuning_.scans; ++scan) {
      Word sent = 0;
      int32_t least = s_.unreached();
      for (int32_t k = first; k < last && left > 0; k += 32) {
        const Word before = left;
        push_row(k + grid_.lane(), last, height, left, least, out);
        sent += before - left;
      }
      const bool stuck = left > 0;
      if (grid_.lane() == 0) left = ops_.lose(u, sent);
      left = __shfl_sync(kAllLanes, left, 0);
      if (left == 0) return;
      if (!stuck) continue;
      if (mode_ != kRelabel) return;
      least = __reduce_min_sync(kAllLanes, least);
      int active = 0;
      if (grid_.lane() == 0) {
        active = ops_.relabel(u, height, height > gap ? s_.unreached() : least + 1);
      }
      if (__shfl_sync(kAllLanes, active, 0) == 0) return;
      height = least + 1;
    }
    if (grid_.lane() == 0) out.put(u);
  }

  // Pushes along one arc per lane, in the order of lanes, until `left` is used up.
  __device__ void push_row(int32_t arc, int32_t last, int32_t height, Word& left, int32_t& least,
                           const Out& out) {
    int32_t head = 0, reverse = 0;
    Word holds = 0;
    if (arc < last) {
      head = g_.arc_head[arc];
      reverse = g_.reverse_arc[arc];
      holds = available(arc);
    }
    const int32_t level = level_of(holds, head);
    Word upto = level < height ? min(holds, left) : 0;  // inclusive prefix sum, at most `left`
    if (level >= height) least = min(least, level);
    for (int step = 1; step < 32; step *= 2) {
      const Word other = __shfl_up_sync(kAllLanes, upto, step);
      if (grid_.lane() >= step) upto = min(left, upto + other);
    }
    Word amount = __shfl_up_sync(kAllLanes, upto, 1);
    amount = upto - (grid_.lane() > 0 ? amount : 0);
    left -= __shfl_sync(kAllLanes, upto, 31);
    if (amount > 0) {
      if (ops_.overdrawn(ops_.leave(true, arc, amount), amount)) ops_.report_overdraft();
      ops_.arrive(reverse, amount);
      if (head != ops_.target && ops_.gain(true, head, amount) == 0) out.put(head);
    }
    __syncwarp();
  }

  FlowGrid& grid_;
  const FlowState& s_;
  const FlowNetworkCsr& g_;
  const PushRelabelOps<Word> ops_;
  const Word* const initial_;
  const FlowTuning& tuning_;
  Mode mode_ = kRelabel;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CUDA_ASYNC_PUSH_CUH_
