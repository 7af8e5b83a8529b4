// Augmenting along many disjoint shortest paths at once.
//
// Distances of all columns from all free rows, by label correcting: with whole numbers the shortest
// distances do not depend on the order of the steps, and neither does anything that follows. Prices
// then move as in the Hungarian method; afterwards every arc of a shortest path is tight, and each
// tree that holds a free column gives one path.
#ifndef JAXMATCH_LARGE_CORE_PATHS_H_
#define JAXMATCH_LARGE_CORE_PATHS_H_

#include "core_select.h"

namespace jaxmatch {

constexpr int64_t kFewHops = 16;
constexpr uint32_t kSpareRow = 0x7fffffff;  // stands for all rows of zeros

JAXMATCH_FN inline uint64_t pack_parent(int64_t hops, int64_t row) {
  return uint64_t(hops) << 32 | uint64_t(row);
}
JAXMATCH_FN inline int64_t hops_of(uint64_t parent) { return int64_t(parent >> 32); }
JAXMATCH_FN inline uint32_t row_of_parent(uint64_t parent) { return uint32_t(parent); }

// How a phase looks for paths.
struct Search {
  bool dense;   // over all costs, not only the core
  bool tight;   // along tight arcs only: no price will move
  bool spares;  // there are rows of zeros
  int shift;    // a label is a distance, and hops in so many bits below; 0: no room for hops
  int64_t bound = kFar;  // no label exceeds it

