// A forest of shortest paths from all free rows at once, over all costs, by label correcting; then
// one augmentation in each tree that has a free column.
#ifndef JAXMATCH_LARGE_AUCTION_FOREST_H_
#define JAXMATCH_LARGE_AUCTION_FOREST_H_

#include "assignment/large/auction/relax.h"
#include "assignment/large/core/bids.h"
#include "assignment/large/row_minima.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// The row from which a forest has reached column j.
JAXMATCH_DEVICE inline int64_t parent_of(const LargeState& s, int64_t j) {
  return row_at_place(int64_t(load_relaxed(s.parent + j)), j);
}

// Lists the free rows as roots. Returns their number, or -1 if one of them has no allowed column.
template <class Team, class T>
JAXMATCH_DEVICE int64_t plant_forest(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.leader([&] {
    s.control->frontier[0] = s.control->frontier[1] = 0;
    s.control->reach = 0;
    s.control->status = kOptimal;
  });
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.label + j, kFar);
    store_relaxed(s.seen + j, kFar);
    store_relaxed(s.parent + j, kNoParent);
  });
  team.sync();
  const int64_t roots = list_rows(team, s.n, s.frontier, s.control->frontier, [&](int64_t i) {
    const int64_t u = load_relaxed(s.u + i);
    const bool root = load_relaxed(s.col4row + i) == kFree;
    if (root && u == kFar) store_relaxed(&s.control->status, int32_t(kInfeasible));
    store_relaxed(s.base + i, double(u));
    store_relaxed(s.nearest + i, kFar);
    store_relaxed(s.end + i, INT32_MAX);
    return root;
  });
  return load_relaxed(&s.control->status) == kInfeasible ? -1 : roots;
}

// Sets label and parent of every column. Returns the number of rounds.
template <class Team, class T>
JAXMATCH_DEVICE int64_t grow_forest(Team& team, const LargeProblem<T>& p, int64_t count) {
  const LargeState& s = p.s;
  int32_t* const lengths = s.control->frontier;
  int64_t rounds = 0;
  for (int turn = 0; count > 0; turn ^= 1, ++rounds) {
    team.leader([&] { store_relaxed(lengths + !turn, 0); });
    relax_rows(team, p, s.frontier + turn * s.n, count, s.label,
               [v = s.v_real](int64_t j) { return load_relaxed(v + j); });
    count = list_fallen(team, s, s.label, s.frontier + !turn * s.n, lengths + !turn,
                        [&](int32_t i, int64_t, int64_t, int64_t now) {
                          if (i < 0) return;
                          store_relaxed(s.base + i, double(load_relaxed(s.u + i) - now));
                        });
  }
  return rounds;
}

// Augments to the nearest free column of each tree. Prices move so far that these paths are tight.
// Returns the number of paths.
template <class Team, class T>
JAXMATCH_DEVICE int64_t harvest_forest(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const auto is_end = [&](int64_t j) {
    return load_relaxed(s.row4col + j) == kFree && load_relaxed(s.label + j) < kFar;
  };
  int32_t* const root_of = s.on_path;
  team.each(s.m, [&](int64_t end) {
    if (!is_end(end)) return;
    int64_t i = parent_of(s, end);
    for (int32_t j = load_relaxed(s.col4row + i); j >= 0; j = load_relaxed(s.col4row + i)) {
      i = parent_of(s, j);
    }
    store_relaxed(root_of + end, int32_t(i));
    atomic_min(s.nearest + i, load_relaxed(s.label + end));
  });
  team.sync();
  team.each(s.m, [&](int64_t j) {
    if (!is_end(j)) return;
    const int32_t root = load_relaxed(root_of + j);
    const int64_t label = load_relaxed(s.label + j);
    if (label != load_relaxed(s.nearest + root)) return;
    atomic_min(s.end + root, int32_t(j));
    atomic_max(&s.control->reach, label);
  });
  team.sync();
  const int64_t reach = load_relaxed(&s.control->reach);
  const auto fall_of = [&](int64_t j) {
    return greater(reach - load_relaxed(s.label + j), int64_t{0});
  };
  team.each(s.n, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    const int64_t rise = j >= 0 ? fall_of(j) : j == kFree ? reach : 0;
    if (rise > 0) store_relaxed(s.u + i, load_relaxed(s.u + i) + rise);
  });
  team.each(s.m, [&](int64_t j) {
    const int64_t fall = fall_of(j);
    if (fall == 0) return;
    const int64_t v = load_relaxed(s.v + j) - fall;
    store_relaxed(s.v + j, v);
    store_relaxed(s.v_real + j, p.has_col(j) ? double(v) : -infinity());
  });
  team.sync();
  return team.sum(s.m, [&](int64_t end) {
    if (!is_end(end) || load_relaxed(s.end + load_relaxed(root_of + end)) != end) return false;
    for (int32_t j = int32_t(end); j >= 0;) {
      const int64_t i = parent_of(s, j);
      const int32_t before = load_relaxed(s.col4row + i);
      store_relaxed(s.row4col + j, int32_t(i));
      store_relaxed(s.col4row + i, j);
      j = before;
    }
    return true;
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_FOREST_H_
