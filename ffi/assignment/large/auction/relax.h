// Rounds of label correcting over all costs: listed rows lower the labels of columns.
#ifndef JAXMATCH_LARGE_AUCTION_RELAX_H_
#define JAXMATCH_LARGE_AUCTION_RELAX_H_

#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

// For every wanted column j, lowers the label to the least C_ij - w_j - base_i over the listed rows
// i. Of the rows that attain the least, the first in the column's own order becomes the column's
// parent. A parent changes only with the label, so parents never form a cycle.
template <class Team, class T, class Wanted, class WeightOf>
JAXMATCH_NOINLINE void relax_rows(Team& team, const LargeProblem<T>& problem, const int32_t* list,
                                  int64_t count, int64_t* label, Wanted wanted, WeightOf w_of) {
  constexpr int kRowsAtOnce = Lanes::kCount > 1 ? 16 : 4;  // loads in flight together
  const LargeProblem<T> p = problem;
  const LargeState& s = p.s;
  const auto scan = [&](int64_t block, int64_t j, Offer& best) {
    int64_t row[kRowsAtOnce];  // the last row is repeated
    typename LargeProblem<T>::Element cost[kRowsAtOnce][1];
    double base[kRowsAtOnce];
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      row[a] = load_relaxed(list + lesser(block * kRowsAtOnce + a, count - 1));
    }
    p.costs.load(row, [&](int) { return j; }, cost);
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) base[a] = load_relaxed(s.base + row[a]);
    const double w = w_of(j);
    const double old = slack_of_label(load_relaxed(label + j));
    double least = infinity();
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      base[a] = p.costs.key_of(cost[a][0]) - w - base[a];
      least = lesser(least, base[a]);
    }
    if (least >= old || least > best.least) return;  // the usual case
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      if (base[a] == least) best.merge({least, uint64_t(place_of_row(row[a], j))});
    }
  };
  team.lower_offers(
      s.m, (count + kRowsAtOnce - 1) / kRowsAtOnce, label, s.parent,
      [&](int64_t j) { return p.has_col(j) && wanted(p, j); }, scan);
  team.sync();
}

// Lists the rows matched to columns whose label has fallen below `seen`, and updates `seen`. Calls
// on_fall(row, column, old label, new label) for each such column. Returns the number of rows
// listed.
template <class Team, class OnFall>
JAXMATCH_DEVICE int64_t list_fallen(Team& team, const LargeState& s, const int64_t* label,
                                    int32_t* list, int32_t* length, OnFall on_fall) {
  return team.sum(s.m, [&](int64_t j) {
    const int64_t now = load_relaxed(label + j), old = load_relaxed(s.seen + j);
    if (now >= old) return false;
    store_relaxed(s.seen + j, now);
    const int32_t i = load_relaxed(s.row4col + j);
    on_fall(i, j, old, now);
    if (i < 0) return false;
    store_relaxed(list + atomic_add(length), i);
    return true;
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_RELAX_H_
