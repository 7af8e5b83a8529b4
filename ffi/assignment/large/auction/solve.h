// Exact solution of one large square assignment by an auction whose last rows are matched along
// shortest paths.
//
// The auction supplies prices and most pairs; price refinement makes the pairs tight; forests of
// shortest paths match the rows that are left, at least one in each forest, or prove
// infeasibility. Each scale of the auction and each forest is a step.
#ifndef JAXMATCH_LARGE_AUCTION_SOLVE_H_
#define JAXMATCH_LARGE_AUCTION_SOLVE_H_

#include "assignment/large/auction/bids.h"
#include "assignment/large/auction/forest.h"
#include "assignment/large/auction/refine.h"
#include "assignment/large/core/solve.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// Each stage returns the next one.

template <class Team, class T>
JAXMATCH_DEVICE int begin_auction(Team& team, LargeProblem<T>& p) {
  const LargeState& s = p.s;
  begin(team, p);
  publish_prices(team, p);
  const int64_t spread = find_spread(team, p);
  team.leader([&] {
    s.control->epsilon = greater(spread / kFirstEpsilon, int64_t{1});
    s.control->last_epsilon = greater(spread / kLastEpsilon, int64_t{1});
    s.control->too_wide = 0;
  });
  return kAuction;
}

template <class Team, class T>
JAXMATCH_DEVICE int scale_stage(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  const int64_t epsilon = load_relaxed(&c.epsilon);
  const bool last = epsilon <= load_relaxed(&c.last_epsilon);
  int64_t rounds = 0;
  const int64_t free_rows = play_scale(team, p, epsilon, rounds);
  team.leader([&] {
    c.bid_rounds += int32_t(rounds);
    c.free_rows = int32_t(greater(free_rows, int64_t{0}));
    c.epsilon = greater(epsilon / kScaleFactor, int64_t{1});
    c.steps += 1;
  });
  return last || free_rows < 0 ? kRefine : kAuction;
}

template <class Team, class T>
JAXMATCH_DEVICE int refine_stage(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  int64_t rounds = 0;
  refine_prices(team, p, rounds);
  team.leader([&] { c.rounds += int32_t(rounds); });
  team.sync();
  return select_stage(team, p);
}

template <class Team, class T>
JAXMATCH_DEVICE int forest_stage(Team& team, const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  const int64_t roots = plant_forest(team, p);
  if (roots == 0) return kCheckClamped;
  const int64_t rounds = roots > 0 ? grow_forest(team, p, roots) : 0;
  const int64_t paths = roots > 0 ? harvest_forest(team, p) : 0;
  team.leader([&] {
    if (paths == 0) c.status = kInfeasible;
    c.rounds += int32_t(rounds);
    c.free_rows = int32_t(roots - paths);
    c.steps += 1;
  });
  return paths == 0 ? kFinish : has_large_prices(team, p) ? kBegin : kAugment;
}

// Problems that are not square are solved by the core method: its columns that stay free must keep
// the greatest price, which an auction at several scales does not ensure.
template <class Team, class T>
JAXMATCH_DEVICE void solve_auction(Team& team, LargeProblem<T>& p, int64_t budget) {
  const Control& c = *p.s.control;
  if (load_relaxed(&c.rows) < load_relaxed(&c.cols)) return solve_core(team, p, budget);
  run_stages(team, p, budget, [&](int stage) {
    const bool over_all = stage == kAugment && load_relaxed(&c.trees);
    if (stage == kSelect) return begin_auction(team, p);
    if (stage == kRefine) return refine_stage(team, p);
    if (stage != kAuction && !over_all) return core_stage(team, p, stage, budget);
    --budget;
    return over_all ? forest_stage(team, p) : scale_stage(team, p);
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_SOLVE_H_
