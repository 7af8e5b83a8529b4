// Shortest paths from all free rows.
//
// By label correcting on a GPU, in the order of labels on a CPU: with whole numbers the shortest
// distances do not depend on the order of the steps, and neither does anything that follows. Of the
// shortest paths to a column the ones with the fewest hops count, and of these the one through the
// first row, where each column has an order of the rows of its own: else the first of many rows
// that are alike would get all columns into its tree, and a search give a single path.
#ifndef JAXMATCH_LARGE_CORE_SEARCH_H_
#define JAXMATCH_LARGE_CORE_SEARCH_H_

#include "core_problem.h"

namespace jaxmatch {

JAXMATCH_FN inline uint64_t pack_parent(int64_t hops, int64_t number) {
  return uint64_t(hops) << 32 | uint64_t(number);
}
JAXMATCH_FN inline uint64_t pack_row(int64_t hops, int64_t row, int64_t j) {
  return pack_parent(hops, place_of_row(row, j));
}
JAXMATCH_FN inline int64_t hops_of_parent(uint64_t parent) { return int64_t(parent >> 32); }
JAXMATCH_FN inline uint32_t number_of_parent(uint64_t parent) { return uint32_t(parent); }

// The arcs that leave a row, as labels see them. Those with at most `room` of slack lead to labels
// within the bound.
struct Arcs {
  int64_t base, room;
  int shift;
  int64_t row, mask;  // which bits name it

  JAXMATCH_FN int64_t end(int64_t slack, int64_t j) const {
    const int64_t from = base | (place_of_row(row, j) & mask);
    return lesser(from + (lesser(slack, kTooFar >> shift) << shift), kTooFar);
  }
};

// How a phase looks for paths. A column's label is its distance; below, if there is room, its hops;
// and below, if there is still room, the place of the row from which it has them: then the label
// names the column's parent, which is found by another sweep else.
struct Search {
  bool tight;    // along tight arcs only: no price will move
  bool spares;   // there are rows of zeros
  int hop_bits;  // 0: parents are found by another search
  int row_bits = 0;
  int64_t bound = kFar;  // no label exceeds it

