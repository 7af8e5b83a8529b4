// Exact solution of one large assignment by the core method (core/solve.h), and by an auction if
// the core method would take long.
//
// An auction supplies prices and most pairs, and price refinement makes the pairs tight. The core
// method then continues with candidates selected at these prices. The auction runs at once if bids
// on the first candidates leave many rows free. Otherwise it runs when the core method gives up.
// After the auction, forests of shortest paths over all costs match the rows that the core method
// cannot match. Each forest matches at least one row, and new candidates may be selected between
// forests. Each scale of the auction and each forest counts as one step of the caller's budget.
#ifndef JAXMATCH_LARGE_AUCTION_SOLVE_H_
#define JAXMATCH_LARGE_AUCTION_SOLVE_H_

#include "assignment/large/auction/bids.h"
#include "assignment/large/auction/forest.h"
#include "assignment/large/auction/refine.h"
#include "assignment/large/auction/when.h"
#include "assignment/large/core/solve.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// Each function below whose name ends in _stage runs a stage and returns the next one.

// Begins an auction at the current prices and pairs. Returns the next stage.
template <class Team, class T>
JAXMATCH_DEVICE int begin_auction(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  publish_prices(team, p);
  const int64_t spread = find_spread(team, p, 1);
  // `base` is a row's second-least reduced cost, see lower_spare_price(). It is unknown until the
  // row bids. With -inf, any other column counts as cheaper, so rows that have not bid are the
  // first to lose their columns to dummy rows.
  team.each(s.n, [&](int64_t i) {
    store_relaxed(s.base + i, -infinity());
    store_relaxed(s.listed + i, int32_t{0});
  });
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.bid + j, kNoBid);
    if (load_relaxed(s.row4col + j) == kSpare) store_relaxed(s.row4col + j, int32_t(kFree));
  });
  team.leader([&] {
    s.control->epsilon = greater(spread / kFirstEpsilon, int64_t{1});
    s.control->last_epsilon = greater(spread / kLastEpsilon, int64_t{1});
    s.control->too_wide = 0;
    s.control->least_free = INT32_MAX;
    s.control->auction = state_when_held(s.control->auction);
  });
  team.sync();
  return kAuction;
}

template <class Team, class T>
JAXMATCH_DEVICE int scale_stage(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  const int64_t epsilon = load_relaxed(&c.epsilon);
  const bool last = epsilon <= load_relaxed(&c.last_epsilon);
  Played done;
  const int64_t free_rows = play_scale(team, p, epsilon, done);
  team.leader([&] {
    c.rounds += int32_t(done.rounds);
    // The count saturates, because rows of an infeasible problem bid forever.
    c.bids = int32_t(lesser(c.bids + done.bids, int64_t{INT32_MAX}));
    c.free_rows = int32_t(greater(free_rows, int64_t{0}));
    c.epsilon = greater(epsilon / kScaleFactor, int64_t{1});
    c.steps += 1;
  });
  return last || free_rows < 0 ? kRefine : kAuction;
}

// Frees rows until no dummy row lacks a column.
template <class Team, class T>
JAXMATCH_DEVICE void give_up_columns(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  team.leader([&] { c.frontier[0] = 0; });
  team.sync();
  int64_t count = list_rows(team, p.s.n, p.s.frontier, c.frontier,
                            [&](int64_t i) { return load_relaxed(p.s.col4row + i) == kFree; });
  const int64_t epsilon = load_relaxed(&c.epsilon);
  for (int64_t added = 0; added >= 0; count += greater(added, int64_t{0})) {
    added = lower_spare_price(team, p, count, 0, epsilon, 0);
  }
}

template <class Team, class T>
JAXMATCH_DEVICE int refine_stage(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  int64_t rounds = 0;
  if (has_spares(c)) give_up_columns(team, p);
  refine_prices(team, p, rounds);
  team.leader([&] { c.rounds += int32_t(rounds); });
  team.sync();
  const int next = select_stage(team, p);
  if (has_spares(c) && next == kBid) {
    free_slack_rows(team, p.s,
                    [&p](int64_t i, int64_t j) { return p.costs.key_of(p.costs.raw(i, j)); });
  }
  return next;
}

template <class Team, class T>
JAXMATCH_DEVICE int forest_stage(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  const int64_t roots = list_roots(team, p);
  if (roots == 0) return kCheckClamped;
  const int64_t rounds = roots > 0 ? find_distances(team, p, roots) : 0;
  if (rounds < 0) return kAugment;
  const int64_t paths = roots > 0 ? augment_forest(team, p) : 0;
  team.leader([&] {
    if (paths == 0) c.status = kInfeasible;
    c.dense_steps += 1;
    c.rounds += int32_t(rounds);
    c.free_rows = int32_t(roots - paths);
    c.steps += 1;
  });
  return paths == 0 ? kFinish : has_large_prices(team, p) ? kBegin : kAugment;
}

