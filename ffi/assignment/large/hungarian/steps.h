// The steps of Date and Nagi, GPU-accelerated Hungarian algorithms for the linear assignment
// problem, Parallel Computing 57 (2016), for both of their variants: classical and alternating
// tree.
//
// Algorithm numbers are the paper's. There are two differences from the paper:
// - The paper's threads race for a vertex. Here ties have a fixed winner, so that runs are
//   repeatable bit for bit: among rows the first in the column's own order (see place_of_row()),
//   among columns the least.
// - In a dual update by theta, the paper changes the duals of all rows and columns by half of
//   theta. Here only the rows and columns of the trees change, by all of theta. The resulting duals
//   are equal up to a shift, and stay integers.
#ifndef JAXMATCH_LARGE_HUNGARIAN_STEPS_H_
#define JAXMATCH_LARGE_HUNGARIAN_STEPS_H_

#include "assignment/large/hungarian/passes.h"

namespace jaxmatch::assignment::large {

constexpr int kNoStep = INT32_MAX;

// Algorithm 1: subtracts row minima, then column minima. A wide problem (more columns than rows)
// keeps its column duals at zero. Returns the number of rows without any allowed pair.
template <class Team, class T>
JAXMATCH_DEVICE int64_t reduce(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.v + j, int64_t{0});
    store_relaxed(s.row4col + j, int32_t(p.has_col(j) ? kFree : kAbsent));
  });
  team.each(s.n, [&](int64_t i) {
    store_relaxed(s.col4row + i, int32_t(p.has_row(i) ? kFree : kAbsent));
    store_relaxed(s.u + i, kFar);
  });
  team.sync();
  publish_prices(team, p);
  find_least_of_all(team, p, s.v_real, [u = s.u](int64_t i, int64_t x) { atomic_min(u + i, x); });
  team.sync();
  const int64_t isolated =
      team.sum(s.n, [&](int64_t i) { return p.has_row(i) && load_relaxed(s.u + i) == kFar; });
  if (isolated > 0 || load_relaxed(&s.control->rows) < load_relaxed(&s.control->cols))
    return isolated;
  team.each(s.m, [&](int64_t j) { store_relaxed(s.label + j, kFar); });
  team.sync();
  team.row_groups(s.m, [&](int64_t j, int64_t first, int64_t step) {
    atomic_min(s.label + j, least_of_column(p, j, first, step));
  });
  team.sync();
  team.each(s.m, [&](int64_t j) {
    const int64_t least = load_relaxed(s.label + j);
    if (least < kFar) store_relaxed(s.v + j, least);
  });
  team.sync();
  return 0;
}

// Algorithm 2; also resets all columns to inactive. Every free row becomes the root of a tree.
// Returns the number of free rows, i.e. the length of the first frontier.
template <class Team, class T>
JAXMATCH_DEVICE int64_t check_optimality(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.leader([&] { s.control->frontier[0] = s.control->frontier[1] = 0; });
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.on_path + j, int32_t(kInactive));
    store_relaxed(s.parent + j, kNoParent);
    store_relaxed(s.label + j, kFar);
  });
  team.sync();
  return team.sum(s.n, [&](int64_t i) {
    const bool root = load_relaxed(s.col4row + i) == kFree;
    store_relaxed(s.end + i, kNoStep);
    store_relaxed(s.in_tree + i, int32_t(root));
    if (root) store_relaxed(s.frontier + atomic_add(&s.control->frontier[0]), int32_t(i));
    return root;
  });
}

// Contraction: columns reached in this level become covered, and their rows join the next frontier.
// A free column that is reached ends a path; control->ends is then set. Returns the length of the
// next frontier.
template <class Team, class T, class Reached>
JAXMATCH_DEVICE int64_t contract(Team& team, const LargeProblem<T>& p, int64_t level,
                                 Reached reached) {
  const LargeState& s = p.s;
  int32_t* const next = s.frontier + ((level + 1) & 1) * s.n;
  team.leader([&] { s.control->frontier[level & 1] = 0; });
  return team.sum(s.m, [&](int64_t j) {
    const bool is_new = reached(j);  // all three loads in flight together
    const int32_t mark = load_relaxed(s.on_path + j), i = load_relaxed(s.row4col + j);
    if (mark != kInactive || !is_new) return 0;
    if (i < 0) {
      store_relaxed(s.on_path + j, int32_t(kReverse));
      store_relaxed(&s.control->ends, 1);
      return 0;
    }
    store_relaxed(s.on_path + j, int32_t(kCovered));
    store_relaxed(s.in_tree + i, 1);
    store_relaxed(next + atomic_add(&s.control->frontier[(level + 1) & 1]), i);
    return 1;
  });
}

