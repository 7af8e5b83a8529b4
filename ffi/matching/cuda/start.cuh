// Initialisation of a large matching on a GPU: checks the graph, keeps a given matching, and
// extends it greedily.
#ifndef JAXMATCH_MATCHING_CUDA_START_CUH_
#define JAXMATCH_MATCHING_CUDA_START_CUH_

#include "common/status.h"
#include "matching/cuda/grid.cuh"
#include "matching/cuda/layout.h"

namespace jaxmatch::matching {

// True if all pointers and indices are in bounds. All threads get the same result.
__device__ inline bool graph_is_valid(MatchingGrid& grid, const MatchingState& s) {
  const BipartiteCsr& g = s.graph;
  bool bad = false;
  const auto pointers = [&](const int32_t* ptr, int32_t count) {
    grid.each(count, [&](int64_t k) {
      const int32_t first = ptr[k], last = ptr[k + 1];
      bad |= first > last || first < 0 || last > g.capacity;
    });
    bad |= ptr[0] != 0;
  };
  pointers(g.row_ptr, g.n);
  pointers(g.col_ptr, g.m);
  const int32_t edges = g.row_ptr[g.n];
  bad |= edges != g.col_ptr[g.m];
  const auto indices = [&](const int32_t* ind, int32_t bound) {
    const int64_t count = edges < 0 ? 0 : edges < g.capacity ? edges : g.capacity;
    for (int64_t k = grid.thread(); k < count; k += 4 * int64_t(grid.threads())) {
#pragma unroll
      for (int u = 0; u < 4; ++u) {
        const int64_t at = k + u * int64_t(grid.threads());
        if (at < count) bad |= uint32_t(ind[at]) >= uint32_t(bound);
      }
    }
  };
  indices(g.col_ind, g.m);
  indices(g.row_ind, g.n);
  if (__any_sync(kAllLanes, bad) && grid.lane() == 0) atomicAdd(&grid.tally()->found, 1);
  return grid.barrier_reduce().found == 0;
}

__device__ inline void clear_mates(MatchingGrid& grid, const MatchingState& s) {
  grid.each(s.graph.n, [&](int64_t i) { s.col4row[i] = kFreeVertex; });
  grid.each(s.graph.m, [&](int64_t j) { s.row4col[j] = kFreeVertex; });
}

// Keeps those pairs of the caller's col4row, `start`, that are edges. If several rows have the same
// column, the lowest row keeps it.
__device__ inline void take_over(MatchingGrid& grid, const MatchingState& s, const int32_t* start) {
  const BipartiteCsr& g = s.graph;
  int32_t* const claim = s.height;  // the lowest row that claims each column
  grid.each(g.m, [&](int64_t j) { claim[j] = INT32_MAX; });
  grid.barrier_reduce();
  for (int64_t i = grid.warp(); i < g.n; i += grid.warps()) {
    const int32_t j = start[i];
    if (j < 0 || j >= g.m) continue;
    bool edge = false;
    for (int32_t k = g.row_ptr[i] + grid.lane(); k < g.row_ptr[i + 1]; k += 32) {
      edge |= g.col_ind[k] == j;
    }
    if (__any_sync(kAllLanes, edge) && grid.lane() == 0) atomicMin(claim + j, int32_t(i));
  }
  grid.barrier_reduce();
  grid.each(g.m, [&](int64_t j) {
    const int32_t i = __ldcg(claim + j);
    if (i == INT32_MAX) return;
    s.row4col[j] = i;
    s.col4row[i] = int32_t(j);
  });
  grid.barrier_reduce();
}

// Each free row takes its first column that is still free (the "cheap" matching of Duff, Kaya and
// Ucar 2011).
__device__ inline void match_cheaply(MatchingGrid& grid, const MatchingState& s) {
  const BipartiteCsr& g = s.graph;
  grid.each(g.n, [&](int64_t i) {
    if (s.col4row[i] >= 0) return;
    for (int32_t k = g.row_ptr[i], last = g.row_ptr[i + 1]; k < last; ++k) {
      const int32_t j = g.col_ind[k];
      if (__ldcg(s.row4col + j) != kFreeVertex) continue;
      if (atomicCAS(s.row4col + j, kFreeVertex, int32_t(i)) != kFreeVertex) continue;
      s.col4row[i] = j;
      break;
    }
  });
  grid.barrier_reduce();
}

// Each free vertex of side a that has `least` to `most` neighbours takes one of its first
// kNeighbours neighbours: a free one that has few neighbours itself.
template <int kNeighbours>
__device__ inline void match_by_degree(MatchingGrid& grid, MatchingSide a, MatchingSide b,
                                       int32_t least, int32_t most) {
  constexpr int kBatch = 8;
  grid.each(a.count, [&](int64_t v) {
    const int32_t first = a.ptr[v], degree = a.ptr[v + 1] - first;
    if (degree < least || degree > most || __ldcg(a.mate + v) != kFreeVertex) return;
    for (int32_t k = 0; k < degree && k < kNeighbours; k += kBatch) {
      int32_t u[kBatch];
      uint64_t key[kBatch];
#pragma unroll
      for (int i = 0; i < kBatch; ++i) u[i] = k + i < degree ? a.adj[first + k + i] : -1;
#pragma unroll
      for (int i = 0; i < kBatch; ++i) {
        key[i] = UINT64_MAX;
        if (u[i] < 0) continue;
        const int32_t mate = __ldcg(b.mate + u[i]);
        const uint32_t others = uint32_t(b.ptr[u[i] + 1] - b.ptr[u[i]]);
        if (mate == kFreeVertex) key[i] = uint64_t(others) << 32 | uint32_t(u[i]);
      }
      for (int tries = 0; tries < kBatch; ++tries) {
        uint64_t best = UINT64_MAX;
#pragma unroll
        for (int i = 0; i < kBatch; ++i) best = key[i] < best ? key[i] : best;
        if (best == UINT64_MAX) break;
        const int32_t chosen = int32_t(best);
        if (atomicCAS(b.mate + chosen, kFreeVertex, int32_t(v)) == kFreeVertex) {
          a.mate[v] = chosen;
          return;
        }
#pragma unroll
        for (int i = 0; i < kBatch; ++i) {
          if (key[i] == best) key[i] = UINT64_MAX;
        }
      }
    }
  });
  grid.barrier_reduce();
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_START_CUH_
