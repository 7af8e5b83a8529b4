// Passes over cost rows on the GPU: each warp processes a few rows, each lane a few of their
// columns.
#ifndef JAXMATCH_LARGE_ROWS_BY_WARP_H_
#define JAXMATCH_LARGE_ROWS_BY_WARP_H_

#include "assignment/large/core/candidates.h"

namespace jaxmatch::assignment::large {

// Loads the costs of a few rows and columns, and the prices of the columns. All loads are in flight
// together.
template <int kRows, int kCols, class P, class ColumnOf>
JAXMATCH_DEVICE void load_costs_and_prices(const P& p, const double* v, const int64_t (&row)[kRows],
                                           const ColumnOf& column_of,
                                           typename P::Element (&cost)[kRows][kCols],
                                           double (&price)[kCols]) {
  p.costs.load(row, column_of, cost);
  JAXMATCH_UNROLL
  for (int a = 0; a < kCols; ++a) price[a] = v[column_of(a)];
}

// Selects candidates of a few rows, and stores them as the candidates of rows `to`. A block of
// columns has one column of each class; the blocks from `first` to before `last` are read.
template <bool kRotated, int kRows, int kCols, class P, class Publish>
JAXMATCH_DEVICE void select_together(const P& p, const double* v, Lanes g,
                                     const int64_t (&row)[kRows], const int64_t (&to)[kRows],
                                     int first, int last, uint32_t rotation, int classes,
                                     Publish publish) {
  const int m = int(p.s.m);
  double least[kRows], horizon[kRows];
  JAXMATCH_UNROLL
  for (int r = 0; r < kRows; ++r) least[r] = horizon[r] = infinity();
  for (int c = g.lane; c < classes; c += g.kCount) {
    Candidates best[kRows];
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) best[r].begin(p.row_id(row[r]));
    const auto column = [&](int block) {
      if (!kRotated) return block * classes + c;
      return block * classes + int((c + rotation_of(block, rotation)) % uint32_t(classes));
    };
    const auto scan = [&](int block, unsigned exist, const auto& place) {
      typename P::Element cost[kRows][kCols];
      double price[kCols];
      load_costs_and_prices(p, v, row, place, cost, price);
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        // First determine which costs may enter, then insert only these. The lanes of a warp insert
        // at the same time, each into its own candidates.
        unsigned better = 0;
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) {
          const double key = p.key_at(row[r], column(block + a), cost[r][a]);
          const bool enters = best[r].may_enter(key - price[a]);
          better |= unsigned(enters) << a;
        }
        for (better &= exist; better != 0; better &= better - 1) {
          const int a = trailing_zeros(better), j = column(block + a);
          const double key = p.key_at(row[r], j, pick(cost[r], a));
          best[r].insert(key - v[j], int32_t(p.col_id(j)));
        }
      }
    };
    const int end = column(last - 1) < m ? last : last - 1;
    int block = first;
    for (; block + kCols <= end; block += kCols) {
      scan(block, ~0u, [&](int a) { return column(block + a); });
    }
    if (block < end) {
      scan(block, (1u << (end - block)) - 1,
           [&](int a) { return column(lesser(block + a, end - 1)); });
    }
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      // The last row may occur twice; it is then written twice, with equal values.
      best[r].write(p, v, to[r] * classes + c);
      if (best[r].col[0] >= 0) least[r] = lesser(least[r], best[r].x[0]);
      horizon[r] = lesser(horizon[r], best[r].horizon());
    }
  }
  JAXMATCH_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t found = g.min(whole_or_far(least[r])), seen = g.min(whole_or_far(horizon[r]));
    if (g.lane == 0) publish(row[r], found, seen);
  }
}

template <bool kRotated, class Team, class P, class RowOf, class Publish>
JAXMATCH_NOINLINE void select_cores(Team& team, const P& problem, const double* v, int64_t count,
                                    RowOf row_of, uint32_t rotation, Publish publish) {
  constexpr int kRows = 2, kCols = P::kComputed ? 4 : 8;
  const P p = problem;
  team.rows((count + kRows - 1) / kRows, [&](Lanes g, int64_t k) {
    int64_t row[kRows];
    bool present = false;
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      row[r] = row_of(lesser(k * kRows + r, count - 1));
      present |= p.has_row(row[r]);
    }
    if (!present) return;
    const auto select = [&](int classes) {
      const int blocks = (int(p.s.m) + classes - 1) / classes;
      select_together<kRotated, kRows, kCols>(p, v, g, row, row, 0, blocks, rotation, classes,
                                              publish);
    };
    if (p.classes() == kColumnClasses) {  // a compile-time constant
      select(kColumnClasses);
    } else {
      select(p.classes());
    }
  });
}

template <class Team, class P>
JAXMATCH_NOINLINE void select_parts(Team& team, const P& problem, const double* v,
                                    const int32_t* rows, int64_t count, uint32_t rotation,
                                    int64_t parts) {
  constexpr int kRows = 2, kCols = P::kComputed ? 4 : 8;
  const P p = problem;
  team.rows((count + kRows - 1) / kRows * parts, [&](Lanes g, int64_t k) {
    const int64_t part = k % parts;
    int64_t row[kRows], to[kRows];
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const int64_t place = lesser(k / parts * kRows + r, count - 1);
      row[r] = load_relaxed(rows + place);
      to[r] = place * parts + part;
    }
    const auto select = [&](int classes) {
      const int64_t blocks = (p.s.m + classes - 1) / classes;
      const int64_t width = (blocks + parts - 1) / parts;
      const int64_t first = lesser(part * width, blocks), last = lesser(first + width, blocks);
      select_together<true, kRows, kCols>(p, v, g, row, to, int(first), int(last), rotation,
                                          classes, [](int64_t, int64_t, int64_t) {});
    };
    if (p.classes() == kColumnClasses) {
      select(kColumnClasses);
    } else {
      select(p.classes());
    }
  });
}

template <class Team, class P, class RowOf, class Publish>
JAXMATCH_NOINLINE void find_least(Team& team, const P& problem, const double* v, int64_t count,
                                  RowOf row_of, Publish publish) {
  constexpr int kRows = 4, kCols = 4, kWidth = kCols * Lanes::kCount;
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
      double price[kCols];
      load_costs_and_prices(p, v, row, place, cost, price);
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
      if (g.lane == 0) publish(row[r], found);
    }
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_ROWS_BY_WARP_H_
