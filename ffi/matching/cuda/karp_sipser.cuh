// The matching of Karp and Sipser (1981) on a GPU. A free vertex with exactly one free neighbour is
// matched to it, because some maximum matching of the free vertices contains this pair. If there is
// no such vertex, a row takes the free neighbour that has the fewest free neighbours.
#ifndef JAXMATCH_MATCHING_CUDA_KARP_SIPSER_CUH_
#define JAXMATCH_MATCHING_CUDA_KARP_SIPSER_CUH_

#include "common/status.h"
#include "matching/cuda/grid.cuh"
#include "matching/cuda/layout.h"

namespace jaxmatch::matching {

// Vertices are numbered rows first: column j has number n + j. The degree of a free vertex is at
// least the number of its free neighbours, and equal to it when no update is pending. So a vertex
// of degree one has at most one free neighbour. If several such vertices share this neighbour, one
// of them gets it, and the others have no free neighbour any more.
class KarpSipser {
 public:
  __device__ KarpSipser(MatchingGrid& grid, const MatchingState& s)
      : grid_(grid), s_(s), n_(s.graph.n), vertices_(s.graph.n + s.graph.m) {}

  // `given`: some vertices are matched already.
  __device__ void run(bool given) {
    grid_.each(vertices_,
               [&](int64_t x) { s_.degree[x] = edges(x).count + (free(int32_t(x)) ? 0 : kGone); });
    grid_.barrier_reduce();
    if (given) {
      grid_.each(vertices_, [&](int64_t x) {
        if (!free(int32_t(x))) leave(int32_t(x), nullptr);
      });
      finish_leaving(grid_.barrier_reduce().more);
    }
    int32_t first = 0;
    grid_.each(vertices_, [&](int64_t x) {
      if (__ldcg(s_.degree + x) == 1) enqueue(int32_t(x));
    });
    int32_t count = grid_.barrier_reduce().count;
    follow_rule(first, count);
    grid_.each(n_, [&](int64_t i) { match_least(int32_t(i)); });
    count = finish_round();
    follow_rule(first, count);
  }

 private:
  static constexpr int kBatch = 8;              // number of loads that a thread issues together
  static constexpr int kThreadNeighbours = 64;  // most neighbours that one thread updates
  static constexpr int kTries = 64;             // most attempts of a thread to match a vertex
  static constexpr int32_t kGone = 1 << 29;     // added to the degree of a matched vertex

  struct Edges {
    const int32_t* adj;
    int32_t count, base;  // neighbour k has number base + adj[k]
  };
  __device__ Edges edges(int64_t x) const {
    const BipartiteCsr& g = s_.graph;
    if (x < n_) return {g.col_ind + g.row_ptr[x], g.row_ptr[x + 1] - g.row_ptr[x], n_};
    const int64_t j = x - n_;
    return {g.row_ind + g.col_ptr[j], g.col_ptr[j + 1] - g.col_ptr[j], 0};
  }
  __device__ int32_t* mate(int32_t x) const {
    return x < n_ ? s_.col4row + x : s_.row4col + (x - n_);
  }
  __device__ int32_t own_number(int32_t x) const { return x < n_ ? x : x - n_; }
  __device__ bool free(int32_t x) const { return __ldcg(mate(x)) == kFreeVertex; }
  __device__ void enqueue(int32_t x) const {
    append_now(s_.queue + queued_, &grid_.tally()->count, x);
  }

