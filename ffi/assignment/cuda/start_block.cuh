// Initialisation of Jonker and Volgenant (1987), section 4, by all warps of a block: column
// reduction, reduction transfer and augmenting row reduction. Searches (augment.cuh) match the rows
// that are still free afterwards.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_START_BLOCK_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_START_BLOCK_CUH_

#include "assignment/cuda/scan_costs.cuh"

namespace jaxmatch::assignment {

// Column reduction: column j has its minimum v_j in row pred_j. Each row is matched to the last
// column that has its minimum in this row. Afterwards, pred_i is 1 if several columns have their
// minimum in row i, else 0.
template <class S>
__device__ void match_minima(const S& s) {
  const auto& g = s.group;
  int* chosen = reinterpret_cast<int*>(s.free_rows);  // has room for 32 bits a row
  for (int i = g.thread; i < s.rows; i += g.size) chosen[i] = kNone;
  g.sync();
  for (int j = g.thread; j < s.cols; j += g.size) {
    const int i = s.pred[j];
    if (i != kNone) atomicMax(&chosen[i], j);
  }
  g.sync();
  for (int j = g.thread; j < s.cols; j += g.size) {
    const int i = s.pred[j];
    if (i == kNone) continue;
    if (chosen[i] == j) {
      s.row4col[j] = Index(i);
    } else {
      s.col4row[i] = kDropped;  // a temporary mark: row i has several column minima
    }
  }
  g.sync();
  for (int i = g.thread; i < s.rows; i += g.size) {
    s.pred[i] = s.col4row[i] == kDropped;
    s.col4row[i] = Index(chosen[i]);
  }
  g.sync();
}

// Reduction transfer: if exactly one column has its minimum in a row, v of this column drops until
// the second best column of the row has the same reduced cost. The pair stays tight. All rows may
// do this at once: the duals of other columns only drop meanwhile, so their reduced costs only
// rise.
template <class S>
__device__ void transfer_reductions(const S& s) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const auto& g = s.group;
  constexpr int kRowsAtOnce = 2;
  for (int first = g.warp() * kRowsAtOnce; first < s.rows; first += g.warps() * kRowsAtOnce) {
    Key least[kRowsAtOnce];
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const int i = min(first + r, s.rows - 1);
      const int own = s.col4row[i];
      least[r] = A::kForbidden;
      if (own == kNone || s.pred[i]) continue;
      for_each_column(s, i,
                      [&](int j, Key x) { least[r] = x < least[r] && j != own ? x : least[r]; });
    }
#pragma unroll
    for (int r = 0; r < kRowsAtOnce; ++r) {
      const Key x = A::warp_min(least[r]);
      if (g.lane() == 0 && first + r < s.rows) s.u[first + r] = x < A::kInfinity ? x : Key(0);
    }
  }
  g.sync();
  for (int i = g.thread; i < s.rows; i += g.size) {
    const int j = s.col4row[i];
    if (j == kNone) continue;
    s.v[j] -= s.u[i];
    if (A::kWatched && !(s.fits_dual(s.v[j]) && s.fits(s.u[i]))) s.control[kTooWideFlag] = 1;
  }
  g.sync();
}

// The two least reduced costs of row i. Called by one warp; all lanes return the same.
template <class S>
__device__ TwoLeast<typename S::Key> two_least(const S& s, int i) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  Key first = A::kForbidden, second = A::kForbidden;
  int col = s.group.lane() * S::K;
  for_each_column(s, i, [&](int j, Key x) {
    const Key higher = x < first ? first : x;
    second = higher < second ? higher : second;
    col = x < first ? j : col;
    first = x < first ? x : first;
  });
  const Key least = A::warp_min(first);
  const int owner = __ffs(__ballot_sync(kAllLanes, first == least)) - 1;
  const Key next = A::warp_min(s.group.lane() == owner ? second : first);
  return {least, next, __shfl_sync(kAllLanes, col, owner)};
}

// Sets col4row from row4col. Dropped rows stay dropped.
template <class S>
__device__ void match_rows(const S& s) {
  const auto& g = s.group;
  for (int i = g.thread; i < s.rows; i += g.size) {
    if (s.col4row[i] != kDropped) s.col4row[i] = kNone;
  }
  g.sync();
  for (int j = g.thread; j < s.cols; j += g.size) {
    const int i = s.row4col[j];
    if (i != kNone) s.col4row[i] = Index(j);
  }
  g.sync();
}

// Finds a matching from good duals: every row takes its best column, unless staying unmatched is
// cheaper. If several rows want a column, the row with the lowest index takes it, and the others
// stay free. Column duals do not change.
template <class S>
__device__ void match_best(const S& s) {
  const auto& g = s.group;
  int* claim = s.f.template shared<int>(s.f.b.shared.claim);
  for (int j = g.thread; j < s.cols; j += g.size) claim[j] = INT32_MAX;
  g.sync();
  for (int i = g.warp(); i < s.rows; i += g.warps()) {
    const auto two = two_least(s, i);
    const bool stays = s.leave && s.leave[i] < two.least;
    if (g.lane() == 0 && two.least < S::Arithmetic::kInfinity && s.fits(two.least) && !stays) {
      atomicMin(&claim[two.col], i);
      s.u[i] = two.least;
    }
  }
  g.sync();
  for (int j = g.thread; j < s.cols; j += g.size) {
    if (claim[j] != INT32_MAX) s.row4col[j] = Index(claim[j]);
  }
  g.sync();
  match_rows(s);
}

// Values of Bid::col other than a column: the warp has no row (kIdle), the row stays free (kKeep),
// or the row is dropped (kDrop).
enum Offer { kIdle = -1, kKeep = -2, kDrop = -3 };