// Algorithm 3, expansion of the classical variant, along the tight columns of the frontier's rows.
// If there are few rows, several groups of lanes share a row.
template <class Team, class T>
JAXMATCH_DEVICE void expand_classical(Team& team, const LargeProblem<T>& p, int64_t level,
                                      int64_t count) {
  const LargeState& s = p.s;
  const int32_t* const frontier = s.frontier + (level & 1) * s.n;
  const int64_t words = (s.m + kWordBits - 1) / kWordBits;
  const int64_t shares = team.shares(count, (words + Lanes::kCount - 1) / Lanes::kCount);
  team.rows(count * shares, [&](Lanes g, int64_t k) {
    const int64_t i = load_relaxed(frontier + k / shares), first = k % shares * g.kCount + g.lane;
    for_each_word(s.tight + i * words, words, first, shares * g.kCount,
                  [&](int64_t word, uint32_t tight) {
                    for (; tight; tight &= tight - 1) {
                      const int64_t j = word * kWordBits + trailing_zeros(tight);
                      if (load_relaxed(s.on_path + j) != kInactive) continue;
                      atomic_min(s.parent + j, uint64_t(place_of_row(i, j)));
                    }
                  });
  });
  team.sync();
}

// Algorithm 4, expansion of the tree variant. Every column outside the trees stores its least slack
// to a row of the trees, and the first row with this slack in the column's own order.
template <class Team, class P, class DualOf>
JAXMATCH_DEVICE void expand_tree(Team& team, const P& p, int64_t level, int64_t count,
                                 DualOf u_of) {
  const auto& s = p.s;
  const int32_t* const frontier = s.frontier + (level & 1) * s.n;
  constexpr int kRowsAtOnce = Lanes::kCount > 1 ? 16 : 4;  // loads in flight together
  const auto is_outside = [&](int64_t j) {
    return load_relaxed(s.on_path + j) == kInactive && p.has_col(j);
  };
  const auto scan = [&](int64_t block, int64_t j, Offer& best) {
    int64_t row[kRowsAtOnce];  // the last row is repeated
    typename P::Element cost[kRowsAtOnce][1];
    // The list was written before a barrier, so cached loads are safe.
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      row[a] = frontier[lesser(block * kRowsAtOnce + a, count - 1)];
    }
    p.costs.load(row, [&](int) { return j; }, cost);
    const double v = double(s.v[j]);
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      const double slack = p.costs.key_of(cost[a][0]) - v - u_of(row[a]);
      if (slack > best.least) continue;  // the usual case
      best.merge({slack, uint64_t(place_of_row(p.row_id(row[a]), p.col_id(j)))});
    }
  };
  team.lower_offers(s.m, (count + kRowsAtOnce - 1) / kRowsAtOnce, s.label, s.parent, is_outside,
                    scan);
  team.sync();
}

// Algorithms 5 and 6. Algorithm 5 goes from each free column that was reached back to its root.
// Where paths meet in a row, the path with the least next column wins. Algorithm 6 augments from
// each root along the path that is left. Returns the number of paths.
template <class Team, class T>
JAXMATCH_DEVICE int64_t reverse_and_augment(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.each(s.m, [&](int64_t end) {
    if (load_relaxed(s.on_path + end) != kReverse) return;
    for (int32_t j = int32_t(end); j >= 0;) {
      const int64_t i = row_at_place(int64_t(load_relaxed(s.parent + j)), j);
      atomic_min(s.end + i, j);
      j = load_relaxed(s.col4row + i);
    }
  });
  team.sync();
  return team.sum(s.n, [&](int64_t root) {
    if (load_relaxed(s.col4row + root) != kFree || load_relaxed(s.end + root) == kNoStep) return 0;
    for (int32_t i = int32_t(root); i >= 0;) {
      const int32_t j = load_relaxed(s.end + i), next = load_relaxed(s.row4col + j);
      store_relaxed(s.col4row + i, j);
      store_relaxed(s.row4col + j, i);
      i = next;
    }
    return 1;
  });
}

// Algorithm 7, stage 1, of the tree variant: the least slack between rows of the trees and columns
// outside them. It takes O(m) time, because expand_tree() has stored the least slack of each
// column.
template <class Team, class T>
JAXMATCH_DEVICE int64_t least_outside_tree(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.each(s.m, [&](int64_t j) {
    if (load_relaxed(s.on_path + j) == kInactive)
      atomic_min(&s.control->reach, load_relaxed(s.label + j));
  });
  team.sync();
  return load_relaxed(&s.control->reach);
}

// Algorithms 8 and 9: moves the duals by theta. Returns a positive number if duals have become too
// large for exact doubles.
template <class Team, class T>
JAXMATCH_DEVICE int64_t move_duals(Team& team, const LargeProblem<T>& p, int64_t theta) {
  const LargeState& s = p.s;
  team.each(s.n, [&](int64_t i) {
    if (load_relaxed(s.in_tree + i) != 0) store_relaxed(s.u + i, load_relaxed(s.u + i) + theta);
  });
  return team.sum(s.m, [&](int64_t j) {
    const int32_t mark = load_relaxed(s.on_path + j);
    const int64_t v = load_relaxed(s.v + j), label = load_relaxed(s.label + j);
    if (mark == kCovered) store_relaxed(s.v + j, v - theta);
    if (mark == kInactive && label < kFar) store_relaxed(s.label + j, label - theta);
    return v - theta < -kMostPrice;
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_HUNGARIAN_STEPS_H_
