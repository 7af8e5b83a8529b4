// Shortest paths from all free rows.
//
// The GPU uses label correcting, the CPU Dijkstra's order. Distances are integers, so they and
// everything derived from them are independent of the order of relaxations. Of equally short paths
// to a column, the one with the fewest hops wins, then the one whose last row comes first. The
// order of rows differs from column to column. With one order for all columns, the first of many
// identical rows would get all columns into its tree, and a search would find a single path.
#ifndef JAXMATCH_LARGE_CORE_SEARCH_H_
#define JAXMATCH_LARGE_CORE_SEARCH_H_

#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

JAXMATCH_DEVICE inline uint64_t pack_parent(int64_t hops, int64_t number) {
  return uint64_t(hops) << 32 | uint64_t(number);
}
JAXMATCH_DEVICE inline uint64_t pack_row(int64_t hops, int64_t row, int64_t j) {
  return pack_parent(hops, place_of_row(row, j));
}
JAXMATCH_DEVICE inline int64_t hops_of_parent(uint64_t parent) { return int64_t(parent >> 32); }
JAXMATCH_DEVICE inline uint32_t number_of_parent(uint64_t parent) { return uint32_t(parent); }

// Parameters of a search. A label packs the distance of a column in its high bits. If bits are
// left, the number of hops follows. If bits are still left, the place of the parent row is in the
// lowest bits. If labels do not contain the parent, a separate pass finds it.
struct Search {
  bool tight;    // use tight arcs only; then no price moves
  bool spares;   // there are dummy rows
  int hop_bits;  // bits for the number of hops; 0: a second search finds the parents
  int row_bits = 0;
  int64_t bound = kFar;  // no label exceeds it

  JAXMATCH_DEVICE bool names_parents() const { return row_bits > 0; }
  JAXMATCH_DEVICE bool is_bounded() const { return bound < kTooFar; }
  // Bounds all distances by `distance`. There is no bound if `distance` is negative.
  JAXMATCH_DEVICE void set_bound(int64_t distance) {
    const int64_t limit = kTooFar >> (hop_bits + 1);
    const bool fits = distance >= 0 && distance < limit;
    row_bits = hop_bits > 0 && (tight || (fits && distance < limit >> kRowBits)) ? kRowBits : 0;
    bound = fits && !tight ? ((distance + 1) << (hop_bits + row_bits)) - 1 : kFar;
  }
  // The greatest slack with which an arc from a free row leads to a label within the bound.
  JAXMATCH_DEVICE int64_t most_slack() const {
    if (tight) return 0;
    return bound < kTooFar ? ((bound >> row_bits) - (hop_bits > 0)) >> hop_bits : INT64_MAX;
  }
  // The label of a row's column, with one more hop and without the parent row. Each arc of the row
  // adds its step() to it.
  JAXMATCH_DEVICE int64_t start(int64_t label) const {
    return ((label >> row_bits) + (hop_bits > 0)) << row_bits;
  }
  JAXMATCH_DEVICE int64_t step(int64_t slack, int64_t row, int64_t j) const {
    const int shift = hop_bits + row_bits;
    return (lesser(slack, kTooFar >> shift) << shift) +
           (names_parents() ? place_of_row(row, j) : 0);
  }
  JAXMATCH_DEVICE int64_t end(int64_t start, int64_t step) const {
    return lesser(start + step, kTooFar);
  }
  JAXMATCH_DEVICE int64_t distance_of(int64_t label) const {
    return label >> (hop_bits + row_bits);
  }
  JAXMATCH_DEVICE int64_t hops_of(int64_t label) const {
    return label >> row_bits & ((int64_t{1} << hop_bits) - 1);
  }
  // True if `label` has a smaller distance, or the same distance and fewer hops. The parent row
  // does not matter.
  JAXMATCH_DEVICE bool is_before(int64_t label, int64_t other) const {
    return label >> row_bits < other >> row_bits;
  }
  // The same label with another number in the bits of the parent row.
  JAXMATCH_DEVICE int64_t rename(int64_t label, int64_t number) const {
    return names_parents() ? label >> row_bits << row_bits | number : label;
  }
};

