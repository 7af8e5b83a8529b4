// Pricing: checks row prices against all costs, and selects new candidate sets for rows whose price
// was too high.
#ifndef JAXMATCH_LARGE_CORE_PRICE_H_
#define JAXMATCH_LARGE_CORE_PRICE_H_

#include "assignment/large/core/select.h"
#include "assignment/large/row_minima.h"

namespace jaxmatch::assignment::large {

// Makes the row prices feasible for all columns, not only for the core. A row's horizon was a lower
// bound on its reduced costs outside its candidates when these were selected. Column prices have
// only fallen since, so a row price up to the horizon is still feasible. A row whose price was too
// high loses its partner, because that pair is no longer tight, and gets a new candidate set. With
// `renew`, every row whose price has reached its horizon gets a new candidate set. Returns the
// number of rows that lost their partner. Call this after begin_pricing(). Other threads see the
// results after the next barrier.
template <class Team, class T>
JAXMATCH_DEVICE int64_t price_rows(Team& team, const LargeProblem<T>& p, uint32_t choice,
                                   bool renew) {
  const LargeState& s = p.s;
  int32_t *const doubtful = s.frontier, *const choosing = s.frontier + s.n;
  int32_t *const length = s.control->frontier, *const choosing_length = length + 1;
  int64_t* const least = s.nearest;
  const int64_t count = list_rows(team, s.n, doubtful, length, [&](int64_t i) {
    store_relaxed(least + i, kFar);
    return p.has_row(i) && load_relaxed(s.u + i) + renew > load_relaxed(s.horizon + i);
  });
  if (count == 0) return 0;
  const double* const v = team.prices(s);
  const auto choose = [&](const int32_t* list, int64_t rows) {
    select_listed_cores(team, p, v, list, rows, choice,
                        [least, horizon = s.horizon](int64_t i, int64_t x, int64_t seen) {
                          store_relaxed(least + i, x);
                          store_relaxed(horizon + i, seen);
                        });
  };
  if (renew) {  // one pass finds the minima and selects the candidates
    choose(doubtful, count);
  } else {
    find_least_of_list(team, p, v, doubtful, count,
                       [least](int64_t i, int64_t x) { atomic_min(least + i, x); });
  }
  team.sync();
  const int64_t freed = team.sum(count, [&](int64_t k) {
    const int32_t i = load_relaxed(doubtful + k), j = load_relaxed(s.col4row + i);
    const int64_t x = load_relaxed(least + i);
    if (x >= load_relaxed(s.u + i)) {
      if (!renew) store_relaxed(s.horizon + i, greater(load_relaxed(s.horizon + i), x));
      return false;
    }
    store_relaxed(s.u + i, x);
    if (!renew) store_relaxed(choosing + atomic_add(choosing_length), i);
    if (j < 0) return false;
    store_relaxed(s.col4row + i, int32_t(kFree));
    store_relaxed(s.row4col + j, int32_t(kFree));
    return true;
  });
  if (!renew) choose(choosing, load_relaxed(choosing_length));
  return freed;
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_PRICE_H_
