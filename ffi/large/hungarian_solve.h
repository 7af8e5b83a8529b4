// The Hungarian algorithms of Date and Nagi (2016): how their steps (hungarian_steps.h) follow each
// other.
#ifndef JAXMATCH_LARGE_HUNGARIAN_SOLVE_H_
#define JAXMATCH_LARGE_HUNGARIAN_SOLVE_H_

#include "core_operands.h"
#include "core_solve.h"
#include "hungarian_steps.h"

namespace jaxmatch {

// One iteration: from all free rows, until there are paths to augment along. The classical variant
// begins its forward pass anew after each dual update, the tree variant goes on.
template <class Team, class T>
JAXMATCH_FN int iterate(Team& team, const Core<T>& p, bool tree) {
  const CoreState& s = p.s;
  int64_t count = check_optimality(team, p);
  const int64_t free_rows = count;
  const bool first = peek(&s.control->phases) == 0;
  team.sync();
  if (free_rows == 0) return kCheckGrid;
  int64_t levels = 0, updates = 0, paths = 0, compress_ns = 0, update_ns = 0;
  int next = kAugment;
  bool outdated = peek(&s.control->stale);  // the list of zeros
  team.sync();
  for (int64_t level = 0;; ++level, ++levels) {
    team.leader([&] {
      s.control->reach = kFar;
      if (level == 0) s.control->ends = 0;
    });
    const int64_t start = team.now();
    if (!tree && outdated) {
      compress_zeros(team, p);
      compress_ns += team.now() - start;
    }
    outdated = false;
    team.sync();
    if (count > 0) {
      if (tree) {
        expand_tree(team, p, level, count);
        count = contract(team, p, level, [&](int64_t j) { return peek(s.label + j) == 0; });
      } else {
        expand_classical(team, p, level, count);
        count =
            contract(team, p, level, [&](int64_t j) { return peek(s.parent + j) != kNoParent; });
      }
      if (count > 0) continue;
    }
    if (peek(&s.control->ends) != 0) {
      paths = reverse_and_augment(team, p);
      break;
    }
    const int64_t update_start = team.now();
    const int64_t theta = tree ? least_outside_tree(team, p) : least_outside_classical(team, p);
    if (theta >= kFar) {
      next = kFinish;
      break;
    }
    ++updates;
    const bool too_wide = move_duals(team, p, theta) > 0;
    update_ns += team.now() - update_start;
    if (too_wide) {
      next = kBegin;
      break;
    }
    if (tree) {
      // Columns whose slack is now zero go on where the last level ended.
      count = contract(team, p, level, [&](int64_t j) { return peek(s.label + j) == 0; });
      if (count == 0 && peek(&s.control->ends) != 0) {
        paths = reverse_and_augment(team, p);
        break;
      }
    } else {
      count = check_optimality(team, p);
      outdated = true;
      level = -1;
    }
  }
  team.sync();
  team.leader([&] {
    Control& c = *s.control;
    c.free_rows = int32_t(free_rows - paths);
    if (first) c.bid_rounds = int32_t(paths);  // the initial assignment
    c.phases += 1;
    c.pricings += int32_t(updates);
    c.rounds += int32_t(levels);
    c.stale = outdated;
    c.spent[kBid] += compress_ns;
    c.spent[kPrice] += update_ns;
    c.spent[kAugment] -= compress_ns + update_ns;
    if (next == kFinish) c.status = kInfeasible;
  });
  return next;
}

// Runs until the problem is solved or `budget` iterations are over.
template <class Team, class T>
JAXMATCH_FN void solve_hungarian(Team& team, Core<T>& p, bool tree, int64_t budget) {
  run_stages(team, p, budget, [&](int stage) {
    if (stage == kBegin) return look_stage(team, p);
    if (stage == kAugment) {
      --budget;
      return iterate(team, p, tree);
    }
    const bool alone = reduce(team, p) > 0;
    team.leader([&] {
      if (alone) p.s.control->status = kInfeasible;
      p.s.control->stale = 1;
    });
    return int(alone ? kFinish : kAugment);
  });
}

// The CPU has one function for all methods, the GPU a kernel for each.
template <class Team, class T>
JAXMATCH_FN void solve_large(Team& team, Core<T>& p, LargeMethod method, int64_t budget) {
  if (method == LargeMethod::kCore) return solve_core(team, p, budget);
  solve_hungarian(team, p, method == LargeMethod::kTree, budget);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_HUNGARIAN_SOLVE_H_
