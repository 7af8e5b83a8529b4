// Writes the results of a matching on a GPU.
#ifndef JAXMATCH_MATCHING_CUDA_FINISH_CUH_
#define JAXMATCH_MATCHING_CUDA_FINISH_CUH_

#include "common/status.h"
#include "matching/cuda/grid.cuh"
#include "matching/cuda/layout.h"

namespace jaxmatch::matching {

// The number of pairs on which both sides agree: rows i with a mate j whose mate is i. All threads
// get the result.
__device__ inline int32_t cardinality(MatchingGrid& grid, const MatchingState& s) {
  int32_t mine = 0;
  grid.each(s.graph.n, [&](int64_t i) {
    const int32_t j = __ldcg(s.col4row + i);
    mine += j >= 0 && __ldcg(s.row4col + j) == i;
  });
  mine = __reduce_add_sync(kAllLanes, mine);
  if (grid.lane() == 0 && mine > 0) atomicAdd(&grid.tally()->count, mine);
  return grid.barrier_reduce().count;
}

// Writes the pairs on which both sides agree, `status` and the cardinality.
__device__ inline void write_pairs(MatchingGrid& grid, const MatchingState& s, Status status) {
  const int32_t size = cardinality(grid, s);
  const auto write_side = [&](MatchingSide a, const MatchingSide& b, int32_t* result) {
    grid.each(a.count, [&](int64_t v) {
      const int32_t u = __ldcg(a.mate + v);
      const bool paired = u >= 0 && __ldcg(b.mate + u) == v;
      if (!paired || result != a.mate) result[v] = paired ? u : kFreeVertex;
    });
  };
  write_side(s.rows(), s.cols(), s.results.col4row);
  write_side(s.cols(), s.rows(), s.results.row4col);
  if (grid.leader()) {
    *s.results.cardinality = size;
    *s.results.status = status;
  }
}

__device__ inline void clear_covers(MatchingGrid& grid, const MatchingState& s) {
  grid.each(s.graph.n, [&](int64_t i) { s.results.row_cover[i] = false; });
  grid.each(s.graph.m, [&](int64_t j) { s.results.col_cover[j] = false; });
}

// Writes the current matching without a cover.
__device__ inline void write_unfinished(MatchingGrid& grid, const MatchingState& s) {
  clear_covers(grid, s);
  write_pairs(grid, s, kUnfinished);
}

__device__ inline void write_invalid(MatchingGrid& grid, const MatchingState& s) {
  clear_covers(grid, s);
  grid.each(s.graph.n, [&](int64_t i) { s.results.col4row[i] = kFreeVertex; });
  grid.each(s.graph.m, [&](int64_t j) { s.results.row4col[j] = kFreeVertex; });
  if (grid.leader()) {
    *s.results.cardinality = -1;
    *s.results.status = kInvalidGraph;
  }
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_FINISH_CUH_