template <class Key>
struct Bid {
  int col;          // the column that the row takes, or an Offer
  int displaced;    // the row that had the column, or kNone
  Key price, dual;  // the new v of the column and u of the row
};

// Handles the rarer cases of make_bid(): the row may stay unmatched, has no allowed column, or has
// several best columns, or a number is out of range.
template <class S>
__device__ Bid<typename S::Key> make_odd_bid(const S& s, int i, TwoLeast<typename S::Key> two) {
  using A = typename S::Arithmetic;
  using Key = typename S::Key;
  const int lane = s.group.lane();
  const Key leave = s.leave ? s.leave[i] : A::kForbidden;
  Bid<Key> bid{kKeep, kNone, 0, two.least};
  if (leave < two.least || !(two.least < A::kInfinity)) {
    if (leave < A::kInfinity) {
      bid.col = kDrop;
    } else if (lane == 0) {
      s.control[kInfeasibleFlag] = 1;
    }
    return bid;
  }
  if (A::kWatched && !s.fits(two.least)) {
    if (lane == 0) s.control[kTooWideFlag] = 1;
    return bid;
  }
  const Key next = leave < two.next ? leave : two.next;
  const int owner = s.row4col[two.col];
  if (two.least < next && next < A::kInfinity) {
    bid.price = s.v[two.col] - (next - two.least);
    bid.dual = next;
    if (A::kWatched && !(s.fits_dual(bid.price) && s.fits(next))) {
      if (lane == 0) s.control[kTooWideFlag] = 1;
      return bid;
    }
    bid.col = two.col;
    bid.displaced = owner;
    return bid;
  }
  // The dual of the column cannot change, so the row can only take a free column.
  if (owner == kNone) {
    bid.col = two.col;
  } else if (two.next == two.least) {
    int spare = INT16_MAX;
    for_each_column(s, i, [&](int j, Key x) {
      if (x == two.least && s.row4col[j] == kNone) spare = min(spare, j);
    });
    spare = __reduce_min_sync(kAllLanes, spare);
    if (spare != INT16_MAX) bid.col = spare;
  }
  if (bid.col >= 0) bid.price = s.v[bid.col];
  return bid;
}

// Called by one warp. Computes the bid of free row i for its best column: the dual of this column
// drops until the row's second best column is as good.
template <class S>
__device__ Bid<typename S::Key> make_bid(const S& s, int i) {
  const auto two = two_least(s, i);
  if (!s.leave && two.least < two.next && two.next < S::Arithmetic::kInfinity) {
    const auto price = s.v[two.col] - (two.next - two.least);
    if (!S::Arithmetic::kWatched || (s.fits_dual(price) && s.fits(two.next) && s.fits(two.least))) {
      return {two.col, s.row4col[two.col], price, two.next};
    }
  }
  return make_odd_bid(s, i, two);
}

// Called by one lane. Carries out a bid that has won its column, or drops the row.
template <class S>
__device__ void apply_bid(const S& s, int i, const Bid<typename S::Key>& bid) {
  if (bid.col >= 0) {
    s.v[bid.col] = bid.price;
    s.row4col[bid.col] = Index(i);
    s.u[i] = bid.dual;
  } else if (bid.col == kDrop) {
    s.col4row[i] = kDropped;
  }
}

// Augmenting row reduction. The `count` free rows are dealt out to the warps, and each warp makes
// the bids of one row at a time. A warp whose row displaces another row bids for the displaced row
// next, as long as the warp's share of `budget` lasts.
//
// All warps of the block bid in rounds, at the same duals. Bids on different columns do not
// interfere, since duals only drop. If several warps bid on one column, the warp with the lowest
// index wins, and the rows of the other warps bid again. So the result does not depend on the speed
// of the warps.
//
// Reduction stops once fewer than `crowd` warps bid and no rows wait: a few rows that would outbid
// each other many times are matched sooner by searches.
template <class S>
__device__ void reduce_rows(const S& s, int count, int budget, int crowd) {
  const auto& g = s.group;
  const int lane = g.lane(), warps = g.warps();
  // For each column, the lowest index of a warp that bids on it, plus a tag in the higher bits. The
  // tag falls from round to round, so bids of later rounds replace older ones.
  int* claim = s.f.template shared<int>(s.f.b.shared.claim);
  for (int j = g.thread; j < s.cols; j += g.size) claim[j] = INT32_MAX;
  g.sync();
  int left = budget / warps, next = g.warp();
  int row = next < count ? s.free_rows[next] : kNone;
  for (int tag = INT32_MAX / kWarpSize - 1;; --tag) {
    Bid<typename S::Key> bid{kIdle, kNone, 0, 0};
    if (row != kNone) bid = make_bid(s, row);
    const bool bids = bid.col >= 0;
    if (lane == 0 && bids) atomicMin(&claim[bid.col], tag * kWarpSize + g.warp());
    const int bidders = g.sync_and_count(row != kNone);
    if (bidders == 0) break;
    const bool wins = bids && claim[bid.col] % kWarpSize == g.warp();
    if (lane == 0 && (wins || bid.col == kDrop)) apply_bid(s, row, bid);
    const bool again = wins && bid.displaced != kNone && left-- > 0;
    const bool lost = bids && !wins;
    if (again) {
      row = bid.displaced;
    } else if (!lost && row != kNone) {
      next += warps;
      row = next < count ? s.free_rows[next] : kNone;
    }
    const int waiting = g.sync_and_count(next + warps < count);
    if (waiting == 0 && bidders < crowd) break;
  }
  g.sync();
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_START_BLOCK_CUH_
