// Shortest augmenting paths (Jonker and Volgenant 1987, section 5): Dijkstra on reduced costs from
// one free row, every thread with its own columns in registers.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_

#include "assignment_state.cuh"

namespace jaxmatch {

// The nearest of some columns: its distance, and column << 16 | row, the row kNone if it is free.
template <class Key>
struct Nearest {
  Key dist;
  int pair;
};

// Over all columns of the group; a free one if several are as near.
template <class S>
__device__ Nearest<typename S::Key> find_nearest(const S& s, const typename S::G& g,
                                                 Nearest<typename S::Key> own, int round) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const auto over_lanes = [](Nearest<Key> x) {
    const Key least = A::warp_min(x.dist);
    const unsigned tied = __ballot_sync(kAllLanes, x.dist == least);
    const unsigned ends = __ballot_sync(kAllLanes, x.dist == least && Index(x.pair) == kNone);
    return Nearest<Key>{least, __shfl_sync(kAllLanes, x.pair, __ffs(ends ? ends : tied) - 1)};
  };
  own = over_lanes(own);
  if (S::kAlone || g.size == kWarpSize) return own;
  // Two buffers in turn, so that one barrier a round is enough.
  struct alignas(sizeof(Key) == 4 ? 8 : 16) Slot {
    Key dist;
    int pair;
  };
  Slot* slots = s.f.template shared<Slot>(s.f.b.shared.slots) + (round & 1) * kWarpSize;
  if (g.lane() == 0) slots[g.warp()] = {own.dist, own.pair};
  g.sync();
  Slot slot{A::kForbidden, 0};
  if (g.lane() < g.warps()) slot = slots[g.lane()];
  return over_lanes({slot.dist, slot.pair});
}

// Matches row `root` along a shortest path to a free column, or to a row that is dropped at its
// unmatched cost. Settled columns and their rows stay tight.
template <class S>
__device__ Outcome augment(const S& s, const typename S::G& g, int root) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  constexpr int K = S::K;
  const int j0 = g.thread * K;
  const auto* start = s.start(j0);
  Key dist[K], settled_at[K];
  int pred[K], pair[K];
  auto v = s.duals(j0);
  {
    const auto raws = s.load(start, root, j0);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const bool exists = j0 + k < s.cols;
      pair[k] = (j0 + k) << 16 | (s.row4col[j0 + k] & 0xffff);
      dist[k] = exists ? s.less(raws.x[k], v.x[k]) : A::kForbidden;
      pred[k] = root;
    }
  }
  Key drop = s.leave ? s.leave[root] : A::kForbidden;
  int drop_row = root, end_col = kNone;
  Key bound;
  for (int round = 0;; ++round) {
    Nearest<Key> own{dist[0], pair[0]};
#pragma unroll
    for (int k = 1; k < K; ++k) {
      own.pair = dist[k] < own.dist ? pair[k] : own.pair;
      own.dist = dist[k] < own.dist ? dist[k] : own.dist;
    }
    const Nearest<Key> nearest = find_nearest(s, g, own, round);
    if (s.leave && drop < A::kInfinity && !(nearest.dist < drop)) {
      bound = drop;
      break;
    }
    if (!(nearest.dist < A::kInfinity)) return Outcome::kInfeasible;
    const int i = Index(nearest.pair);
    if (i == kNone) {
      bound = nearest.dist;
      end_col = nearest.pair >> 16;
      break;
    }
    const auto raws = s.load(start, i, j0);
    // C_ij - v_j - height is the length of the path through the row.
    const Key height = s.u[i] - nearest.dist;
    if (A::kWatched && !s.fits(height)) return Outcome::kTooWide;
    if (s.leave && s.leave[i] < A::kInfinity && s.leave[i] - height < drop) {
      drop = s.leave[i] - height;
      drop_row = i;
    }
#pragma unroll
    for (int k = 0; k < K; ++k) {
      if (pair[k] == nearest.pair) {  // settled: no path is shorter any more
        settled_at[k] = nearest.dist;
        v.x[k] = A::kNowhere;
        dist[k] = A::kForbidden;
      }
      const Key x = s.less(raws.x[k], v.x[k]) - height;
      pred[k] = x < dist[k] ? i : pred[k];
      dist[k] = x < dist[k] ? x : dist[k];
    }
  }
  bool fits = s.fits(bound);
#pragma unroll
  for (int k = 0; k < K; ++k) {
    const int j = j0 + k;
    if (j >= s.cols) continue;
    s.pred[j] = Index(pred[k]);
    if (v.x[k] != A::kNowhere) continue;
    const Key drops = bound - settled_at[k];
    const int i = Index(pair[k]);
    const Key lowered = s.v[j] - drops, raised = s.u[i] + drops;
    s.v[j] = lowered;
    s.u[i] = raised;
    fits = fits && s.fits_dual(lowered) && s.fits(raised);
  }
  if (g.thread == 0) s.u[root] = bound;
  if (A::kWatched && !fits) s.control[kTooWideFlag] = 1;
  g.sync();
  if (g.thread == 0) {  // flip the path
    int j = end_col;
    if (j == kNone) {  // drop a row, and give its column to the row before it
      j = s.col4row[drop_row];
      s.col4row[drop_row] = kDropped;
    }
    while (end_col != kNone || drop_row != root) {
      const int i = s.pred[j], before = s.col4row[i];
      s.row4col[j] = Index(i);
      s.col4row[i] = Index(j);
      if (i == root) break;
      j = before;
    }
  }
  g.sync();
  return A::kWatched && s.control[kTooWideFlag] ? Outcome::kTooWide : Outcome::kSolved;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_
