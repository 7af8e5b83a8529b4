// Short augmenting paths of a large matching, found by pushing: no thread waits for another.
#ifndef JAXMATCH_CUDA_MATCHING_PUSH_CUH_
#define JAXMATCH_CUDA_MATCHING_PUSH_CUH_

#include "matching_state.cuh"

namespace jaxmatch {

// Push-relabel without global relabelling, as a start for a search. A thread has a free vertex of
// side a, gives it the lowest neighbour, and goes on with whom that neighbour had before, until it
// comes to a free one. A height is a guess at the number of pushes from there to a free vertex;
// wrong guesses, which races leave, cost time and nothing else. Vertices whose neighbours are all
// at `highest` are left to the search.
//
// Only b's partners are kept meanwhile, each exchanged atomically: a vertex of side a has one
// neighbour, or one thread, or neither.
__device__ inline void push_short_paths(MatchingGrid& grid, const MatchingState& s, MatchingSide a,
                                        MatchingSide b, int32_t highest, int most_pushes) {
  constexpr int kBatch = 8, kLooks = 16;
  grid.each(b.count, [&](int64_t u) { s.height[u] = b.mate[u] >= 0 ? 1 : 0; });
  grid.each(a.count, [&](int64_t v) {
    if (a.mate[v] < 0 && a.ptr[v + 1] > a.ptr[v]) {
      append_now(s.tokens, &grid.tally()->count, int32_t(v));
    }
  });
  const int32_t tokens = grid.meet().count;
  grid.each(tokens, [&](int64_t k) {
    int32_t v = __ldcg(s.tokens + k);
    for (int pushes = 0; v >= 0 && pushes < most_pushes; ++pushes) {
      const int32_t all = a.ptr[v + 1] - a.ptr[v], degree = min(all, kLooks);
      // Of many neighbours some others each time.
      const int32_t skip =
          all > kLooks ? (uint32_t(v) * 7919u + pushes * 104729u) % (all - kLooks) : 0;
      const int32_t first = a.ptr[v] + skip;
      int32_t lowest = highest, second = highest, u = -1;
      for (int32_t j = 0; j < degree; j += kBatch) {
        int32_t y[kBatch], height[kBatch];
#pragma unroll
        for (int i = 0; i < kBatch; ++i) y[i] = j + i < degree ? a.adj[first + j + i] : -1;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) height[i] = y[i] >= 0 ? __ldcg(s.height + y[i]) : highest;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          if (height[i] < lowest) {
            second = lowest, lowest = height[i], u = y[i];
          } else if (height[i] < second) {
            second = height[i];
          }
        }
      }
      if (u < 0) break;
      const int32_t before = atomicExch(b.mate + u, v);
      __stcg(s.height + u, second + 1);
      v = before;
    }
  });
  grid.meet();
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_MATCHING_PUSH_CUH_
