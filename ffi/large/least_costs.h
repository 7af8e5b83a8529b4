// Rows held against all costs: which of them, and the least reduced cost of each.
#ifndef JAXMATCH_LARGE_LEAST_COSTS_H_
#define JAXMATCH_LARGE_LEAST_COSTS_H_

#include "core_problem.h"

namespace jaxmatch {

// Lists the rows that are wanted, in any order; `length` has been 0 since a barrier. Returns how
// many.
template <class Team, class Wanted>
JAXMATCH_FN int64_t list_rows(Team& team, int64_t n, int32_t* list, int32_t* length,
                              Wanted wanted) {
  return team.sum(n, [&](int64_t i) {
    const bool is_wanted = wanted(i);
    if (is_wanted) put(list + count_up(length), int32_t(i));
    return is_wanted;
  });
}

// The least reduced costs of row_of(k), at prices v, for all k below `count`: calls
// tell(row, least), maybe more than once, of which the least counts, and also for masked rows.
template <class Team, class P, class RowOf, class Tell>
JAXMATCH_APART void find_least(Team& team, const P& problem, const double* v, int64_t count,
                               RowOf row_of, Tell tell) {
  constexpr bool kByWarps = Lanes::kCount > 1;
  constexpr int kRows = kByWarps ? 4 : 1, kCols = kByWarps ? 4 : 16, kWidth = kCols * Lanes::kCount;
  const P p = problem;
  const int64_t groups = (count + kRows - 1) / kRows, blocks = (p.s.m + kWidth - 1) / kWidth;
  const int64_t parts = team.shares(groups, blocks), width = (blocks + parts - 1) / parts * kWidth;
  team.rows(groups * parts, [&](Lanes g, int64_t k) {
    const int64_t first = k % parts * width, last = lesser(first + width, p.s.m);
    int64_t row[kRows];
    double least[kRows];
    bool present = false;
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      row[r] = row_of(lesser(k / parts * kRows + r, count - 1));
      least[r] = infinity();
      present |= p.has_row(row[r]);
    }
    if (!present) return;
    for (int64_t j = first + g.lane; j < last; j += kWidth) {
      const auto place = [&](int a) { return lesser(j + a * g.kCount, last - 1); };
      typename P::Element cost[kRows][kCols];
      p.costs.look_up(row, place, cost);
      double price[kCols];
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) price[a] = v[place(a)];
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) {
          least[r] = lesser(least[r], p.costs.key_of(cost[r][a]) - price[a]);
        }
      }
    }
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int64_t found = g.min(whole_or_far(least[r]));
      if (g.lane == 0) tell(row[r], found);
    }
  });
}
template <class Team, class P, class Tell>
JAXMATCH_FN void find_least_of_list(Team& team, const P& p, const double* v, const int32_t* list,
                                    int64_t count, Tell tell) {
  find_least(team, p, v, count, [list](int64_t k) { return int64_t(peek(list + k)); }, tell);
}
template <class Team, class P, class Tell>
JAXMATCH_FN void find_least_of_all(Team& team, const P& p, const double* v, Tell tell) {
  find_least(team, p, v, p.s.n, [](int64_t k) { return k; }, tell);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_LEAST_COSTS_H_
