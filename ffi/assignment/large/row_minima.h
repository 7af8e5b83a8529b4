// Lists rows, and finds their least reduced costs.
#ifndef JAXMATCH_LARGE_ROW_MINIMA_H_
#define JAXMATCH_LARGE_ROW_MINIMA_H_

#include "assignment/large/rows.h"

namespace jaxmatch::assignment::large {

// Lists the rows for which wanted(row) is true, in any order. A barrier must separate setting
// `length` to 0 from this call. Returns the number of rows listed.
template <class Team, class Wanted>
JAXMATCH_DEVICE int64_t list_rows(Team& team, int64_t n, int32_t* list, int32_t* length,
                                  Wanted wanted) {
  return team.sum(n, [&](int64_t i) {
    const bool is_wanted = wanted(i);
    if (is_wanted) store_relaxed(list + atomic_add(length), int32_t(i));
    return is_wanted;
  });
}

// Find the least reduced costs of the listed rows, or of all rows.
template <class Team, class P, class Publish>
JAXMATCH_DEVICE void find_least_of_list(Team& team, const P& p, const double* v,
                                        const int32_t* list, int64_t count, Publish publish) {
  find_least(
      team, p, v, count, [list](int64_t k) { return int64_t(load_relaxed(list + k)); }, publish);
}
template <class Team, class P, class Publish>
JAXMATCH_DEVICE void find_least_of_all(Team& team, const P& p, const double* v, Publish publish) {
  find_least(team, p, v, p.s.n, [](int64_t k) { return k; }, publish);
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_ROW_MINIMA_H_