// Which arcs a search can use, and the encoding of their steps, i.e. of what an arc adds to a
// label. Cached arcs serve every search of the same form.
struct ArcForm {
  int64_t most_slack = -1;
  int hop_bits = 0, row_bits = 0;

  JAXMATCH_DEVICE static ArcForm of(const Search& search) {
    return {search.most_slack(), search.hop_bits, search.row_bits};
  }
  JAXMATCH_DEVICE bool operator==(const ArcForm& other) const {
    return most_slack == other.most_slack && hop_bits == other.hop_bits &&
           row_bits == other.row_bits;
  }
};

// Positions of labels during a search. They are stored by column, or by the row that the column is
// matched to. If they are stored by row, the threads of neighbouring rows load neighbouring labels.
struct LabelLayout {
  const LargeState& s;
  bool by_rows;

  JAXMATCH_DEVICE int64_t* labels() const { return by_rows ? s.label_by_position : s.label; }
  JAXMATCH_DEVICE int64_t position_of(int64_t j) const {
    if (!by_rows) return j;
    const int32_t i = load_relaxed(s.row4col + j);
    return i >= 0 ? i : s.n + j;
  }
  // True if the column at this position is matched to a row.
  JAXMATCH_DEVICE bool is_of_row(int64_t position) const { return by_rows && position < s.n; }
  JAXMATCH_DEVICE int64_t column_at(int64_t position) const {
    if (!by_rows) return position;
    return is_of_row(position) ? load_relaxed(s.col4row + position) : position - s.n;
  }
};

// Calls f(column, step) for the usable arcs in the candidate set of row i.
template <class T, class F>
JAXMATCH_DEVICE void for_each_core_arc(const LargeProblem<T>& p, const Search& search, Lanes g,
                                       int64_t i, F f) {
  const int64_t most = search.most_slack();
  p.for_each_candidate(g, i, [&](int32_t j, int64_t slack) {
    if (slack <= most) f(j, search.step(slack, i, j));
  });
}

// Resets all labels and parents. Neither this function nor begin_phase() ends with a barrier.
template <class Team, class T>
JAXMATCH_DEVICE void reset_labels(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.label + j, kFar);
    store_relaxed(s.parent + j, kNoParent);
  });
  if (team.label_layout(s).by_rows)
    team.each(s.n + s.m, [&](int64_t k) { store_relaxed(s.label_by_position + k, kFar); });
  team.leader([&] {
    s.control->most_hops = 0;
    s.control->too_wide = 0;
    s.control->spare_label = kFar;
    s.control->spare_parent = kNoParent;
  });
}

template <class Team, class T>
JAXMATCH_DEVICE void begin_phase(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  reset_labels(team, p);
  team.each(s.n, [&](int64_t i) {
    store_relaxed(s.nearest + i, kFar);
    store_relaxed(s.end + i, INT32_MAX);
  });
  team.leader([&] { s.control->reach = 0; });
}

// State that a row keeps during relaxation. `label` is the last label that the row propagated.
struct RowMemo {
  int32_t position;  // position of the column's label; a Partner if the row has no column
  int64_t label;
};

