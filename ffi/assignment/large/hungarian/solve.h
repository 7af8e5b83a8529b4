// The Hungarian algorithms of Date and Nagi (2016), from reduction to the last iteration. They are
// kept for comparison with the paper; the method "core" is faster.
#ifndef JAXMATCH_LARGE_HUNGARIAN_SOLVE_H_
#define JAXMATCH_LARGE_HUNGARIAN_SOLVE_H_

#include "assignment/large/auction/solve.h"
#include "assignment/large/core/solve.h"
#include "assignment/large/hungarian/iterate.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {

template <class Team, class T>
JAXMATCH_DEVICE int hungarian_stage(Team& team, const LargeProblem<T>& p, bool tree) {
  const bool first = load_relaxed(&p.s.control->steps) == 0,
             outdated = load_relaxed(&p.s.control->stale);
  const Iteration done = iterate(team, p, tree, outdated);
  team.leader([&] {
    Control& c = *p.s.control;
    done.add_to(c);
    if (first) c.bid_rounds = int32_t(done.paths);  // size of the initial assignment
    c.pricings += int32_t(done.updates);
    c.stale = done.outdated;
    c.spent[kCompress] += done.compress_ns;
    c.spent[kUpdateDuals] += done.update_ns;
    c.spent[kSearch] -= done.compress_ns + done.update_ns;
  });
  return done.next;
}

// Runs until the problem is solved or `budget` iterations are spent.
template <class Team, class T>
JAXMATCH_DEVICE void solve_hungarian(Team& team, LargeProblem<T>& p, bool tree, int64_t budget) {
  run_stages(team, p, budget, [&](int stage) {
    if (stage == kBegin) return scan_stage(team, p);
    if (stage == kAugment) {
      --budget;
      return hungarian_stage(team, p, tree);
    }
    const bool isolated = reduce(team, p) > 0;
    team.leader([&] {
      if (isolated) p.s.control->status = kInfeasible;
      p.s.control->stale = 1;
    });
    return int(isolated ? kFinish : kAugment);
  });
}

// Solves one problem by any method. Only the CPU uses this function; the GPU has separate kernels
// for the core and the Hungarian methods.
template <class Team, class T>
JAXMATCH_DEVICE void solve_large(Team& team, LargeProblem<T>& p, LargeMethod method,
                                 int64_t budget) {
  if (has_core(method)) return solve_core(team, p, method == LargeMethod::kAuction, budget);
  solve_hungarian(team, p, method == LargeMethod::kTree, budget);
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_HUNGARIAN_SOLVE_H_
