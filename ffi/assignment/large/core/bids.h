// Parallel initialisation on the core (the candidate sets of all rows): free rows bid for columns,
// as in augmenting row reduction (Jonker and Volgenant 1987) and in the auction algorithm with
// epsilon zero (Bertsekas 1988). All bids of a round use the same prices.
#ifndef JAXMATCH_LARGE_CORE_BIDS_H_
#define JAXMATCH_LARGE_CORE_BIDS_H_

#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

constexpr int64_t kMostRaise = (int64_t{1} << (63 - kRowBits)) - 1;
constexpr uint64_t kNoBid = ~uint64_t{0};

// Packs a bid, whose raise is the amount by which the column's dual falls. The minimum of several
// packed bids is the one with the greatest raise, and among equal raises the first row. A raise may
// be truncated, because any raise up to the true one is valid.
JAXMATCH_DEVICE inline uint64_t pack_bid(int64_t raise, int64_t row) {
  return uint64_t(kMostRaise - lesser(raise, kMostRaise)) << kRowBits | uint64_t(row);
}
JAXMATCH_DEVICE inline int64_t raise_of(uint64_t bid) {
  return kMostRaise - int64_t(bid >> kRowBits);
}
JAXMATCH_DEVICE inline int64_t row_of_bid(uint64_t bid) { return int64_t(bid & (kMostRows - 1)); }

// Every free row bids for its candidate with the least reduced cost. The raise is the difference to
// the second-least. A bid for a matched column needs a positive raise. A positive raise marks the
// duals as stale, i.e. changed since the last pricing. Returns the number of bids.
template <class Team, class T>
JAXMATCH_DEVICE int64_t make_bids(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const auto free_or_not = [&](int64_t i) { return load_relaxed(s.col4row + i) == kFree ? 0 : -1; };
  return team.sum_rows(s.n, free_or_not, [&](Lanes g, int64_t i, int64_t) {
    int64_t first = kFar, second = kFar;
    int32_t place = kCandidates << 1;  // place in the candidate set; free columns come first
    for (int c = g.lane; c < kColumnClasses; c += g.kCount) {
      const ClassCols col = s.core_col[i * kColumnClasses + c];
      const ClassKeys key = s.core_key[i * kColumnClasses + c];
      int64_t x[kCandidatesPerClass];
      int32_t at[kCandidatesPerClass];
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        const int32_t j = greater(col.x[b], 0);
        const bool taken = load_relaxed(s.row4col + j) >= 0;
        x[b] = col.x[b] < 0 ? kFar : key.x[b] - load_relaxed(s.v + j);
        // Rows start at different offsets, so that ties spread over columns.
        at[b] = (taken ? kCandidates : 0) +
                ((c * kCandidatesPerClass + b + int(i)) & (kCandidates - 1));
      }
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        if (x[b] < first || (x[b] == first && at[b] < place)) {
          second = first;
          first = x[b];
          place = at[b];
        } else {
          second = lesser(second, x[b]);
        }
      }
    }
    const int64_t least = g.min(first);
    const int32_t chosen = g.min(first == least ? place : kCandidates << 1);
    const bool mine = first == least && place == chosen;
    const int64_t next = g.min(mine ? second : first);
    const int e = ((chosen & (kCandidates - 1)) - int(i)) & (kCandidates - 1);
    const int32_t j =
        s.core_col[i * kColumnClasses + e / kCandidatesPerClass].x[e % kCandidatesPerClass];
    // A row with only one candidate could lower that column's dual without bound. Its raise is
    // therefore zero: it may bid for a free column, otherwise a search matches it.
    const int64_t raise = next < kFar ? next - least : 0;
    const bool bids = raise > 0 || chosen < kCandidates;
    if (g.lane == 0 && bids) atomic_min(s.bid + j, pack_bid(raise, i));
    if (g.lane == 0 && raise > 0) store_relaxed(&s.control->stale, 1);
    return int(bids);
  });
}

// Assigns each column to its best bid and lowers its price by the raise.
template <class Team, class T>
JAXMATCH_DEVICE void take_bids(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.each(s.m, [&](int64_t j) {
    const uint64_t bid = load_relaxed(s.bid + j);
    if (bid == kNoBid) return;
    store_relaxed(s.bid + j, kNoBid);
    const int64_t i = row_of_bid(bid);
    const int32_t loser = load_relaxed(s.row4col + j);
    if (loser >= 0) store_relaxed(s.col4row + loser, int32_t(kFree));
    store_relaxed(s.row4col + j, int32_t(i));
    store_relaxed(s.col4row + i, int32_t(j));
    store_relaxed(s.v + j, load_relaxed(s.v + j) - raise_of(bid));
  });
  team.sync();
}

// Sets each row price to the least reduced cost of the row's candidates. Matched pairs are then
// tight. Returns the number of free rows.
template <class Team, class T>
JAXMATCH_DEVICE int64_t update_row_prices(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  return team.sum_rows(s.n, [&](Lanes g, int64_t i) {
    if (!p.has_row(i)) return 0;
    int64_t least = kFar;
    for (int c = g.lane; c < kColumnClasses; c += g.kCount) {
      const ClassCols col = s.core_col[i * kColumnClasses + c];
      const ClassKeys key = s.core_key[i * kColumnClasses + c];
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        const int64_t x = key.x[b] - load_relaxed(s.v + greater(col.x[b], 0));
        if (col.x[b] >= 0) least = lesser(least, x);
      }
    }
    least = g.min(least);
    if (g.lane == 0) store_relaxed(s.u + i, least);
    return int(load_relaxed(s.col4row + i) == kFree);
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_BIDS_H_
