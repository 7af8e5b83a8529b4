// Augmentation along many disjoint shortest paths at once.
//
// Prices move as in the Hungarian method. Then every arc of a shortest path is tight, and each tree
// that contains a free column gives one path.
#ifndef JAXMATCH_LARGE_CORE_PATHS_H_
#define JAXMATCH_LARGE_CORE_PATHS_H_

#include "assignment/large/core/search.h"

namespace jaxmatch::assignment::large {

constexpr int kMostCuts = 10;  // halvings of the distance that prices move, before it becomes zero
// Paths of more hops than this are augmented by pointer doubling. The limit is estimated from
// latencies, not measured.
constexpr int64_t kFewHops = 16;

// The price changes that make all shortest paths up to length `reach` tight: column prices fall,
// and row prices rise.
struct Movement {
  const LargeState& s;
  const Search& search;
  int64_t reach;

  JAXMATCH_DEVICE int64_t fall_of(int64_t j) const {
    return greater(reach - search.distance_of(load_relaxed(s.label + j)), int64_t{0});
  }
  JAXMATCH_DEVICE int64_t rise_of(int64_t i) const {
    const int32_t j = load_relaxed(s.col4row + i);
    return j >= 0 ? fall_of(j) : reach;
  }
};

// A limit on price moves: at most `most` row prices may exceed their row's horizon (a lower bound
// on the reduced costs outside its candidates) by more than `excess`.
struct MoveLimit {
  int64_t most, excess;
};

// Replaces the price changes of reach `from`, which have been applied, by those of reach `to`.
// Returns the number of rows whose price then exceeds their horizon by more than `excess`.
template <class Team, class T>
JAXMATCH_DEVICE int64_t move_prices(Team& team, const LargeProblem<T>& p, const Search& search,
                                    int64_t from, int64_t to, int64_t excess) {
  const LargeState& s = p.s;
  const Movement before{s, search, from}, after{s, search, to};
  const auto fall_of = [&](int64_t j) { return after.fall_of(j) - before.fall_of(j); };
  const auto rise_of = [&](int64_t i) { return after.rise_of(i) - before.rise_of(i); };
  const int64_t spare_distance = search.distance_of(load_relaxed(&s.control->spare_label));
  team.each(s.m, [&](int64_t j) {
    const int64_t fall = fall_of(j);
    if (fall != 0) store_relaxed(s.v + j, load_relaxed(s.v + j) - fall);
  });
  const int64_t beyond = team.sum(s.n, [&](int64_t i) {
    if (!p.has_row(i)) return false;
    const int64_t rise = rise_of(i), u = load_relaxed(s.u + i) + rise;
    if (rise != 0) store_relaxed(s.u + i, u);
    return u - excess > load_relaxed(s.horizon + i);
  });
  team.leader([&] {
    s.control->spare_price -=
        greater(to - spare_distance, int64_t{0}) - greater(from - spare_distance, int64_t{0});
  });
  return beyond;
}

// Moves prices by `reach`, or less if `limit` requires it. Without the limit, a few rows that have
// only long paths would move the prices of all other rows far beyond their horizons (see
// MoveLimit). Returns the distance moved.
template <class Team, class T>
JAXMATCH_DEVICE int64_t move_prices_up_to(Team& team, const LargeProblem<T>& p,
                                          const Search& search, int64_t reach, MoveLimit limit) {
  int64_t moved = 0;
  for (int cuts = 0; reach != moved;) {
    const int64_t beyond = move_prices(team, p, search, moved, reach, limit.excess);
    moved = reach;
    if (beyond > limit.most) reach = cuts++ < kMostCuts ? reach / 2 : 0;
  }
  return moved;
}

// The column one step closer to the root of the tree, i.e. the partner of the parent row. If the
// parent row is the root, returns -1 - row.
JAXMATCH_DEVICE inline int32_t step_up(const LargeState& s, const Search& search, int64_t j) {
  const uint32_t row = parent_row(s, search, j);
  if (row == kNoRow) return -1;
  if (row == kSpareRow) return int32_t(spare_entry(s, search));
  const int32_t col = load_relaxed(s.col4row + row);
  return col >= 0 ? col : -1 - int32_t(row);
}

// Computes each column's ancestors 1, 2, 4, ... steps up, one level for each power of two, until
// all ancestors are roots. The last level holds the roots. With `one`, computes only the ancestors
// one step up. Returns the number of levels.
template <class Team>
JAXMATCH_DEVICE int find_ancestors(Team& team, const LargeState& s, const Search& search,
                                   bool one) {
  const auto count = [&](int32_t* level, auto find) {
    return team.sum(s.m, [&](int64_t j) {
      const int32_t up = find(j);
      store_relaxed(level + j, up);
      return up >= 0;
    });
  };
  int levels = 1;
  int64_t left = count(s.ancestor, [&](int64_t j) { return step_up(s, search, j); });
  for (; !one && left > 0 && levels < kLevels; ++levels) {
    const int32_t* const below = s.ancestor + (levels - 1) * s.m;
    left = count(s.ancestor + levels * s.m, [&](int64_t j) {
      const int32_t up = load_relaxed(below + j);
      return up >= 0 ? load_relaxed(below + up) : up;
    });
  }
  return levels;
}

// Matches column j to its parent row.
JAXMATCH_DEVICE inline void assign_row(const LargeState& s, const Search& search, int64_t j) {
  const uint32_t row = parent_row(s, search, j);
  store_relaxed(s.row4col + j, row == kSpareRow ? int32_t(kSpare) : int32_t(row));
  if (row != kSpareRow) store_relaxed(s.col4row + row, int32_t(j));
}

// Result of a step of the core method: the paths augmented, and the distance that prices moved.
struct Found {
  int64_t paths, reach;
  bool limited;   // prices could not move as far as the longest path
  bool too_wide;  // a distance overflowed
};

// Augments along the shortest path in each tree, i.e. to its nearest free column. Prices move by
// the length of the longest of these paths, or less if `limit` requires it. Paths longer than this
// move are left out.
//
// One thread traverses each short path. Long paths are marked and flipped by pointer doubling.
template <class Team, class T>
JAXMATCH_DEVICE Found augment(Team& team, const LargeProblem<T>& p, const Search& search,
                              MoveLimit limit) {
  const LargeState& s = p.s;
  // After a search along tight arcs only, one thread traverses each path however long it is: this
  // takes less time than the search did.
  const bool few =
      search.tight || (search.hop_bits > 0 && load_relaxed(&s.control->most_hops) <= kFewHops);
  const int levels = find_ancestors(team, s, search, few);
  int32_t* const roots = few ? s.on_path : s.ancestor + (levels - 1) * s.m;
  const auto is_end = [&](int64_t j) {
    return load_relaxed(s.row4col + j) == kFree && load_relaxed(s.label + j) < kTooFar;
  };
  team.each(s.m, [&](int64_t j) {
    if (!is_end(j)) return;
    if (few) {
      int32_t up = int32_t(j);
      while (up >= 0) up = load_relaxed(s.ancestor + up);
      store_relaxed(roots + j, up);
    }
    const int32_t root = -1 - load_relaxed(roots + j);
    atomic_min(s.nearest + root, search.rename(load_relaxed(s.label + j), j));
  });
  team.sync();
  const auto is_nearest = [&](int64_t j) {
    const int32_t root = -1 - load_relaxed(roots + j);
    return search.rename(load_relaxed(s.label + j), j) == load_relaxed(s.nearest + root);
  };
  const bool too_wide = load_relaxed(&s.control->too_wide) != 0;
  int64_t reach = 0;
  bool limited = false;
  if (!search.tight) {
    team.each(s.m, [&](int64_t j) {
      if (!is_end(j) || !is_nearest(j)) return;
      if (!search.names_parents()) atomic_min(s.end + (-1 - load_relaxed(roots + j)), int32_t(j));
      atomic_max(&s.control->reach, search.distance_of(load_relaxed(s.label + j)));
    });
    team.sync();
    const int64_t farthest = load_relaxed(&s.control->reach);
    reach = move_prices_up_to(team, p, search, farthest, limit);
    limited = reach < farthest;
  }
  const auto is_chosen = [&](int64_t j) {
    if (!is_end(j) || search.distance_of(load_relaxed(s.label + j)) > reach) return false;
    return search.names_parents() ? is_nearest(j)
                                  : load_relaxed(s.end + (-1 - load_relaxed(roots + j))) == j;
  };
  if (few) {
    const int64_t paths = team.sum(s.m, [&](int64_t j) {
      if (!is_chosen(j)) return false;
      for (int32_t at = int32_t(j); at >= 0; at = load_relaxed(s.ancestor + at))
        assign_row(s, search, at);
      return true;
    });
    return {paths, reach, limited, too_wide};
  }
  const int64_t paths = team.sum(s.m, [&](int64_t j) {
    const bool chosen = is_chosen(j);
    store_relaxed(s.on_path + j, int32_t(chosen));
    return chosen;
  });
  // Columns on a path mark their ancestors at decreasing powers of two steps, until the whole path
  // is marked.
  for (int k = levels - 1; k-- > 0;) {
    const int32_t* const level = s.ancestor + k * s.m;
    team.each(s.m, [&](int64_t j) {
      if (load_relaxed(s.on_path + j) == 0) return;
      const int32_t up = load_relaxed(level + j);
      if (up >= 0) store_relaxed(s.on_path + up, 1);
    });
    team.sync();
  }
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.on_path + j) != 0) assign_row(s, search, j);
  });
  team.sync();
  return {paths, reach, limited, too_wide};
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_PATHS_H_