  // Decrements the degrees of the neighbours of vertex x, which is no longer free. Neighbours whose
  // degree becomes one go into the queue, except the last of them, which is returned in `next`.
  // (With a null `next`, no neighbour goes into the queue.) If x has many neighbours, they are only
  // listed, and finish_leaving() updates them after the next barrier.
  __device__ void leave(int32_t x, int32_t* next) const {
    const Edges e = edges(x);
    if (e.count > kThreadNeighbours) {
      for (int32_t k = 0; k < e.count; k += kEntryEdges) {
        append_now(s_.list[0], &grid_.tally()->more, SearchEntry{x, 0, k, e.count});
      }
      return;
    }
    for (int32_t k = 0; k < e.count; k += kBatch) {
      int32_t y[kBatch], before[kBatch];
#pragma unroll
      for (int u = 0; u < kBatch; ++u) y[u] = k + u < e.count ? e.base + e.adj[k + u] : -1;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) before[u] = y[u] >= 0 ? atomicSub(s_.degree + y[u], 1) : 0;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        if (before[u] != 2 || next == nullptr) continue;
        if (*next >= 0) enqueue(*next);
        *next = y[u];
      }
    }
  }
  // Decrements the degrees of the neighbours that leave() has listed, with one warp for each of the
  // `parts` entries of the list. Returns the number of vertices that it put into the queue.
  __device__ int32_t finish_leaving(int32_t parts) const {
    if (parts == 0) return 0;
    for (int32_t p = grid_.warp(); p < parts; p += grid_.warps()) {
      const int4 part = __ldcg(reinterpret_cast<const int4*>(s_.list[0] + p));
      const Edges e = edges(part.x);
      const int32_t last = min(part.w, part.z + kEntryEdges);
      for (int32_t k = part.z + grid_.lane(); k < last; k += 32) {
        const int32_t y = e.base + e.adj[k];
        if (atomicSub(s_.degree + y, 1) == 2) enqueue(y);
      }
    }
    return grid_.barrier_reduce().count;
  }

  // Matches x and y if both are still free. Returns whether it did.
  __device__ bool match(int32_t x, int32_t y) const {
    if (atomicCAS(mate(x), kFreeVertex, kBusyVertex) != kFreeVertex) return false;
    if (atomicCAS(mate(y), kFreeVertex, own_number(x)) != kFreeVertex) {
      atomicExch(mate(x), kFreeVertex);
      return false;
    }
    atomicExch(mate(x), own_number(y));
    atomicAdd(s_.degree + x, kGone);
    atomicAdd(s_.degree + y, kGone);
    return true;
  }

  // The free neighbour of smallest degree, or -1 if there is none. Sets `least` to this degree.
  __device__ int32_t least_neighbour(const Edges& e, int32_t& least) const {
    int32_t best = -1;
    least = kGone / 2;
    for (int32_t k = 0; k < e.count; k += kBatch) {
      int32_t y[kBatch], degree[kBatch];
#pragma unroll
      for (int u = 0; u < kBatch; ++u) y[u] = k + u < e.count ? e.base + e.adj[k + u] : -1;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) degree[u] = y[u] >= 0 ? __ldcg(s_.degree + y[u]) : kGone;
#pragma unroll
      for (int u = 0; u < kBatch; ++u) {
        if (degree[u] < least) least = degree[u], best = y[u];
      }
    }
    return best;
  }

  // Matches vertex x, of degree one, to its free neighbour. Continues with a vertex whose degree
  // has fallen to one as a result, and so on.
  __device__ void follow(int32_t x) const {
    while (x >= 0) {
      int32_t next = -1;
      for (int tries = 0; tries < kTries; ++tries) {
        int32_t least;
        const int32_t y = least_neighbour(edges(x), least);
        // If a row and a column are each other's only free neighbour, the thread of the row matches
        // them.
        if (y < 0 || (x >= n_ && least == 1)) return;
        if (!free(x)) return;
        if (!match(x, y)) continue;
        leave(y, &next);
        break;
      }
      x = next;
    }
  }
  __device__ void follow_rule(int32_t& first, int32_t& count) {
    while (count > 0) {
      queued_ = first + count;
      grid_.each(count, [&](int64_t k) { follow(__ldcg(s_.queue + first + k)); });
      first += count;
      count = finish_round();
    }
    queued_ = first;
  }
  // Ends a round at a barrier. Returns the number of vertices that the round has put into the
  // queue.
  __device__ int32_t finish_round() {
    const Tally left = grid_.barrier_reduce();
    queued_ += left.count;
    return left.count + finish_leaving(left.more);
  }

  __device__ void match_least(int32_t i) const {
    const int32_t degree = __ldcg(s_.degree + i);
    if (degree <= 0 || degree >= kGone / 2) return;
    const Edges e = edges(i);
    for (int tries = 0; tries < kTries; ++tries) {
      int32_t least;
      const int32_t best = least_neighbour(e, least);
      if (best < 0 || !free(i)) return;
      if (!match(i, best)) continue;
      int32_t next = -1;
      leave(best, &next);
      leave(i, &next);
      follow(next);
      return;
    }
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  int32_t n_, vertices_;
  int32_t queued_ = 0;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_KARP_SIPSER_CUH_
