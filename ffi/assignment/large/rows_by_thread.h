// Rows held against all costs by threads: one row at once, neighbouring columns side by side in
// vector registers.
#ifndef JAXMATCH_LARGE_ROWS_BY_THREAD_H_
#define JAXMATCH_LARGE_ROWS_BY_THREAD_H_

#include "assignment/large/core/candidates.h"

namespace jaxmatch::assignment::large {

static_assert(kMostAbreast == kClasses, "columns of a block, one of each class");

// The reduced costs of neighbouring columns.
template <class P>
JAXMATCH_INLINE void reduce(const P& p, const double* v, int64_t i, int64_t first, int count,
                            double* reduced) {
  typename P::Element cost[kMostAbreast];
  p.costs.look_along(i, first, count, cost);
  for (int a = 0; a < count; ++a) reduced[a] = p.costs.key_of(cost[a]) - v[first + a];
}

template <bool kTurned, class P, class Tell>
JAXMATCH_INLINE void select_row(const P& p, const double* v, int64_t i, uint32_t turn, int classes,
                                Tell tell) {
  Candidates best[kClasses];
  double most[2 * kClasses];  // each class twice, so that those of a block lie side by side
  const auto let_in = [&](int c) JAXMATCH_VECTORIZED {
    most[c] = most[classes + c] = best[c].x[kBest - 1];
  };
  for (int c = 0; c < classes; ++c) {
    best[c].begin(p.row_id(i));
    let_in(c);
  }
  const auto look = [&](int64_t first, int count) JAXMATCH_VECTORIZED {
    const int turned = kTurned ? int(turn_of(int(first / classes), turn) % uint32_t(classes)) : 0;
    const int first_class = turned ? classes - turned : 0;
    double reduced[kClasses];
    reduce(p, v, i, first, count, reduced);
    uint32_t better = 0;
    for (int a = 0; a < count; ++a) better |= uint32_t(reduced[a] <= most[first_class + a]) << a;
    for (; better != 0; better &= better - 1) {
      const int a = trailing_zeros(better), next = first_class + a,
                c = next < classes ? next : next - classes;
      best[c].insert(reduced[a], int32_t(p.col_id(first + a)));
      let_in(c);
    }
  };
  int64_t first = 0;
  for (; first + classes <= p.s.m; first += classes) look(first, classes);
  if (first < p.s.m) look(first, int(p.s.m - first));
  double least = infinity(), horizon = infinity();
  for (int c = 0; c < classes; ++c) {
    best[c].write(p, v, i * classes + c);
    if (best[c].col[0] >= 0) least = lesser(least, best[c].x[0]);
    horizon = lesser(horizon, best[c].horizon());
  }
  tell(i, whole_or_far(least), whole_or_far(horizon));
}

template <bool kTurned, class Team, class P, class RowOf, class Tell>
void select_cores(Team& team, const P& p, const double* v, int64_t count, RowOf row_of,
                  uint32_t turn, Tell tell) {
  team.whole_rows(count, p.s.m, [&](int64_t k) {
    const int64_t i = row_of(k);
    if (!p.has_row(i)) return;
    vectorized([&]() JAXMATCH_VECTORIZED {
      if (p.classes() == kClasses) {  // a number known to the compiler
        select_row<kTurned>(p, v, i, turn, kClasses, tell);
      } else {
        select_row<kTurned>(p, v, i, turn, p.classes(), tell);
      }
    });
  });
}

template <class Team, class P, class RowOf, class Tell>
void find_least(Team& team, const P& p, const double* v, int64_t count, RowOf row_of, Tell tell) {
  team.whole_rows(count, p.s.m, [&](int64_t k) {
    const int64_t i = row_of(k);
    if (!p.has_row(i)) return;
    vectorized([&]() JAXMATCH_VECTORIZED {
      double least[kMostAbreast], reduced[kMostAbreast];
      for (int a = 0; a < kMostAbreast; ++a) least[a] = infinity();
      const auto look = [&](int64_t first, int columns) JAXMATCH_VECTORIZED {
        reduce(p, v, i, first, columns, reduced);
        for (int a = 0; a < columns; ++a) least[a] = lesser(least[a], reduced[a]);
      };
      int64_t first = 0;
      for (; first + kMostAbreast <= p.s.m; first += kMostAbreast) look(first, kMostAbreast);
      if (first < p.s.m) look(first, int(p.s.m - first));
      double found = infinity();
      for (int a = 0; a < kMostAbreast; ++a) found = lesser(found, least[a]);
      tell(i, whole_or_far(found));
    });
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_ROWS_BY_THREAD_H_