// Computes all labels up to the bound. Returns the number of rounds of relax_to_fixed_point().
template <class Team, class T>
JAXMATCH_DEVICE int64_t find_labels(Team& team, const LargeProblem<T>& p, const Search& search) {
  const LargeState& s = p.s;
  const LabelLayout layout = team.label_layout(s);
  int64_t* const labels = layout.labels();
  const auto propagate_min = [&](int64_t position, int64_t there) {
    if (there == kTooFar) store_relaxed(&s.control->too_wide, 1);
    // Only PoolTeam uses the last argument, the row matched to the column. There positions are
    // columns.
    team.propagate_min(labels + position, there, s.row4col + (layout.by_rows ? 0 : position));
  };
  const int64_t rounds = team.template relax_to_fixed_point<RowMemo>(
      s.n, search.spares ? s.m : 0,
      [&](int64_t i) {
        const int32_t j = load_relaxed(s.col4row + i);
        return RowMemo{j >= 0 ? int32_t(layout.position_of(j)) : j, kFar};
      },
      [&] { return load_relaxed(&s.control->spare_label); },
      [&](const RowMemo& memo) {
        if (memo.position == kAbsent) return kFar;
        return memo.position >= 0 ? load_relaxed(labels + memo.position) : 0;
      },
      [&](RowMemo& memo, int64_t label) -> int64_t {
        if (!search.is_before(label, memo.label) || label > search.bound) return -1;
        memo.label = label;
        return label;
      },
      [&](Lanes g, int64_t i, int64_t label) {
        const int64_t start = search.start(label);
        team.for_each_arc(p, search, g, i, [&](int64_t position, int64_t step) {
          const int64_t there = search.end(start, step);
          if (there > search.bound) return;
          propagate_min(position, there);
          if (!search.spares || layout.is_of_row(position)) return;
          const int64_t j = layout.column_at(position);
          if (load_relaxed(s.row4col + j) != kSpare) return;
          const int64_t entry = search.rename(there, j);
          if (entry < load_relaxed(&s.control->spare_label))
            atomic_min(&s.control->spare_label, entry);
        });
      },
      [&](int64_t j, int64_t spare_label) {
        // The dummy row of a spare column has an arc to every column.
        const int64_t slack = load_relaxed(&s.control->spare_price) - load_relaxed(s.v + j);
        if (!p.has_col(j) || slack > search.most_slack()) return;
        const int64_t there =
            search.end(search.start(spare_label), search.step(slack, kSpareRow, j));
        if (there <= search.bound) propagate_min(layout.position_of(j), there);
      });
  if (layout.by_rows) {
    team.each(s.m, [&](int64_t j) {
      store_relaxed(s.label + j, load_relaxed(labels + layout.position_of(j)));
    });
    team.sync();
  }
  return rounds;
}

// Returns the number of free columns reached. Stores the greatest number of hops to a free column
// in control->most_hops.
template <class Team, class T>
JAXMATCH_DEVICE int64_t count_reached(Team& team, const LargeProblem<T>& p, const Search& search) {
  const LargeState& s = p.s;
  return team.sum(s.m, [&](int64_t j) {
    const int64_t label = load_relaxed(s.label + j);
    const bool reached = load_relaxed(s.row4col + j) == kFree && label < kTooFar;
    if (reached) atomic_max(&s.control->most_hops, search.hops_of(label));
    return reached;
  });
}

// Finds the parent of each column if labels do not contain it. The parent is the first row that
// yields the label. Parents form no cycle, because every arc adds a hop to the label.
template <class Team, class T>
JAXMATCH_DEVICE void set_parents(Team& team, const LargeProblem<T>& p, const Search& search) {
  const LargeState& s = p.s;
  const LabelLayout layout = team.label_layout(s);
  const int64_t spare_label = search.spares ? load_relaxed(&s.control->spare_label) : kFar;
  const auto label_of = [&](int64_t i) -> int64_t {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j == kAbsent) return -1;
    const int64_t label = j >= 0 ? load_relaxed(s.label + j) : 0;
    return label < kTooFar ? label : -1;
  };
  team.rows(s.n, label_of, [&](Lanes g, int64_t i, int64_t label) {
    const int64_t start = search.start(label);
    team.for_each_arc(p, search, g, i, [&](int64_t position, int64_t step) {
      const int64_t j = layout.column_at(position);
      // The column is never the row's own partner, because every arc increases the label.
      if (search.end(start, step) == load_relaxed(s.label + j))
        atomic_min(s.parent + j, pack_row(0, i, j));
    });
  });
  if (spare_label < kTooFar) {
    team.each(s.m, [&](int64_t j) {
      if (!p.has_col(j)) return;
      const int64_t label = load_relaxed(s.label + j);
      const int64_t slack = load_relaxed(&s.control->spare_price) - load_relaxed(s.v + j);
      if (label == spare_label && load_relaxed(s.row4col + j) == kSpare) {
        atomic_min(&s.control->spare_parent, pack_parent(0, j));
      }
      if (label == search.end(search.start(spare_label), search.step(slack, kSpareRow, j))) {
        atomic_min(s.parent + j, pack_row(0, kSpareRow, j));
      }
    });
  }
  team.sync();
}