// Sets the first prices and decides when an auction may run.
template <class Team, class T>
JAXMATCH_DEVICE int first_stage(Team& team, LargeProblem<T>& p, bool auction_first) {
  Control& c = *p.s.control;
  begin(team, p);
  publish_prices(team, p);
  const int64_t step = (p.s.n + kSampledRows - 1) / kSampledRows;
  const AuctionState auction = auction_for(find_spread(team, p, step), load_relaxed(&c.rows));
  team.leader([&] { c.auction = auction; });
  team.sync();
  return auction_first ? begin_auction(team, p) : select_stage(team, p);
}

// Runs the bids on candidates. If an auction follows, they count as a step.
template <class Team, class T>
JAXMATCH_DEVICE int bid_or_auction_stage(Team& team, const LargeProblem<T>& p, int64_t& budget) {
  Control& c = *p.s.control;
  const int next = bid_stage(team, p);
  team.sync();
  if (!auction_follows(c)) return next;
  team.leader([&] { c.steps += 1; });
  --budget;
  return begin_auction(team, p);
}

// Raises the price of each free column until some row has a tight arc to it. Candidates selected at
// these prices then include free columns.
template <class Team, class T>
JAXMATCH_DEVICE void raise_free_columns(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  int32_t *const free = s.frontier, *const length = s.control->frontier;
  team.leader([&] { store_relaxed(length, 0); });
  team.each(s.m, [&](int64_t j) { store_relaxed(s.label + j, kFar); });
  team.sync();
  const int64_t count = list_rows(team, s.m, free, length,
                                  [&](int64_t j) { return load_relaxed(s.row4col + j) == kFree; });
  if (count == 0) return;
  team.row_groups(count, [&](int64_t k, int64_t first, int64_t step) {
    const int64_t j = load_relaxed(free + k);
    double least = infinity();
    for (int64_t i = first; i < s.n; i += step) {
      if (!p.has_row(i)) continue;
      least = lesser(least, p.costs.key_of(p.costs.raw(i, j)) - double(load_relaxed(s.u + i)));
    }
    if (least < infinity()) atomic_min(s.label + j, int64_t(least));
  });
  team.sync();
  team.each(count, [&](int64_t k) {
    const int64_t j = load_relaxed(free + k), price = load_relaxed(s.label + j);
    if (price == kFar) return;
    store_relaxed(s.v + j, greater(load_relaxed(s.v + j), lesser(price, kMostPrice)));
  });
  team.sync();
}

// Decides whether the core method continues with new candidates, and if so prepares the prices for
// their selection. At least a sixteenth fewer rows must be free than at the last such selection,
// which limits the number of selections to O(log n). Selections are worthwhile because a forest
// takes as much time as many of them. A forest finds few paths if only one of its trees crosses the
// gap between two clusters, but at its prices the arcs across the gap become candidates. Wide
// problems (more columns than rows) do without such selections, because new candidates may free
// rows there.
template <class Team, class T>
JAXMATCH_DEVICE bool selects_again(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  const int32_t free_rows = load_relaxed(&c.free_rows), least = load_relaxed(&c.least_free);
  const bool again = !has_spares(c) && free_rows > 0 && free_rows < least - least / 16;
  team.sync();
  if (!again) return false;
  team.leader([&] { store_relaxed(&c.least_free, free_rows); });
  raise_free_columns(team, p);
  publish_prices(team, p);
  return true;
}

// Runs a step over all costs, after the core method has given up.
template <class Team, class T>
JAXMATCH_DEVICE int dense_stage(Team& team, const LargeProblem<T>& p, int64_t& budget) {
  if (!is_held(load_relaxed(&p.s.control->auction))) return begin_auction(team, p);
  if (selects_again(team, p)) return select_stage(team, p);
  --budget;
  return forest_stage(team, p);
}

template <class Team, class T>
JAXMATCH_DEVICE void solve_core(Team& team, LargeProblem<T>& p, bool auction_first,
                                int64_t budget) {
  run_stages(team, p, budget, [&](int stage) {
    switch (stage) {
      case kBegin:
        return scan_stage(team, p);
      case kSelect:
        return first_stage(team, p, auction_first);
      case kBid:
        return bid_or_auction_stage(team, p, budget);
      case kPrice:
        return price_stage(team, p);
      case kAuction:
        --budget;
        return scale_stage(team, p);
      case kRefine:
        return refine_stage(team, p);
      default:
        return load_relaxed(&p.s.control->trees) ? dense_stage(team, p, budget)
                                                 : augment_stage(team, p, budget);
    }
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_SOLVE_H_
