// Shortest augmenting paths (Jonker and Volgenant 1987, section 5): Dijkstra on reduced costs from
// one free row, or from all dummy rows in settle_columns.cuh. The threads that search form a team.
// Every thread keeps its columns in registers.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_

#include "assignment/cuda/columns.cuh"

namespace jaxmatch::assignment {

template <class Key>
struct Nearest {
  Key dist;
  int pair;  // the column and its row (pair_up)
};

// The nearest unsettled column of this warp. In case of ties, it is a free column if possible.
template <class S>
__device__ Nearest<typename S::Key> find_own_nearest(const Columns<S>& c,
                                                     const typename S::Key (&dist)[Columns<S>::N]) {
  typename S::Key least[Columns<S>::N];
#pragma unroll
  for (int n = 0; n < c.N; ++n) least[n] = dist[n];
  const typename S::Key nearest = S::Arithmetic::warp_min_path(c.least_of(least));
  return {nearest, c.pair_with(dist, nearest)};
}

// The nearest unsettled column of the team. In case of ties, it is a free column if possible.
template <class S>
__device__ Nearest<typename S::Key> find_nearest(const Columns<S>& c,
                                                 const typename S::Key (&dist)[Columns<S>::N],
                                                 int round) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const auto& g = c.g;
  const Nearest<Key> own = find_own_nearest(c, dist);
  if (S::kOneWarp || g.size == kWarpSize) return own;
  // Two alternating buffers, so that one barrier per round is enough.
  struct alignas(sizeof(Key) == 4 ? 8 : 16) Slot {
    Key dist;
    int pair;
  };
  Slot* slots = c.s.f.template shared<Slot>(c.s.f.b.shared.slots) + (round & 1) * kWarpSize;
  if (g.lane() == 0) slots[g.warp()] = {own.dist, own.pair};
  g.sync();
  Slot slot{A::kSettled, kNoPair};
  if (g.lane() < g.warps()) slot = slots[g.lane()];
  const Key nearest = A::warp_min_path(slot.dist);
  return {nearest, __reduce_min_sync(kAllLanes, slot.dist == nearest ? slot.pair : kNoPair)};
}

// Called while the costs of one row are being loaded. Each warp prefetches the costs of the row of
// its nearest unsettled column. The search will scan one of the prefetched rows next, unless the
// present row shortens a path.
template <class S>
__device__ void fetch_ahead(const Columns<S>& c, const typename S::Key (&dist)[Columns<S>::N]) {
  constexpr int kLine = 128 / sizeof(typename S::Raw);
  const int i = row_of(find_own_nearest(c, dist).pair);
  if (i < 0 || i >= c.s.rows) return;
  for (int j = c.g.lane() * kLine; j < c.s.cols; j += kWarpSize * kLine) {
    prefetch_to_l1(c.s.costs + int64_t(i) * c.s.f.stride + j);
  }
}

// Minimum of x over the team. x may have any sign.
template <class S>
__device__ typename S::Key team_min(const Columns<S>& c, typename S::Key x) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const auto& g = c.g;
  x = A::warp_min(x);
  if (S::kOneWarp || g.size == kWarpSize) return x;
  Key* slots = c.s.f.template shared<Key>(c.s.f.b.shared.slots);
  g.sync();
  if (g.lane() == 0) slots[g.warp()] = x;
  g.sync();
  x = A::warp_min(g.lane() < g.warps() ? slots[g.lane()] : A::kForbidden);
  g.sync();
  return x;
}

// The state of a search: the tree of shortest paths so far, and where the search ends.
template <class S>
struct Search {
  using Key = typename S::Key;
  static constexpr int N = Columns<S>::N;

  Key dist[N];       // path lengths of this thread's columns; A::kSettled if settled or padding
  int pred[N];       // the row before each of these columns on its path
  const Key* leave;  // unmatched costs; null if no row may be dropped
  Key drop;          // length of the shortest path that ends by dropping a row
  int drop_row;      // the row that this path drops
  bool fits;         // false once a number has left the exact range; then the result is not used
  Nearest<Key> nearest;  // the nearest unsettled column

  __device__ bool drops_out() const { return !(nearest.dist < drop); }
  __device__ int end() const { return drops_out() ? kNone : nearest.pair; }
  __device__ Key bound() const { return drops_out() ? drop : nearest.dist; }

  // Relaxes the edges of row i. `x` holds the reduced costs C_ij - v_j of this thread's columns.
  // The path to column j through row i has length C_ij - v_j - height.
  __device__ void relax(const Columns<S>& c, int i, const Key (&x)[N], Key height) {
    using A = typename S::Arithmetic;
    fits = fits && c.s.fits(height);
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const Key length = x[n] - height;
      const bool shorter =
          length < dist[n] && (A::kSettledIsFar || !A::is_settled(dist[n], c.v[n]));
      pred[n] = shorter ? i : pred[n];
      dist[n] = shorter ? length : dist[n];
    }
  }
};