  JAXMATCH_FN bool is_bounded() const { return tight || bound < kTooFar; }
  // No distance exceeds it; without a limit if it is negative.
  JAXMATCH_FN void set_bound(int64_t distance) {
    const bool fits = distance >= 0 && distance < kTooFar >> (shift + 1);
    bound = fits ? ((distance + 1) << shift) - 1 : kFar;
  }
  // The greatest slack of an arc behind which a label does not exceed the bound.
  JAXMATCH_FN int64_t room(int64_t label) const {
    if (tight) return 0;
    return bound >= kTooFar ? INT64_MAX : (bound - label - (shift > 0)) >> shift;
  }
  JAXMATCH_FN int64_t hops_of(int64_t label) const { return label & ((int64_t{1} << shift) - 1); }
  // The label at the end of an arc.
  JAXMATCH_FN int64_t extend(int64_t label, int64_t slack) const {
    return lesser(label + lesser(slack, kTooFar >> shift) * (int64_t{1} << shift) + (shift > 0),
                  kTooFar);
  }
  JAXMATCH_FN int64_t distance_of(int64_t label) const { return label >> shift; }
};

template <class Team, class T>
JAXMATCH_FN void begin_phase(Team& team, const Core<T>& p, const Search& how, bool refresh) {
  const CoreState& s = p.s;
  team.each(s.m, [&](int64_t j) {
    put(s.label + j, kFar);
    put(s.parent + j, kNoParent);
  });
  team.each(s.n, [&](int64_t i) {
    put(s.nearest + i, kFar);
    put(s.end + i, INT32_MAX);
  });
  team.leader([&] {
    s.control->reach = 0;
    s.control->most_hops = 0;
    s.control->too_wide = 0;
    s.control->spare_label = kFar;
    s.control->spare_parent = kNoParent;
  });
  if (refresh && !how.dense) {
    team.rows(s.n, [&](Lanes g, int64_t i) {
      if (!p.has_row(i)) return;
      const int64_t u = peek(s.u + i);
      const auto reduced = team.reduced_core(s, i);
      for (int c = g.lane; c < kClasses; c += g.kCount) {
        const ClassCols col = s.core_col[i * kClasses + c];
        ClassKeys key = s.core_key[i * kClasses + c];
        JAXMATCH_UNROLL
        for (int b = 0; b < kBest; ++b) key.x[b] -= u + peek(s.v + greater(col.x[b], 0));
        reduced.cols[c] = col;
        reduced.slack[c] = key;
      }
    });
  }
  team.sync();
}

// What a row remembers while labels settle: its column, and what it has passed on.
struct PassedOn {
  int32_t col;
  int64_t label;
};

// Shortest distances, and of the shortest paths the fewest hops. Returns the number of rounds.
template <class Team, class T>
JAXMATCH_FN int64_t find_labels(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  const auto pass_on = [&](int64_t j, int64_t label, int64_t slack) {
    const int64_t there = how.extend(label, slack);
    if (there == kTooFar) put(&s.control->too_wide, 1);
    lower_to(s.label + j, there);
    return there;
  };
  return team.template settle<PassedOn>(
      s.n, how.spares ? s.m : 0, [&](int64_t i) { return PassedOn{peek(s.col4row + i), kFar}; },
      [&] { return peek(&s.control->spare_label); },
      [&](int64_t, PassedOn& memo) -> int64_t {
        if (memo.col == kAbsent) return -1;
        const int64_t label = memo.col >= 0 ? peek(s.label + memo.col) : 0;
        if (label >= lesser(memo.label, how.bound)) return -1;
        memo.label = label;
        return label;
      },
      [&](Lanes g, int64_t i, int64_t label) {
        const int64_t room = how.room(label);
        p.for_each_slack(team, g, i, how.dense, [&](int32_t j, int64_t slack) {
          if (slack > room) return;
          const int64_t there = pass_on(j, label, slack);
          if (how.spares && peek(s.row4col + j) == kSpare) {
            lower_to(&s.control->spare_label, there);
          }
        });
      },
      [&](int64_t j, int64_t spare_label) {
        // From a spare column its row of zeros leads to every column.
        const int64_t slack = peek(&s.control->spare_price) - peek(s.v + j);
        if (p.has_col(j) && slack <= how.room(spare_label)) pass_on(j, spare_label, slack);
      });
}

// How many of the free columns have been reached.
template <class Team, class T>
JAXMATCH_FN int64_t count_reached(Team& team, const Core<T>& p) {
  const CoreState& s = p.s;
  return team.sum(
      s.m, [&](int64_t j) { return peek(s.row4col + j) == kFree && peek(s.label + j) < kTooFar; });
}

// Each column's parent: the first row from which it has its label. With hops in the labels, parents
// make no circle.
template <class Team, class T>
JAXMATCH_FN void set_parents(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  const int64_t spare_label = how.spares ? peek(&s.control->spare_label) : kFar;
  const auto label_of = [&](int64_t i) -> int64_t {
    const int32_t j = peek(s.col4row + i);
    if (j == kAbsent) return -1;
    const int64_t label = j >= 0 ? peek(s.label + j) : 0;
    return label <= how.bound && label < kTooFar ? label : -1;
  };
  team.rows(s.n, label_of, [&](Lanes g, int64_t i, int64_t label) {
    const int64_t room = how.room(label);
    p.for_each_few(team, g, i, how.dense, [&](const ClassCols& col, const ClassKeys& slack) {
      int64_t there[kBest];
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        const bool near = col.x[b] >= 0 && slack.x[b] <= room;
        there[b] = near ? peek(s.label + col.x[b]) : -1;
      }
      // Not its own column: an arc makes a label longer.
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        if (there[b] < 0 || how.extend(label, slack.x[b]) != there[b]) continue;
        lower_to(s.parent + col.x[b], pack_parent(0, i));
      }
    });
  });
  team.each(s.m, [&](int64_t j) {
    const int64_t label = peek(s.label + j);
    if (peek(s.row4col + j) == kFree && label < kTooFar) {
      raise_to(&s.control->most_hops, how.hops_of(label));
    }
  });
  if (spare_label < kTooFar) {
    team.each(s.m, [&](int64_t j) {
      if (!p.has_col(j)) return;
      const int64_t label = peek(s.label + j);
      const int64_t step = peek(&s.control->spare_price) - peek(s.v + j);
      if (label == spare_label && peek(s.row4col + j) == kSpare) {
        lower_to(&s.control->spare_parent, pack_parent(0, j));
      }
      if (how.tight && step != 0) return;
      if (label == how.extend(spare_label, step)) lower_to(s.parent + j, pack_parent(0, kSpareRow));
    });
  }
  team.sync();
}

