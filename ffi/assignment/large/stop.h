// Ends a solve at its time limit: completes the current pairs to a full matching if it can, and
// makes the prices feasible, so that they bound the distance to the optimum.
#ifndef JAXMATCH_LARGE_STOP_H_
#define JAXMATCH_LARGE_STOP_H_

#include "assignment/large/auction/two_least.h"
#include "assignment/large/begin.h"
#include "assignment/large/row_minima.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// After the deadline, rows stop choosing columns once they have read all costs this many times.
constexpr int64_t kMostScansAfterDeadline = 4;

// True once the time is up. All threads get the same answer. If there is a time limit, the call is
// also a barrier.
template <class Team>
JAXMATCH_DEVICE bool is_late(Team& team, const LargeState& s) {
  const int64_t deadline = load_relaxed(&s.control->deadline);
  if (deadline == kNoDeadline) return false;
  return team.sum(1, [&](int64_t) { return team.now() >= deadline; }) != 0;
}

// The two least reduced costs of row i over the columns with finite prices.
template <class P>
JAXMATCH_NOINLINE TwoLeast two_nearest_free(const P& problem, Lanes g, const double* v, int64_t i) {
  const P p = problem;
  TwoLeast own;
  for (int64_t j = g.lane; j < p.s.m; j += g.kCount) {
    const double price = load_relaxed(v + j);
    if (price == -infinity()) continue;
    own.include(p.costs.key_of(p.costs.raw(i, j)) - price, int32_t(j));
  }
  return TwoLeast::of_lanes(g, own);
}

// Every free row bids for its best free column. Among the bidders for a column, the one that would
// lose most with its second-best column gets it. Matched columns have price -inf here. Returns the
// number of rows that got a column.
template <class Team, class T>
JAXMATCH_DEVICE int64_t choose_columns(Team& team, const LargeProblem<T>& p, const int32_t* rows,
                                       int64_t count) {
  const LargeState& s = p.s;
  uint64_t* const bid = s.parent;
  int32_t* const col = s.end;
  team.each(s.m, [&](int64_t j) { store_relaxed(bid + j, kNoBid); });
  team.sync();
  team.rows(count, [&](Lanes g, int64_t k) {
    const int32_t i = load_relaxed(rows + k);
    const TwoLeast two = two_nearest_free(p, g, s.v_real, i);
    if (g.lane != 0) return;
    store_relaxed(col + i, two.col);
    if (two.col < 0) return;
    const double loss = two.next < infinity() ? two.next - two.least : double(kMostRaise);
    atomic_min(bid + two.col, pack_bid(int64_t(lesser(loss, double(kMostRaise))), i));
  });
  team.sync();
  return team.sum(count, [&](int64_t k) {
    const int32_t i = load_relaxed(rows + k), j = load_relaxed(col + i);
    if (j < 0 || row_of_bid(load_relaxed(bid + j)) != i) return false;
    store_relaxed(s.col4row + i, j);
    store_relaxed(s.row4col + j, i);
    store_relaxed(s.v_real + j, -infinity());
    return true;
  });
}

// Matches the k-th free row to the k-th free column, if that pair is allowed.
template <class Team, class T>
JAXMATCH_DEVICE void match_in_order(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.leader([&] {
    int64_t j = 0;
    for (int64_t i = 0; i < s.n; ++i) {
      if (load_relaxed(s.col4row + i) != kFree) continue;
      while (j < s.m && load_relaxed(s.row4col + j) != kFree) ++j;
      if (j == s.m) return;
      if (p.costs.key_of(p.costs.raw(i, j)) < infinity()) {
        store_relaxed(s.col4row + i, int32_t(j));
        store_relaxed(s.row4col + j, int32_t(i));
      }
      ++j;
    }
  });
  team.sync();
}

// Sets feasible duals that do not depend on the pairs: each row gets the greatest price that the
// column prices allow.
template <class Team, class T>
JAXMATCH_DEVICE void settle_prices(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  if (has_spares(*s.control)) {  // no price may exceed spare_price
    const int64_t most = load_relaxed(&s.control->spare_price);
    team.each(s.m, [&](int64_t j) {
      if (load_relaxed(s.v + j) > most) store_relaxed(s.v + j, most);
    });
    team.sync();
  }
  publish_prices(team, p);
  team.each(s.n, [&](int64_t i) { store_relaxed(s.u + i, kFar); });
  team.sync();
  find_least_of_all(team, p, team.prices(s),
                    [u = s.u](int64_t i, int64_t x) { atomic_min(u + i, x); });
  team.sync();
  team.each(s.n, [&](int64_t i) {
    if (load_relaxed(s.u + i) == kFar) store_relaxed(s.u + i, int64_t{0});
  });
}

// Ends the solve: matches the free rows as far as possible. Rows that find no allowed column stay
// free.
template <class Team, class T>
JAXMATCH_DEVICE void stop_early(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  Control& c = *s.control;
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.row4col + j) == kSpare) store_relaxed(s.row4col + j, int32_t(kFree));
  });
  settle_prices(team, p);
  team.sync();
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.row4col + j) != kFree) store_relaxed(s.v_real + j, -infinity());
  });
  const auto is_free = [&](int64_t i) { return load_relaxed(s.col4row + i) == kFree; };
  int64_t free_rows = s.n;
  for (int64_t scans = 0; scans < kMostScansAfterDeadline * s.n; scans += free_rows) {
    team.leader([&] { store_relaxed(c.frontier, 0); });
    team.sync();
    free_rows = list_rows(team, s.n, s.frontier, c.frontier, is_free);
    if (free_rows == 0) break;
    const int64_t found = choose_columns(team, p, s.frontier, free_rows);
    if (found == 0) break;
  }
  if (free_rows > 0) {
    match_in_order(team, p);
    free_rows = team.sum(s.n, is_free);
  }
  team.leader([&] {
    c.free_rows = int32_t(free_rows);
    c.status = kTimeLimit;
    c.stage = kFinish;
  });
  team.sync();
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_STOP_H_
