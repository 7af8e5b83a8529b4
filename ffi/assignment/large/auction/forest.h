// A forest of shortest paths from all free rows at once, over all costs, by label correcting. One
// augmentation follows in each tree that has a free column. In a wide problem (more columns than
// rows), paths may lead through dummy rows of zeros, which are matched to spare columns.
#ifndef JAXMATCH_LARGE_AUCTION_FOREST_H_
#define JAXMATCH_LARGE_AUCTION_FOREST_H_

#include "assignment/large/auction/relax.h"
#include "assignment/large/begin.h"
#include "assignment/large/row_minima.h"
#include "assignment/large/stop.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// The row from which the forest has reached column j; kSpareRow stands for all dummy rows.
JAXMATCH_DEVICE inline uint32_t parent_of(const LargeState& s, int64_t j) {
  return row_at_place(int64_t(load_relaxed(s.parent + j)), j);
}
// The column matched to row `parent`, or a Partner if the row is a root. Dummy rows are alike: a
// path enters all of them through the spare column with the least label.
JAXMATCH_DEVICE inline int32_t column_before(const LargeState& s, uint32_t parent) {
  if (parent == kSpareRow) return int32_t(load_relaxed(&s.control->spare_parent));
  return load_relaxed(s.col4row + parent);
}

// Lists the free rows as roots. Returns their number, or -1 if a free row has no allowed column.
template <class Team, class T>
JAXMATCH_DEVICE int64_t list_roots(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.leader([&] {
    s.control->frontier[0] = s.control->frontier[1] = 0;
    s.control->reach = 0;
    s.control->status = kOptimal;
    s.control->spare_label = kFar;
    s.control->spare_parent = kNoParent;
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

// If the distance to the dummy rows has fallen, lowers the labels of columns to their distances
// through dummy rows.
template <class Team, class T>
JAXMATCH_DEVICE void relax_spares(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  int64_t* const nearest = &s.control->spare_label;
  const int64_t before = load_relaxed(nearest);
  const int64_t nearer = team.sum(s.m, [&](int64_t j) {
    const int64_t label = load_relaxed(s.label + j);
    if (load_relaxed(s.row4col + j) != kSpare || label >= before) return false;
    atomic_min(nearest, label);
    return true;
  });
  if (nearer == 0) return;
  const int64_t label = load_relaxed(nearest), price = load_relaxed(&s.control->spare_price);
  team.each(s.m, [&](int64_t j) {
    const int64_t there = label + price - load_relaxed(s.v + j);
    if (!p.has_col(j) || there >= load_relaxed(s.label + j)) return;
    store_relaxed(s.label + j, there);
    store_relaxed(s.parent + j, uint64_t(place_of_row(kSpareRow, j)));
  });
  team.sync();
}

// Chooses the spare column through which paths enter the dummy rows.
template <class Team>
JAXMATCH_DEVICE void find_spare_parent(Team& team, const LargeState& s) {
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.row4col + j) != kSpare || parent_of(s, j) == kSpareRow) return;
    if (load_relaxed(s.label + j) == load_relaxed(&s.control->spare_label))
      atomic_min(&s.control->spare_parent, uint64_t(j));
  });
  team.sync();
}

// Sets the label and the parent of every column. Returns the number of rounds, or -1 if the time is
// up.
template <class Team, class T>
JAXMATCH_DEVICE int64_t find_distances(Team& team, const LargeProblem<T>& p, int64_t count) {
  const LargeState& s = p.s;
  int32_t* const lengths = s.control->frontier;
  const bool spares = has_spares(*s.control);
  int64_t rounds = 0;
  for (int turn = 0; count > 0; turn ^= 1, ++rounds) {
    if (is_late(team, s)) return -1;
    team.leader([&] { store_relaxed(lengths + !turn, 0); });
    relax_rows(
        team, p, s.frontier + turn * s.n, count, s.label,
        [](const LargeProblem<T>&, int64_t) { return true; },
        [v = s.v_real](int64_t j) { return load_relaxed(v + j); });
    if (spares) relax_spares(team, p);
    count = list_fallen(team, s, s.label, s.frontier + !turn * s.n, lengths + !turn,
                        [&](int32_t i, int64_t, int64_t, int64_t now) {
                          if (i < 0) return;
                          store_relaxed(s.base + i, double(load_relaxed(s.u + i) - now));
                        });
  }
  if (spares) find_spare_parent(team, s);
  return rounds;
}

// Augments along the path to the nearest free column of each tree. Prices move until these paths
// are tight. Returns the number of paths.
template <class Team, class T>
JAXMATCH_DEVICE int64_t augment_forest(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const auto is_end = [&](int64_t j) {
    return load_relaxed(s.row4col + j) == kFree && load_relaxed(s.label + j) < kFar;
  };
  int32_t* const root_of = s.on_path;
  team.each(s.m, [&](int64_t end) {
    if (!is_end(end)) return;
    uint32_t i = parent_of(s, end);
    for (int32_t j = column_before(s, i); j >= 0; j = column_before(s, i)) i = parent_of(s, j);
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
  team.leader([&] {
    s.control->spare_price -= greater(reach - load_relaxed(&s.control->spare_label), int64_t{0});
  });
  team.sync();
  return team.sum(s.m, [&](int64_t end) {
    if (!is_end(end) || load_relaxed(s.end + load_relaxed(root_of + end)) != end) return false;
    for (int32_t j = int32_t(end); j >= 0;) {
      const uint32_t i = parent_of(s, j);
      const int32_t before = column_before(s, i);
      store_relaxed(s.row4col + j, i == kSpareRow ? int32_t(kSpare) : int32_t(i));
      if (i != kSpareRow) store_relaxed(s.col4row + i, j);
      j = before;
    }
    return true;
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_FOREST_H_