// Finds parents if labels have no bits for hops. The parent of a column is the first row that
// yields the column's distance with the fewest hops.
template <class Team, class T>
JAXMATCH_DEVICE int64_t find_parents(Team& team, const LargeProblem<T>& p, const Search& search) {
  const LargeState& s = p.s;
  const LabelLayout layout = team.label_layout(s);
  // Parents are stored by column, so in this search the memo's position is the column.
  return team.template relax_to_fixed_point<RowMemo>(
      s.n, search.spares ? s.m : 0,
      [&](int64_t i) { return RowMemo{load_relaxed(s.col4row + i), kFar}; },
      [&] {
        const uint64_t entry = load_relaxed(&s.control->spare_parent);
        return entry == kNoParent ? kFar : int64_t(entry);
      },
      [&](const RowMemo& memo) {
        if (memo.position == kAbsent) return kFar;
        const uint64_t mine = memo.position >= 0 ? load_relaxed(s.parent + memo.position) : 0;
        return mine == kNoParent ? kFar : hops_of_parent(mine);
      },
      [&](RowMemo& memo, int64_t hops) -> int64_t {
        if (hops >= memo.label) return -1;
        memo.label = hops;
        return hops;
      },
      [&](Lanes g, int64_t i, int64_t hops) {
        const int32_t mine = load_relaxed(s.col4row + i);
        const int64_t d = mine >= 0 ? load_relaxed(s.label + mine) : 0;
        team.for_each_arc(p, search, g, i, [&](int64_t position, int64_t step) {
          const int64_t j = layout.column_at(position);
          const int64_t there = search.end(d, step);  // here a label is a plain distance
          if (j == mine || there != load_relaxed(s.label + j)) return;
          team.propagate_min(s.parent + j, pack_row(hops + 1, i, j), s.row4col + j);
          if (!search.spares || load_relaxed(s.row4col + j) != kSpare) return;
          if (there != load_relaxed(&s.control->spare_label)) return;
          const uint64_t entry = pack_parent(hops + 1, j);
          if (entry < load_relaxed(&s.control->spare_parent))
            atomic_min(&s.control->spare_parent, entry);
        });
      },
      [&](int64_t j, int64_t entry_word) {
        const int64_t from = load_relaxed(&s.control->spare_label), d = load_relaxed(s.label + j);
        const uint64_t entry = uint64_t(entry_word);
        if (!p.has_col(j) || number_of_parent(entry) == uint64_t(j)) return;
        if (from + load_relaxed(&s.control->spare_price) - load_relaxed(s.v + j) != d) return;
        team.propagate_min(s.parent + j, pack_row(hops_of_parent(entry) + 1, kSpareRow, j),
                           s.row4col + j);
      });
}

// The parent row of a column.
JAXMATCH_DEVICE inline uint32_t parent_row(const LargeState& s, const Search& search, int64_t j) {
  if (!search.names_parents()) {
    const uint64_t parent = load_relaxed(s.parent + j);
    return parent == kNoParent ? kNoRow : row_at_place(number_of_parent(parent), j);
  }
  const int64_t label = load_relaxed(s.label + j);
  return label >= kTooFar ? kNoRow : row_at_place(label & (kMostRows - 1), j);
}
// The spare column through which the shortest path enters the dummy rows.
JAXMATCH_DEVICE inline uint32_t spare_entry(const LargeState& s, const Search& search) {
  if (!search.names_parents()) return number_of_parent(load_relaxed(&s.control->spare_parent));
  return uint32_t(load_relaxed(&s.control->spare_label) & (kMostRows - 1));
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_SEARCH_H_
