// One iteration of the Hungarian algorithms of Date and Nagi (2016): runs the steps in
// assignment/large/hungarian/steps.h in order.
#ifndef JAXMATCH_LARGE_HUNGARIAN_ITERATE_H_
#define JAXMATCH_LARGE_HUNGARIAN_ITERATE_H_

#include "assignment/large/hungarian/steps.h"
#include "assignment/large/stop.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// Result of an iteration: the next stage and statistics.
struct Iteration {
  int64_t free_rows;  // number of free rows at the beginning
  int next;
  int64_t paths = 0, levels = 0, updates = 0, compress_ns = 0, update_ns = 0;
  bool outdated = false;

  JAXMATCH_DEVICE void add_to(Control& c) const {
    c.free_rows = int32_t(free_rows - paths);
    c.steps += next != kCheckClamped;
    c.rounds += int32_t(levels);
    if (next == kFinish) c.status = kInfeasible;
  }
};

// Grows trees from all free rows until there are paths to augment along. After each dual update,
// the classical variant restarts its forward pass, and the tree variant continues. `outdated`:
// duals have changed, so the classical variant must recompute its tight pairs.
template <class Team, class T>
JAXMATCH_DEVICE Iteration iterate(Team& team, const LargeProblem<T>& p, bool tree, bool outdated) {
  const LargeState& s = p.s;
  int64_t count = check_optimality(team, p);
  Iteration result{count, kAugment};
  if (count == 0) result.next = kCheckClamped;
  const auto goes_on = [&] { return result.next == kAugment && !is_late(team, s); };
  for (int64_t level = 0; goes_on(); ++level, ++result.levels) {
    team.leader([&] {
      s.control->reach = kFar;
      if (level == 0) s.control->ends = 0;
    });
    const int64_t start = team.now();
    if (!tree && outdated) {
      compress_tight(team, p);
      result.compress_ns += team.now() - start;
    }
    outdated = false;
    team.sync();
    if (count > 0) {
      if (tree) {
        expand_tree(team, p, level, count, [&](int64_t i) { return double(s.u[i]); });
        count = contract(team, p, level, [&](int64_t j) { return load_relaxed(s.label + j) == 0; });
      } else {
        expand_classical(team, p, level, count);
        count = contract(team, p, level,
                         [&](int64_t j) { return load_relaxed(s.parent + j) != kNoParent; });
      }
      if (count > 0) continue;
    }
    if (load_relaxed(&s.control->ends) != 0) {
      result.paths = reverse_and_augment(team, p);
      break;
    }
    const int64_t update_start = team.now();
    int32_t* const length = &s.control->frontier[level & 1];  // contract() has set it to 0
    const int64_t theta =
        tree ? least_outside_tree(team, p)
             : least_outside_classical(team, p, s.frontier + (level & 1) * s.n, length);
    if (theta >= kFar) {
      result.next = kFinish;
      break;
    }
    ++result.updates;
    const bool too_wide = move_duals(team, p, theta) > 0;
    result.update_ns += team.now() - update_start;
    if (too_wide) {
      result.next = kBegin;
      break;
    }
    if (tree) {
      // Columns whose slack is now zero join the last level.
      count = contract(team, p, level, [&](int64_t j) { return load_relaxed(s.label + j) == 0; });
      if (count == 0 && load_relaxed(&s.control->ends) != 0) {
        result.paths = reverse_and_augment(team, p);
        break;
      }
    } else {
      count = check_optimality(team, p);
      outdated = true;
      level = -1;
    }
  }
  team.sync();
  result.outdated = outdated;
  return result;
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_HUNGARIAN_ITERATE_H_
