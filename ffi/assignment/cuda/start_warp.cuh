// Initialisation of Jonker and Volgenant (1987), section 4, by a single warp: column reduction,
// reduction transfer and augmenting row reduction. Every lane keeps its columns in registers.
// Searches (augment.cuh) match the rows that are still free afterwards.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_START_WARP_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_START_WARP_CUH_

#include "assignment/cuda/columns.cuh"

namespace jaxmatch::assignment {

// Column reduction: column j has its minimum v_j in row pred_j. Each row is matched to the last
// column that has its minimum in this row. Lists the free rows in s.free_rows. For each row in
// which exactly one column has its minimum, `single` gets row << 16 | column. Returns the length of
// `single`.
template <class S>
__device__ int match_minima_warp(const S& s, Columns<S>& c, int* single, int& free_count) {
  constexpr int N = Columns<S>::N;
  const int lane = c.g.lane();
  int* chosen = reinterpret_cast<int*>(s.free_rows);  // has room for 32 bits a row
  int argmin[N];
  for (int i = lane; i < s.rows; i += kWarpSize) {
    chosen[i] = kNone;
    s.col4row[i] = kNone;
  }
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int j = c.at(n);
    c.v[n] = j < s.cols ? s.v[j] : S::Arithmetic::kFarDual;
    argmin[n] = j < s.cols ? s.pred[j] : kNone;
  }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    if (argmin[n] != kNone) atomicMax(&chosen[argmin[n]], c.at(n));
  }
  __syncwarp();
#pragma unroll
  for (int n = 0; n < N; ++n) {
    const int i = argmin[n], j = c.at(n);
    const bool has = i != kNone && chosen[i] == j;
    c.pair[n] = j < s.cols ? pair_up(has ? i : kNone, j) : kNoPair;
    if (i != kNone && !has) s.col4row[i] = kDropped;  // a mark: row i has several column minima
  }
  __syncwarp();
  int singles = 0;
  free_count = 0;
  for (int first = 0; first < s.rows; first += kWarpSize) {
    const int i = first + lane;
    const int j = i < s.rows ? chosen[i] : 0;
    const bool is_free = j == kNone;
    const bool is_single = i < s.rows && !is_free && s.col4row[i] == kNone;
    const unsigned all_free = __ballot_sync(kAllLanes, is_free);
    const unsigned all_single = __ballot_sync(kAllLanes, is_single);
    __syncwarp();  // free_rows overwrites the part of `chosen` that has been read
    if (is_free) s.free_rows[free_count + __popc(all_free & lanes_below(lane))] = Index(i);
    if (is_single) single[singles + __popc(all_single & lanes_below(lane))] = i << 16 | j;
    if (i < s.rows) s.col4row[i] = kNone;
    free_count += __popc(all_free);
    singles += __popc(all_single);
  }
  __syncwarp();
  return singles;
}

// Reduction transfer: if exactly one column has its minimum in a row, v of this column drops until
// the second best column of the row has the same reduced cost. The pair stays tight.
template <class S>
__device__ void transfer_reductions_warp(const S& s, Columns<S>& c, const int* single, int count) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  constexpr int N = Columns<S>::N, kRowsAtOnce = N <= 2 ? 4 : 2;
  for (int first = 0; first < count; first += kRowsAtOnce) {
    Key least[kRowsAtOnce];
    int own[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int pair = single[min(first + r, count - 1)];
      own[r] = pair & 0xffff;
      Key x[N];
      c.reduced(pair >> 16, x);
#pragma unroll
      for (int n = 0; n < N; ++n) x[n] = c.at(n) == own[r] ? A::kForbidden : x[n];
      least[r] = c.least_of(x);
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      Key x = A::warp_min(least[r]);
      if (!(x < A::kInfinity) || first + r >= count) x = 0;
      if (A::kWatched && !s.fits(x)) s.control[kTooWideFlag] = 1;
#pragma unroll
      for (int n = 0; n < N; ++n) c.v[n] = c.at(n) == own[r] ? c.v[n] - x : c.v[n];
    }
  }
}

// Minimum over the warp. Without `kSigned`, no number may be negative.
template <class A, bool kSigned>
__device__ typename A::Key least_bid(typename A::Key x) {
  if constexpr (kSigned) return A::warp_min(x);
  return A::warp_min_path(x);
}

