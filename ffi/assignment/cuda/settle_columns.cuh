// Restores the dual 0 of unmatched columns. Unmatched columns must have the greatest dual, which is
// 0, but a warm start may have lowered their duals.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_SETTLE_COLUMNS_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_SETTLE_COLUMNS_CUH_

#include "assignment/cuda/augment.cuh"

namespace jaxmatch::assignment {

// Begins a search for the nearest free column whose dual is below `ceiling`. Returns false if there
// is no such column.
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
  search.leave = nullptr;  // no path drops a row: dummy rows, where paths begin, hold its column
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

// Called by one thread. Moves each row of the path that ends at column `j` to the next column of
// the path. If the path begins at a column, this column becomes free, with the dual `lower`. If the
// path begins at a dropped row, this row now has a column.
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

// Restores v_j = 0 for unmatched columns.
//
// Conceptually, each unmatched column is held by a dummy row, whose cost is 0 in every column.
// `ceiling` is the dual of the columns that dummy rows hold. Dummy rows are identical, so one
// search starts from all of them: column j begins at distance `ceiling - v_j`, its reduced cost for
// a dummy row. Each search finds the shortest path to a free column whose dual is below `ceiling`,
// moves each row of the path to the next column, and lowers `ceiling`. At the end, `ceiling` is
// subtracted from all duals.
//
// If rows may be dropped, each row also has a private column. Its cost is the unmatched cost of the
// row, and its dual is `ceiling`. A dropped row holds its private column, and dummy rows hold the
// other private columns. So dummy rows reach every private column at distance 0, and with it the
// dropped row that holds it.
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
    // Free columns whose dual is not below `ceiling` get their new dual here. They are no longer
    // marked as settled, because lower_duals() expects a row for every settled column.
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
    s.v[j] = x < 0 ? x : Key(0);  // rounding may leave x above 0
    if (s.row4col[j] != kNone) s.u[s.row4col[j]] += ceiling;
  }
  return Outcome::kSolved;
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_SETTLE_COLUMNS_CUH_