  JAXMATCH_FN bool names_parents() const { return row_bits > 0; }
  JAXMATCH_FN bool is_bounded() const { return bound < kTooFar; }
  // From now on no distance exceeds `distance`; without a limit if it is negative.
  JAXMATCH_FN void set_bound(int64_t distance) {
    const int64_t room = kTooFar >> (hop_bits + 1);
    const bool fits = distance >= 0 && distance < room;
    row_bits = hop_bits > 0 && (tight || (fits && distance < room >> kRowBits)) ? kRowBits : 0;
    bound = fits && !tight ? ((distance + 1) << (hop_bits + row_bits)) - 1 : kFar;
  }
  JAXMATCH_FN Arcs arcs(int64_t label, int64_t row) const {
    const int64_t head = (label >> row_bits) + (hop_bits > 0);
    const int64_t room = tight              ? 0
                         : bound >= kTooFar ? INT64_MAX
                                            : ((bound >> row_bits) - head) >> hop_bits;
    return {head << row_bits, room, hop_bits + row_bits, row, names_parents() ? kMostRows - 1 : 0};
  }
  JAXMATCH_FN int64_t distance_of(int64_t label) const { return label >> (hop_bits + row_bits); }
  JAXMATCH_FN int64_t hops_of(int64_t label) const {
    return label >> row_bits & ((int64_t{1} << hop_bits) - 1);
  }
  // Nearer, or with fewer hops; through which row does not matter.
  JAXMATCH_FN bool is_before(int64_t label, int64_t other) const {
    return label >> row_bits < other >> row_bits;
  }
  // The same label with another number in the place of the row.
  JAXMATCH_FN int64_t rename(int64_t label, int64_t number) const {
    return names_parents() ? label >> row_bits << row_bits | number : label;
  }
};

template <class Team, class T>
JAXMATCH_FN void reset_labels(Team& team, const Core<T>& p) {
  const CoreState& s = p.s;
  team.each(s.m, [&](int64_t j) {
    put(s.label + j, kFar);
    put(s.parent + j, kNoParent);
  });
  team.leader([&] {
    s.control->most_hops = 0;
    s.control->too_wide = 0;
    s.control->spare_label = kFar;
    s.control->spare_parent = kNoParent;
  });
}

// With `refresh`, reduced costs of the cores are computed anew.
template <class Team, class T>
JAXMATCH_FN void begin_phase(Team& team, const Core<T>& p, bool refresh) {
  const CoreState& s = p.s;
  reset_labels(team, p);
  team.each(s.n, [&](int64_t i) {
    put(s.nearest + i, kFar);
    put(s.end + i, INT32_MAX);
  });
  team.leader([&] { s.control->reach = 0; });
  if (refresh) {
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

// Labels up to the bound. Returns the rounds that settle() took.
template <class Team, class T>
JAXMATCH_FN int64_t find_labels(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  const auto pass_on = [&](int64_t j, int64_t there) {
    if (there == kTooFar) put(&s.control->too_wide, 1);
    team.pass_on(s.label + j, there, s.row4col + j);
  };
  return team.template settle<PassedOn>(
      s.n, how.spares ? s.m : 0, [&](int64_t i) { return PassedOn{peek(s.col4row + i), kFar}; },
      [&] { return peek(&s.control->spare_label); },
      [&](int64_t, PassedOn& memo) -> int64_t {
        if (memo.col == kAbsent) return -1;
        const int64_t label = memo.col >= 0 ? peek(s.label + memo.col) : 0;
        if (!how.is_before(label, memo.label) || label > how.bound) return -1;
        memo.label = label;
        return label;
      },
      [&](Lanes g, int64_t i, int64_t label) {
        const Arcs arcs = how.arcs(label, i);
        p.for_each_slack(team, g, i, [&](int32_t j, int64_t slack) {
          if (slack > arcs.room) return;
          const int64_t there = arcs.end(slack, j);
          pass_on(j, there);
          if (!how.spares || peek(s.row4col + j) != kSpare) return;
          const int64_t news = how.rename(there, j);
          if (news < peek(&s.control->spare_label)) lower_to(&s.control->spare_label, news);
        });
      },
      [&](int64_t j, int64_t spare_label) {
        // From a spare column its row of zeros leads to every column.
        const int64_t slack = peek(&s.control->spare_price) - peek(s.v + j);
        const Arcs arcs = how.arcs(spare_label, kSpareRow);
        if (p.has_col(j) && slack <= arcs.room) pass_on(j, arcs.end(slack, j));
      });
}

// How many of the free columns have been reached. Leaves in control->most_hops in how many hops the
// farthest.
template <class Team, class T>
JAXMATCH_FN int64_t count_reached(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  return team.sum(s.m, [&](int64_t j) {
    const int64_t label = peek(s.label + j);
    const bool reached = peek(s.row4col + j) == kFree && label < kTooFar;
    if (reached) raise_to(&s.control->most_hops, how.hops_of(label));
    return reached;
  });
}

// Each column's parent, where labels do not name it: the first row from which it has its label.
// With hops in the labels, parents make no circle.
template <class Team, class T>
JAXMATCH_FN void set_parents(Team& team, const Core<T>& p, const Search& how) {
  const CoreState& s = p.s;
  const int64_t spare_label = how.spares ? peek(&s.control->spare_label) : kFar;
  const auto label_of = [&](int64_t i) -> int64_t {
    const int32_t j = peek(s.col4row + i);
    if (j == kAbsent) return -1;
    const int64_t label = j >= 0 ? peek(s.label + j) : 0;
    return label < kTooFar ? label : -1;
  };
  team.rows(s.n, label_of, [&](Lanes g, int64_t i, int64_t label) {
    const Arcs arcs = how.arcs(label, i);
    p.for_each_few(team, g, i, [&](const ClassCols& col, const ClassKeys& slack) {
      int64_t there[kBest];
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        const bool near = col.x[b] >= 0 && slack.x[b] <= arcs.room;
        there[b] = near ? peek(s.label + col.x[b]) : -1;
      }
      // Not its own column: an arc makes a label longer.
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        if (there[b] < 0 || arcs.end(slack.x[b], col.x[b]) != there[b]) continue;
        lower_to(s.parent + col.x[b], pack_row(0, i, col.x[b]));
      }
    });
  });
  if (spare_label < kTooFar) {
    team.each(s.m, [&](int64_t j) {
      if (!p.has_col(j)) return;
      const int64_t label = peek(s.label + j);
      const int64_t step = peek(&s.control->spare_price) - peek(s.v + j);
      if (label == spare_label && peek(s.row4col + j) == kSpare) {
        lower_to(&s.control->spare_parent, pack_parent(0, j));
      }
      if (label == how.arcs(spare_label, kSpareRow).end(step, j)) {
        lower_to(s.parent + j, pack_row(0, kSpareRow, j));
      }
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
        const int64_t hops = hops_of_parent(mine);
        if (mine == kNoParent || hops >= memo.label) return -1;
        memo.label = hops;
        return hops;
      },
      [&](Lanes g, int64_t i, int64_t hops) {
        const int32_t mine = peek(s.col4row + i);
        const int64_t d = mine >= 0 ? peek(s.label + mine) : 0;
        p.for_each_slack(team, g, i, [&](int32_t j, int64_t slack) {
          if (j == mine || d + slack != peek(s.label + j)) return;
          team.pass_on(s.parent + j, pack_row(hops + 1, i, j), s.row4col + j);
          if (!how.spares || peek(s.row4col + j) != kSpare) return;
          if (d + slack != peek(&s.control->spare_label)) return;
          const uint64_t entry = pack_parent(hops + 1, j);
          if (entry < peek(&s.control->spare_parent)) lower_to(&s.control->spare_parent, entry);
        });
      },
      [&](int64_t j, int64_t heard) {
        const int64_t from = peek(&s.control->spare_label), d = peek(s.label + j);
        const uint64_t entry = uint64_t(heard);
        if (!p.has_col(j) || number_of_parent(entry) == uint64_t(j)) return;
        if (from + peek(&s.control->spare_price) - peek(s.v + j) != d) return;
        team.pass_on(s.parent + j, pack_row(hops_of_parent(entry) + 1, kSpareRow, j),
                     s.row4col + j);
      });
}

// The row from which a column has its label.
JAXMATCH_FN inline uint32_t parent_row(const CoreState& s, const Search& how, int64_t j) {
  if (!how.names_parents()) {
    const uint64_t parent = peek(s.parent + j);
    return parent == kNoParent ? kNoRow : row_at_place(number_of_parent(parent), j);
  }
  const int64_t label = peek(s.label + j);
  return label >= kTooFar ? kNoRow : row_at_place(label & (kMostRows - 1), j);
}
// The spare column from which the rows of zeros have theirs.
JAXMATCH_FN inline uint32_t spare_entry(const CoreState& s, const Search& how) {
  if (!how.names_parents()) return number_of_parent(peek(&s.control->spare_parent));
  return uint32_t(peek(&s.control->spare_label) & (kMostRows - 1));
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_CORE_SEARCH_H_