// Settles columns until a shortest path is complete: it ends at a free column, or drops a row.
// Returns false after more rounds than there are columns, so that the loop ends even if numbers are
// out of range.
template <class S>
__device__ bool grow_tree(const S& s, Columns<S>& c, Search<S>& search) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const auto& g = c.g;
  search.nearest = find_nearest(c, search.dist, 0);
  for (int round = 1; !search.drops_out() && search.nearest.pair >= pair_up(0, 0); ++round) {
    if (round > s.cols) return false;
    const Nearest<Key> nearest = search.nearest;
    const int i = row_of(nearest.pair);
    typename S::Raws raws[Columns<S>::kPacks];
    c.load(i, raws);
#pragma unroll
    for (int n = 0; n < c.N; ++n) {  // the distance of the nearest column is final
      if (c.pair[n] == nearest.pair) A::settle(search.dist[n], c.v[n]);
    }
    if (!S::kOneWarp && g.size > kWarpSize) fetch_ahead(c, search.dist);
    Key x[Columns<S>::N];
    c.reduce(raws, x);
    const Key height = s.u[i] - nearest.dist;
    search.relax(c, i, x, height);
    if (g.thread == 0) s.reach[col_of(nearest.pair)] = nearest.dist;
    if (search.leave && search.leave[i] < A::kInfinity && search.leave[i] - height < search.drop) {
      search.drop = search.leave[i] - height;
      search.drop_row = i;
    }
    search.nearest = find_nearest(c, search.dist, round);
  }
  return true;
}

// Lowers the duals of settled columns and raises the duals of their rows, so that the tree stays
// tight. Returns a bit mask of this thread's columns that the augmenting path may contain.
template <class S>
__device__ unsigned lower_duals(const S& s, Columns<S>& c, Search<S>& search) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const Key bound = search.bound();
  unsigned in_tree = 0;
  search.fits = search.fits && s.fits(bound);
#pragma unroll
  for (int n = 0; n < c.N; ++n) {
    const int j = c.at(n);
    const bool settled = j < s.cols && A::is_settled(search.dist[n], c.v[n]);
    if (!settled && c.pair[n] != search.end()) continue;
    in_tree |= 1u << n;
    s.pred[j] = Index(search.pred[n]);
    if (!settled) continue;
    const Key drops = bound - s.reach[j];
    const int i = row_of(c.pair[n]);
    const Key lowered = s.v[j] - drops, raised = s.u[i] + drops;
    c.v[n] = s.v[j] = lowered;
    s.u[i] = raised;
    search.fits = search.fits && s.fits_dual(lowered) && s.fits(raised);
  }
  return in_tree;
}

// Matches row `root` along a shortest path to a free column, or to a row that is dropped at its
// unmatched cost. Settled columns and their rows stay tight. Distances are relative to the least
// reduced cost of the root, so that none is negative.
template <class S>
__device__ Outcome augment(const S& s, Columns<S>& c, int root) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  constexpr int N = Columns<S>::N;
  const auto& g = c.g;
  Search<S> search;
  c.reduced(root, search.dist);
  Key low[N];
#pragma unroll
  for (int n = 0; n < N; ++n) low[n] = search.dist[n];
  Key base = team_min(c, c.least_of(low));
  if (!(base < A::kInfinity)) base = 0;
  if (A::kWatched && !s.fits(base)) return Outcome::kTooWide;
#pragma unroll
  for (int n = 0; n < N; ++n) {
    search.dist[n] = c.pair[n] != kNoPair ? search.dist[n] - base : A::kSettled;
    search.pred[n] = root;
  }
  search.leave = s.leave;
  search.drop = s.leave && s.leave[root] < A::kInfinity ? s.leave[root] - base : A::kForbidden;
  search.drop_row = root;
  search.fits = true;
  if (!grow_tree(s, c, search)) return Outcome::kInfeasible;
  if (search.drops_out() && !(search.drop < A::kInfinity)) return Outcome::kInfeasible;
  g.sync();
  const unsigned in_tree = lower_duals(s, c, search);
  const Key dual = base + search.bound();
  search.fits = search.fits && s.fits(dual);
  if (g.thread == 0) s.u[root] = dual;
  if (A::kWatched && !search.fits) s.control[kTooWideFlag] = 1;
  g.sync();
  if (g.thread == 0) {
    if (search.end() != kNone) {
      flip_path(s, root, col_of(search.end()));
    } else {  // drop the last row of the path; the row before gets its column
      const int j = s.col4row[search.drop_row];
      s.col4row[search.drop_row] = kDropped;
      if (search.drop_row != root) flip_path(s, root, j);
    }
  }
  g.sync();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (in_tree >> n & 1) c.pair[n] = pair_up(s.row4col[c.at(n)], c.at(n));
  }
  return A::kWatched && s.control[kTooWideFlag] ? Outcome::kTooWide : Outcome::kSolved;
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUGMENT_CUH_