// Handles the rarer bids: the row may stay unmatched, has no allowed column, or has several best
// columns, or a number is out of range. Returns true if the row takes the column of `pair`. Sets
// `drop` to the amount by which the dual of this column drops.
template <class S>
__device__ bool is_odd_bid_good(const S& s, int row, int pair, typename S::Key least,
                                typename S::Key next, typename S::Key& drop) {
  using A = typename S::Arithmetic;
  const auto leave = s.leave ? s.leave[row] : A::kForbidden;
  drop = 0;
  if (leave < A::kInfinity && leave < least) {
    if (s.group.lane() == 0) s.col4row[row] = kDropped;
    return false;
  }
  if (!(least < A::kInfinity)) {
    if (s.group.lane() == 0) s.control[kInfeasibleFlag] = 1;
    return false;
  }
  next = leave < next ? leave : next;
  const bool moves = least < next && next < A::kInfinity;
  if (A::kWatched && !(s.fits(least) && (!moves || s.fits(next)))) {
    if (s.group.lane() == 0) s.control[kTooWideFlag] = 1;
    return false;
  }
  if (moves) drop = next - least;
  return moves || row_of(pair) == kNone;  // without a drop, it takes only a free column
}

// Augmenting row reduction: each of the first `count` free rows bids. The row takes its best column
// and lowers the column's dual until the row's second best column is as good. If another row held
// the column, that row is displaced. A displaced row bids again at once, as long as there have been
// fewer than `budget` such rebids.
template <bool kSigned, class S>
__device__ void reduce_rows_warp(const S& s, Columns<S>& c, int count, int budget) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  constexpr int N = Columns<S>::N;
  int at = 0, left = budget, row = s.free_rows[0];
  while (at < count) {
    const int upcoming = s.free_rows[min(at + 1, count - 1)];
    Key x[N];
    c.reduced(row, x);
    Key first = x[0], second = A::kForbidden;
#pragma unroll
    for (int n = 1; n < N; ++n) {
      second = lesser(second, x[n] < first ? first : x[n]);
      first = lesser(first, x[n]);
    }
    const Key least = least_bid<A, kSigned>(first);
    const bool has_least = first == least;
    const int pair = c.pair_with(x, least);
    Key next = least_bid<A, kSigned>(has_least ? second : first);
    const unsigned tied = __ballot_sync(kAllLanes, has_least);
    Key drop = next - least;
    bool takes = true;
    if ((tied & (tied - 1)) != 0 || s.leave || !(least < next && next < A::kInfinity) ||
        !(s.fits(next) && s.fits(least))) {
      if (tied & (tied - 1)) next = least;
      takes = is_odd_bid_good(s, row, pair, least, next, drop);
    }
    // A rejected bid leaves the column as it is.
    const int taken = takes ? pair_up(row, col_of(pair)) : pair;
#pragma unroll
    for (int n = 0; n < N; ++n) {
      const bool is_best = c.pair[n] == pair;
      c.v[n] = is_best ? c.v[n] - drop : c.v[n];
      c.pair[n] = is_best ? taken : c.pair[n];
    }
    const bool again = takes && pair >= pair_up(0, 0) && left > 0;
    row = again ? row_of(pair) : upcoming;
    left -= again;
    at += !again;
  }
}

// Drops every row of a problem without columns. A row that cannot be dropped makes the problem
// infeasible.
template <class S>
__device__ void drop_rows(const S& s) {
  for (int i = s.group.lane(); i < s.rows; i += kWarpSize) {
    if (s.leave && s.leave[i] < S::Arithmetic::kInfinity) {
      s.col4row[i] = kDropped;
    } else {
      s.control[kInfeasibleFlag] = 1;
    }
  }
}

// Copies duals and pairs to shared memory, for searches and results. The initialisation checks the
// range of duals only here. That is enough: duals only drop, so a dual that has left the exact
// range is still outside it.
template <class S>
__device__ void publish(const S& s, const Columns<S>& c) {
#pragma unroll
  for (int n = 0; n < c.N; ++n) {
    const int j = c.at(n);
    if (j >= s.cols) continue;
    const int i = row_of(c.pair[n]);
    s.v[j] = c.v[n];
    if (S::Arithmetic::kWatched && !s.fits_dual(c.v[n])) s.control[kTooWideFlag] = 1;
    s.row4col[j] = Index(i);
    if (i == kNone) continue;
    s.col4row[i] = Index(j);
    s.u[i] = s.entry(i, j) - c.v[n];
  }
  __syncwarp();
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_START_WARP_CUH_
