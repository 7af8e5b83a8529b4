// Columns that stay unmatched must have the greatest dual, 0, which a warm start may have put
// lower.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_SETTLE_COLUMNS_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_SETTLE_COLUMNS_CUH_

#include "assignment/cuda/augment.cuh"

namespace jaxmatch::assignment {

// Begins a search for the nearest free column whose dual is below `ceiling`. Returns false if there
// is none.
template <class S>
__device__ bool begin_settling(const S& s, Columns<S>& c, Search<S>& search,
                               typename S::Key ceiling) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  constexpr int N = Columns<S>::N;
  Key wanted[N];
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const bool is_free = row_of(c.pair[n]) < 0, low = c.v[n] < ceiling;
    wanted[n] = c.pair[n] != kNoPair && is_free && low ? ceiling - c.v[n] : A::kForbidden;
    search.pred[n] = kNone;
    search.dist[n] = ceiling - c.v[n];
    if (c.pair[n] == kNoPair || (is_free && !low)) A::settle(search.dist[n], c.v[n]);
  }
  if (!(team_min(c, c.least_of(wanted)) < A::kInfinity)) return false;
  search.leave = nullptr;  // dummy rows hold the columns of all rows that are not dropped
  search.drop = A::kForbidden;
  search.drop_row = kNone;
  search.fits = true;
  for (int i = 0; s.leave && i < s.rows; ++i) {
    if (s.col4row[i] != kDropped) continue;
    Key x[N];
    c.reduced(i, x);
    search.relax(c, i, x, s.leave[i] - ceiling);
  }
  return true;
}

// By one thread: moves the rows of the path to column `j` by one column. The column in which the
// path began is free with the dual `lower`, unless a dropped row began the path.
template <class S>
__device__ void shift_path(const S& s, int j, typename S::Key lower) {
  for (int left = s.rows; left >= 0; --left) {
    const int i = s.pred[j];
    if (i == kNone) break;
    const int before = s.col4row[i];
    s.row4col[j] = Index(i);
    s.col4row[i] = Index(j);
    if (before == kDropped) {
      s.u[i] = s.leave[i] - lower;
      return;
    }
    j = before;
  }
  s.row4col[j] = kNone;
  s.v[j] = lower;
}

// Restores v_j = 0 for unmatched columns. Conceptually, each unmatched column has a dummy row with
// cost 0 in every column. Dummy rows are identical, so one search, in which every column starts at
// distance `ceiling - v_j`, finds the shortest path from any of them to a free column whose dual is
// too low. Each search settles one such column and lowers `ceiling`, the dual of the columns that
// dummy rows hold. The constant is added back at the end. Where rows may be dropped, each has a
// column of its own, at its unmatched cost and with the dual `ceiling`: dummy rows reach dropped
// rows at distance 0.
template <class S>
__device__ Outcome settle_free_columns(const S& s, Columns<S>& c) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const auto& g = c.g;
  Key ceiling = 0;
  for (int left = s.cols; left >= 0; --left) {
    Search<S> search;
    if (!begin_settling(s, c, search, ceiling)) break;
    if (!grow_tree(s, c, search)) return Outcome::kInfeasible;
    g.sync();
    // Free columns that are not too low leave the tree, whose other columns have rows.
    const Key lower = ceiling - search.bound();
#pragma unroll
    for (int n = 0; n < c.N; ++n) {
      const int j = c.at(n);
      if (j < s.cols && row_of(c.pair[n]) < 0 && c.pair[n] != search.end() && !(s.v[j] < ceiling)) {
        s.v[j] = lower;
        search.dist[n] = 0;
        c.v[n] = lower;
      }
    }
    lower_duals(s, c, search);
    search.fits = search.fits && s.fits_dual(lower);
    if (A::kWatched && !search.fits) s.control[kTooWideFlag] = 1;
    g.sync();
    if (g.thread == 0) shift_path(s, col_of(search.end()), lower);
    g.sync();
    c.load_state();
    ceiling = lower;
    if (A::kWatched && s.control[kTooWideFlag]) return Outcome::kTooWide;
  }
  for (int j = g.thread; j < s.cols; j += g.size) {
    const Key x = s.v[j] - ceiling;
    s.v[j] = x < 0 ? x : Key(0);  // rounding may leave it above
    if (s.row4col[j] != kNone) s.u[s.row4col[j]] += ceiling;
  }
  return Outcome::kSolved;
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_SETTLE_COLUMNS_CUH_