// The same where labels have no room for hops: of the rows from which a column is as near as it can
// be, the first that is the fewest hops away.
template <class Team, class T>
JAXMATCH_FN int64_t find_parents(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  return team.template settle<PassedOn>(
      s.n, how.spares ? s.m : 0, [&](int64_t i) { return PassedOn{peek(s.col4row + i), kFar}; },
      [&] {
        const uint64_t entry = peek(&s.control->spare_parent);
        return entry == kNoParent ? kFar : int64_t(entry);
      },
      [&](int64_t, PassedOn& memo) -> int64_t {
        if (memo.col == kAbsent) return -1;
        const uint64_t mine = memo.col >= 0 ? peek(s.parent + memo.col) : 0;
        const int64_t hops = hops_of(mine);
        if (mine == kNoParent || hops >= memo.label) return -1;
        memo.label = hops;
        return hops;
      },
      [&](Lanes g, int64_t i, int64_t hops) {
        const int32_t mine = peek(s.col4row + i);
        const int64_t d = mine >= 0 ? peek(s.label + mine) : 0;
        const uint64_t parent = pack_parent(hops + 1, i);
        p.for_each_slack(team, g, i, how.dense, [&](int32_t j, int64_t slack) {
          if (j == mine || d + slack != peek(s.label + j)) return;
          lower_to(s.parent + j, parent);
          if (!how.spares || peek(s.row4col + j) != kSpare) return;
          if (d + slack != peek(&s.control->spare_label)) return;
          lower_to(&s.control->spare_parent, pack_parent(hops + 1, j));
        });
      },
      [&](int64_t j, int64_t heard) {
        const int64_t from = peek(&s.control->spare_label), d = peek(s.label + j);
        const uint64_t entry = uint64_t(heard);
        if (!p.has_col(j) || row_of_parent(entry) == uint64_t(j)) return;
        if (from + peek(&s.control->spare_price) - peek(s.v + j) != d) return;
        lower_to(s.parent + j, pack_parent(hops_of(entry) + 1, kSpareRow));
      });
}

// The prices within reach of the free rows, so that all shortest paths up to there become tight;
// and what that makes of the reduced costs.
template <class Team, class T>
JAXMATCH_FN void move_prices(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  const int64_t reach = peek(&s.control->reach);
  if (reach == 0) return;
  const int64_t spare_distance = how.distance_of(peek(&s.control->spare_label));
  const auto fall_of = [&](int64_t j) {
    return greater(reach - how.distance_of(peek(s.label + j)), int64_t{0});
  };
  const auto rise_of = [&](int64_t i) -> int64_t {
    const int32_t j = peek(s.col4row + i);
    return j == kAbsent ? -1 : j >= 0 ? fall_of(j) : reach;
  };
  team.each(s.n, [&](int64_t i) {
    const int64_t rise = rise_of(i);
    if (rise > 0) put(s.u + i, peek(s.u + i) + rise);
  });
  team.each(s.m, [&](int64_t j) {
    const int64_t fall = fall_of(j);
    if (fall > 0) put(s.v + j, peek(s.v + j) - fall);
  });
  if (!how.dense) {
    team.rows(s.n, rise_of, [&](Lanes g, int64_t i, int64_t rise) {
      const ReducedCore reduced = team.reduced_core(s, i);
      for (int c = g.lane; c < kClasses; c += g.kCount) {
        const ClassCols col = reduced.cols[c];
        ClassKeys slack = reduced.slack[c];
        JAXMATCH_UNROLL
        for (int b = 0; b < kBest; ++b) slack.x[b] += fall_of(greater(col.x[b], 0)) - rise;
        reduced.slack[c] = slack;
      }
    });
  }
  team.sync();
  team.leader([&] {
    if (spare_distance < reach) s.control->spare_price -= reach - spare_distance;
  });
}

// The column one step closer to the root of its tree: the one that the parent row has now, or the
// root itself, as −1 − row.
JAXMATCH_FN inline int32_t step_up(const CoreState& s, int64_t j) {
  const uint64_t parent = peek(s.parent + j);
  if (parent == kNoParent) return -1;
  const uint32_t row = row_of_parent(parent);
  if (row == kSpareRow) return int32_t(row_of_parent(peek(&s.control->spare_parent)));
  const int32_t col = peek(s.col4row + row);
  return col >= 0 ? col : -1 - int32_t(row);
}

