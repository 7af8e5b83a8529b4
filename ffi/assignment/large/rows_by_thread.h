// Passes over cost rows on the CPU: each thread processes one row, with neighbouring columns in
// vector registers.
#ifndef JAXMATCH_LARGE_ROWS_BY_THREAD_H_
#define JAXMATCH_LARGE_ROWS_BY_THREAD_H_

#include "assignment/large/core/candidates.h"

namespace jaxmatch::assignment::large {

static_assert(kVectorColumns == kColumnClasses, "columns of a block, one of each class");

// Computes the reduced costs of neighbouring columns.
template <class P>
JAXMATCH_INLINE void reduce(const P& p, const double* v, int64_t i, int64_t first, int count,
                            double* reduced) {
  typename P::Element cost[kVectorColumns];
  p.costs.load_row(i, first, count, cost);
  for (int a = 0; a < count; ++a) reduced[a] = p.key_at(i, first + a, cost[a]) - v[first + a];
}

template <bool kRotated, class P, class Publish>
JAXMATCH_INLINE void select_row(const P& p, const double* v, int64_t i, int64_t to,
                                uint32_t rotation, int classes, Publish publish) {
  Candidates best[kColumnClasses];
  // The reduced cost of the last candidate of each class. The array holds all classes twice, so
  // that the classes of a rotated block are contiguous.
  double most[2 * kColumnClasses];
  const auto update_worst = [&](int c) JAXMATCH_VECTORIZED {
    most[c] = most[classes + c] = best[c].x[kCandidatesPerClass - 1];
  };
  for (int c = 0; c < classes; ++c) {
    best[c].begin(p.row_id(i));
    update_worst(c);
  }
  const auto scan = [&](int64_t first, int count) JAXMATCH_VECTORIZED {
    const int rotated =
        kRotated ? int(rotation_of(int(first / classes), rotation) % uint32_t(classes)) : 0;
    const int first_class = rotated ? classes - rotated : 0;
    double reduced[kColumnClasses];
    reduce(p, v, i, first, count, reduced);
    uint32_t better = 0;
    for (int a = 0; a < count; ++a) better |= uint32_t(reduced[a] <= most[first_class + a]) << a;
    for (; better != 0; better &= better - 1) {
      const int a = trailing_zeros(better), next = first_class + a,
                c = next < classes ? next : next - classes;
      best[c].insert(reduced[a], int32_t(p.col_id(first + a)));
      update_worst(c);
    }
  };
  int64_t first = 0;
  for (; first + classes <= p.s.m; first += classes) scan(first, classes);
  if (first < p.s.m) scan(first, int(p.s.m - first));
  double least = infinity(), horizon = infinity();
  for (int c = 0; c < classes; ++c) {
    best[c].write(p, v, to * classes + c);
    if (best[c].col[0] >= 0) least = lesser(least, best[c].x[0]);
    horizon = lesser(horizon, best[c].horizon());
  }
  publish(i, whole_or_far(least), whole_or_far(horizon));
}

template <bool kRotated, class Team, class P, class RowOf, class Publish>
void select_cores(Team& team, const P& p, const double* v, int64_t count, RowOf row_of,
                  uint32_t rotation, Publish publish) {
  team.whole_rows(count, p.s.m, [&](int64_t k) {
    const int64_t i = row_of(k);
    if (!p.has_row(i)) return;
    vectorized([&]() JAXMATCH_VECTORIZED {
      if (p.classes() == kColumnClasses) {  // a compile-time constant
        select_row<kRotated>(p, v, i, i, rotation, kColumnClasses, publish);
      } else {
        select_row<kRotated>(p, v, i, i, rotation, p.classes(), publish);
      }
    });
  });
}

template <class Team, class P>
void select_parts(Team& team, const P& p, const double* v, const int32_t* rows, int64_t count,
                  uint32_t rotation, int64_t /*parts*/) {
  team.whole_rows(count, p.s.m, [&](int64_t k) {
    vectorized([&]() JAXMATCH_VECTORIZED {
      const auto publish = [](int64_t, int64_t, int64_t) {};
      if (p.classes() == kColumnClasses) {
        select_row<true>(p, v, rows[k], k, rotation, kColumnClasses, publish);
      } else {
        select_row<true>(p, v, rows[k], k, rotation, p.classes(), publish);
      }
    });
  });
}

template <class Team, class P, class RowOf, class Publish>
void find_least(Team& team, const P& p, const double* v, int64_t count, RowOf row_of,
                Publish publish) {
  team.whole_rows(count, p.s.m, [&](int64_t k) {
    const int64_t i = row_of(k);
    if (!p.has_row(i)) return;
    vectorized([&]() JAXMATCH_VECTORIZED {
      double least[kVectorColumns], reduced[kVectorColumns];
      for (int a = 0; a < kVectorColumns; ++a) least[a] = infinity();
      const auto scan = [&](int64_t first, int columns) JAXMATCH_VECTORIZED {
        reduce(p, v, i, first, columns, reduced);
        for (int a = 0; a < columns; ++a) least[a] = lesser(least[a], reduced[a]);
      };
      int64_t first = 0;
      for (; first + kVectorColumns <= p.s.m; first += kVectorColumns) scan(first, kVectorColumns);
      if (first < p.s.m) scan(first, int(p.s.m - first));
      double found = infinity();
      for (int a = 0; a < kVectorColumns; ++a) found = lesser(found, least[a]);
      publish(i, whole_or_far(found));
    });
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_ROWS_BY_THREAD_H_
