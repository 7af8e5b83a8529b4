// Finds augmenting paths of a large matching by asynchronous pushes. Paths lead from free vertices
// of one side of the graph (a: rows or columns) to free vertices of the other side (b).
#ifndef JAXMATCH_MATCHING_CUDA_PUSH_CUH_
#define JAXMATCH_MATCHING_CUDA_PUSH_CUH_

#include "matching/cuda/work_sharing_bfs.cuh"

namespace jaxmatch::matching {

// The search rule (see WorkSharingBfs) of a global relabelling. The height of a vertex of side b is
// the number of matched pairs on a shortest alternating path from it to a free vertex of side b.
// When the search reaches a free vertex of side a, this vertex becomes a token: it will push.
struct HeightRule {
  const MatchingState& s;

  __device__ bool grows(int32_t) const { return true; }
  __device__ void reach(int32_t v, int32_t) const { s.tokens[atomicAdd(&s.control->found, 1)] = v; }
  __device__ int32_t pass_on(int32_t height, const SearchTarget& target) const {
    __stcg(s.height + target.mate, height + 1);
    return height + 1;
  }
};

// Asynchronous push-relabel (Deveci, Kaya, Ucar and Catalyurek 2013). A token is a free vertex of
// side a. A thread matches it to its neighbour of smallest height, then continues with the vertex
// that was matched to this neighbour, until it takes a free neighbour. The height of a vertex
// estimates how many pushes lead from it to a free vertex. Races between threads may leave wrong
// heights, which only cost time.
//
// During pushes, only the mates of side b are stored, and they are exchanged atomically. So no
// vertex of side a is the mate of two vertices, and none is a mate while a thread holds it as a
// token.
class Pushing {
 public:
  static constexpr int kNeighbours = 16;  // most neighbours of a vertex that a push reads

  __device__ Pushing(MatchingGrid& grid, const MatchingState& s, MatchingSide a, MatchingSide b,
                     WorkSharingTuning tuning)
      : grid_(grid), s_(s), a_(a), b_(b), tuning_(tuning) {}

  // Finds short paths: all free vertices of side a push. Heights start at 0 for free vertices and
  // at 1 for matched ones. Pushes avoid neighbours of height `highest` or more.
  __device__ void short_paths(int32_t highest, int most_pushes) {
    grid_.each(b_.count, [&](int64_t u) { s_.height[u] = b_.mate[u] >= 0 ? 1 : 0; });
    grid_.each(a_.count, [&](int64_t v) {
      if (a_.mate[v] < 0 && a_.ptr[v + 1] > a_.ptr[v]) {
        append_now(s_.tokens, &grid_.tally()->count, int32_t(v));
      }
    });
    push(grid_.barrier_reduce().count, highest, most_pushes);
  }

  // Global relabelling: a search sets the heights, until it is complete or has reached `goal` free
  // vertices of side a. The free vertices that it has reached then push. Returns their number.
  __device__ int32_t relabel_and_push(int32_t goal, int most_pushes) {
    const int32_t tokens = relabel(goal);
    if (tokens > 0) push(tokens, kUnknown, most_pushes);
    return tokens;
  }

 private:
  static constexpr int32_t kUnknown = 1 << 30;

  __device__ int32_t relabel(int32_t goal) {
    grid_.each(a_.count, [&](int64_t v) { a_.mate[v] = kFreeVertex; });
    grid_.barrier_reduce();
    grid_.each(b_.count, [&](int64_t u) {
      const int32_t v = __ldcg(b_.mate + u);
      s_.height[u] = v >= 0 ? kUnknown : 0;
      if (v >= 0) a_.mate[v] = int32_t(u);
    });
    if (grid_.leader()) s_.control->turn = s_.control->found = 0;
    grid_.barrier_reduce();
    grid_.each(a_.count, [&](int64_t v) {
      const int32_t u = __ldcg(a_.mate + v);
      const int32_t first = u >= 0 ? b_.ptr[u] : 0;
      s_.target[v] = {u, first, u >= 0 ? b_.ptr[u + 1] - first : 0, kNoParent};
    });
    WorkSharingBfs<HeightRule> bfs(grid_, s_, HeightRule{s_}, b_.adj, tuning_);
    const FoundEntries out = bfs.staging(s_.list[0], &grid_.tally()->count);
    grid_.each_warp(b_.count, [&](int64_t u, bool exists) {
      SearchEntry root{root_as_parent(int32_t(u)), 0, 0, 0};
      if (exists && __ldcg(b_.mate + u) < 0) {
        root.first = b_.ptr[u];
        root.degree = b_.ptr[u + 1] - root.first;
      }
      append_entry(root.degree > 0, root, out);
    });
    bfs.flush(out);
    bfs.run(grid_.barrier_reduce().count, goal);
    return __ldcg(&s_.control->found);
  }

  static constexpr int kBatch = 8;

  __device__ void push(int32_t tokens, int32_t highest, int most_pushes) {
    grid_.each(tokens, [&](int64_t k) {
      int32_t v = __ldcg(s_.tokens + k);
      for (int pushes = 0; v >= 0 && pushes < most_pushes; ++pushes) {
        const int32_t first = a_.ptr[v], degree = a_.ptr[v + 1] - first;
        // Scans start at a pseudorandom neighbour, different for each token and push, to reduce
        // conflicts.
        const uint32_t dice = uint32_t(v) * 2654435761u + uint32_t(pushes) * 40503u;
        if (degree == 0) break;  // the two directions of the graph (by rows, by columns) differ
        const int32_t skip = int32_t((dice >> 8) % uint32_t(degree));
        int32_t second;
        const int32_t u = lowest_neighbour(first, degree, skip, highest, second);
        if (u < 0) break;
        const int32_t before = atomicExch(b_.mate + u, v);
        __stcg(s_.height + u, second + 1);
        v = before;
      }
    });
    grid_.barrier_reduce();
  }
  // Returns the neighbour of smallest height below `highest`, or -1. Looks at up to kNeighbours
  // neighbours, cyclically from number `skip` on. Sets `second` to the second smallest height.
  __device__ int32_t lowest_neighbour(int32_t first, int32_t degree, int32_t skip, int32_t highest,
                                      int32_t& second) const {
    const int32_t looks = min(degree, kNeighbours);
    int32_t lowest = highest, u = -1;
    second = highest;
    for (int32_t j = 0; j < looks; j += kBatch) {
      int32_t y[kBatch], height[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        const int32_t at = skip + j + i;
        y[i] = j + i < looks ? a_.adj[first + (at < degree ? at : at - degree)] : -1;
      }
#pragma unroll
      for (int i = 0; i < kBatch; ++i) height[i] = y[i] >= 0 ? __ldcg(s_.height + y[i]) : highest;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        if (height[i] < lowest) {
          second = lowest, lowest = height[i], u = y[i];
        } else if (height[i] < second) {
          second = height[i];
        }
      }
    }
    return u;
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  MatchingSide a_, b_;
  WorkSharingTuning tuning_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_PUSH_CUH_