// All columns' ancestors 1, 2, 4 ... steps up, until all are roots, or only one step up. Returns
// the number of levels; unless it is one, the roots are in the last level.
template <class Team>
JAXMATCH_FN int find_ancestors(Team& team, const CoreState& s, bool one) {
  const auto count = [&](int32_t* level, auto find) {
    return team.sum(s.m, [&](int64_t j) {
      const int32_t up = find(j);
      put(level + j, up);
      return up >= 0;
    });
  };
  int levels = 1;
  int64_t left = count(s.ancestor, [&](int64_t j) { return step_up(s, j); });
  for (; !one && left > 0 && levels < kLevels; ++levels) {
    const int32_t* const below = s.ancestor + (levels - 1) * s.m;
    left = count(s.ancestor + levels * s.m, [&](int64_t j) {
      const int32_t up = peek(below + j);
      return up >= 0 ? peek(below + up) : up;
    });
  }
  return levels;
}

// Column j gets the row from which its path comes.
JAXMATCH_FN inline void flip(const CoreState& s, int64_t j) {
  const uint32_t row = row_of_parent(peek(s.parent + j));
  put(s.row4col + j, row == kSpareRow ? int32_t(kSpare) : int32_t(row));
  if (row != kSpareRow) put(s.col4row + row, int32_t(j));
}

// Each tree's nearest free column ends its path; prices within the farthest of them move. Returns
// the number of paths.
//
// Paths of a few hops are walked, by a thread each. Longer ones are found and turned in steps that
// double.
template <class Team, class T>
JAXMATCH_FN int64_t augment(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  const bool few = how.shift > 0 && peek(&s.control->most_hops) <= kFewHops;
  const int levels = find_ancestors(team, s, few);
  int32_t* const roots = few ? s.on_path : s.ancestor + (levels - 1) * s.m;
  const auto is_end = [&](int64_t j) {
    return peek(s.row4col + j) == kFree && peek(s.label + j) < kTooFar &&
           peek(s.parent + j) != kNoParent;
  };
  team.each(s.m, [&](int64_t j) {
    if (!is_end(j)) return;
    if (few) {
      int32_t up = int32_t(j);
      while (up >= 0) up = peek(s.ancestor + up);
      put(roots + j, up);
    }
    lower_to(s.nearest + (-1 - peek(roots + j)), peek(s.label + j));
  });
  team.sync();
  team.each(s.m, [&](int64_t j) {
    if (!is_end(j)) return;
    const int64_t label = peek(s.label + j);
    const int32_t root = -1 - peek(roots + j);
    if (label != peek(s.nearest + root)) return;
    lower_to(s.end + root, int32_t(j));
    if (!how.tight) raise_to(&s.control->reach, how.distance_of(label));
  });
  team.sync();
  if (!how.tight) move_prices(team, p, how);
  const auto is_chosen = [&](int64_t j) {
    return is_end(j) && peek(s.end + (-1 - peek(roots + j))) == j;
  };
  if (few) {
    return team.sum(s.m, [&](int64_t j) {
      if (!is_chosen(j)) return false;
      for (int32_t at = int32_t(j); at >= 0; at = peek(s.ancestor + at)) flip(s, at);
      return true;
    });
  }
  const int64_t paths = team.sum(s.m, [&](int64_t j) {
    const bool chosen = is_chosen(j);
    put(s.on_path + j, int32_t(chosen));
    return chosen;
  });
  // Who is on a path marks ancestors ever fewer steps up: in the end all of them are marked.
  for (int k = levels - 1; k-- > 0;) {
    const int32_t* const level = s.ancestor + k * s.m;
    team.each(s.m, [&](int64_t j) {
      if (peek(s.on_path + j) == 0) return;
      const int32_t up = peek(level + j);
      if (up >= 0) put(s.on_path + up, 1);
    });
    team.sync();
  }
  team.each(s.m, [&](int64_t j) {
    if (peek(s.on_path + j) != 0) flip(s, j);
  });
  team.sync();
  return paths;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_CORE_PATHS_H_
