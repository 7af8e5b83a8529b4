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
  constexpr int K = S::K, C = S::kSearchPacks;
  const typename S::Raw* start[C];
  Key dist[C][K], v[C][K];
  int pred[C][K];
  const auto column = [&](int c) { return (c * g.size + g.thread) * K; };  // the first of a pack
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int j = column(c);
    start[c] = s.start(j);
    const auto raws = s.load(start[c], root, j);
    const auto duals = s.duals(j);
#pragma unroll
    for (int k = 0; k < K; ++k) {
      v[c][k] = duals.x[k];
      dist[c][k] = j + k < s.cols ? s.less(raws.x[k], v[c][k]) : A::kForbidden;
      pred[c][k] = root;
    }
  }
  Key drop = s.leave ? s.leave[root] : A::kForbidden;
  int drop_row = root, end_col = kNone;
  Key bound;
  for (int round = 0;; ++round) {
    Nearest<Key> own{dist[0][0], column(0)};
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        own.pair = dist[c][k] < own.dist ? column(c) + k : own.pair;
        own.dist = dist[c][k] < own.dist ? dist[c][k] : own.dist;
      }
    }
    own.pair = own.pair << 16 | (s.row4col[own.pair] & 0xffff);
    const Nearest<Key> nearest = find_nearest(s, g, own, round);
    if (s.leave && drop < A::kInfinity && !(nearest.dist < drop)) {
      bound = drop;
      break;
    }
    if (!(nearest.dist < A::kInfinity)) return Outcome::kInfeasible;
    const int i = Index(nearest.pair), col = nearest.pair >> 16;
    if (i == kNone) {
      bound = nearest.dist;
      end_col = col;
      break;
    }
    typename S::Raws raws[C];
#pragma unroll
    for (int c = 0; c < C; ++c) raws[c] = s.load(start[c], i, column(c));
    // C_ij - v_j - height is the length of the path through the row.
    const Key height = s.u[i] - nearest.dist;
    if (A::kWatched && !s.fits(height)) return Outcome::kTooWide;
    if (s.leave && s.leave[i] < A::kInfinity && s.leave[i] - height < drop) {
      drop = s.leave[i] - height;
      drop_row = i;
    }
    if (g.thread == 0) s.reach[col] = nearest.dist;
#pragma unroll
    for (int c = 0; c < C; ++c) {
#pragma unroll
      for (int k = 0; k < K; ++k) {
        if (column(c) + k == col) {  // settled: no path is shorter any more
          v[c][k] = A::kNowhere;
          dist[c][k] = A::kForbidden;
        }
        const Key x = s.less(raws[c].x[k], v[c][k]) - height;
        pred[c][k] = x < dist[c][k] ? i : pred[c][k];
        dist[c][k] = x < dist[c][k] ? x : dist[c][k];
      }
    }
  }
  g.sync();
  bool fits = s.fits(bound);
#pragma unroll
  for (int c = 0; c < C; ++c) {
#pragma unroll
    for (int k = 0; k < K; ++k) {
      const int j = column(c) + k;
      if (j >= s.cols) continue;
      s.pred[j] = Index(pred[c][k]);
      if (v[c][k] != A::kNowhere) continue;
      const Key drops = bound - s.reach[j];
      const int i = s.row4col[j];
      const Key lowered = s.v[j] - drops, raised = s.u[i] + drops;
      s.v[j] = lowered;
      s.u[i] = raised;
      fits = fits && s.fits_dual(lowered) && s.fits(raised);
    }
  }
  if (g.thread == 0) s.u[root] = bound;
  if (A::kWatched && !fits) s.control[kTooWideFlag] = 1;
  g.sync();
  if (g.thread == 0) {
    if (end_col != kNone) {
      flip_path(s, root, end_col);
    } else {  // drop a row, and give its column to the row before it
      const int j = s.col4row[drop_row];
      s.col4row[drop_row] = kDropped;
      if (drop_row != root) flip_path(s, root, j);
    }
  }
  g.sync();
  return A::kWatched && s.control[kTooWideFlag] ? Outcome::kTooWide : Outcome::kSolved;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_
