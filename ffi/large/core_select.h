// Passes over all costs: what they are, column minima, each row's core, and pricing.
//
// Core-oriented assignment: Volgenant, Linear and semi-assignment problems: a core oriented
// approach, Computers and Operations Research 23 (1996).
#ifndef JAXMATCH_LARGE_CORE_SELECT_H_
#define JAXMATCH_LARGE_CORE_SELECT_H_

#include "core_state.h"

namespace jaxmatch {

template <class T>
struct Core {
  CoreState s;
  GridCosts<T> costs;
  const uint8_t *row_mask, *col_mask;  // canonical, or null
  bool maximize;

  using Range = typename RangeFor<T>::Type;
  JAXMATCH_FN void look_at(Range& range, T cost) const {
    if constexpr (!Integral<T>::value) range.look_at(single(cost), maximize);
  }
  JAXMATCH_FN bool has_row(int64_t i) const { return !row_mask || row_mask[i]; }
  JAXMATCH_FN bool has_col(int64_t j) const { return !col_mask || col_mask[j]; }

  // The least costs of columns first, first + step, ... in every `row_step`-th row, negated to
  // maximise; `range` sees them. Calls f(column, least) for those that exist, before `last`.
  template <int kCols, class F>
  JAXMATCH_FN void least_of_columns(int64_t first, int64_t step, int64_t last, int64_t row,
                                    int64_t row_step, Range& range, F f) const {
    constexpr int kRows = 2;
    const auto exists = [&](int64_t j) { return j < last && has_col(j); };
    int64_t some = first;
    while (some < last && !has_col(some)) some += step;
    if (some >= last || row >= s.n) return;
    const T* at[kCols];  // another column in place of one that does not exist
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      const int64_t j = exists(first + a * step) ? first + a * step : some;
      at[a] = costs.at + j * costs.col_stride;
    }
    using Ordered = decltype(ordered(T{}, true));
    Ordered best[kCols];
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) best[a] = worst<Ordered>();
    for (; row < s.n; row += kRows * row_step) {
      T cost[kRows][kCols];
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        // In place of a row behind the last one, the same once more.
        const int64_t i = row + r * row_step < s.n ? row + r * row_step : row;
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) cost[r][a] = at[a][i * costs.row_stride];
      }
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        if (row + r * row_step >= s.n || !has_row(row + r * row_step)) continue;
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) {
          best[a] = lesser(best[a], ordered(cost[r][a], maximize));
          look_at(range, cost[r][a]);
        }
      }
    }
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      if (exists(first + a * step)) f(first + a * step, real_of_ordered(best[a], maximize));
    }
  }

  // Calls f(costs, how many, column of the first) for columns first, first + step, ... of row i.
  static constexpr int kAtOnce = 16;
  template <class F>
  JAXMATCH_FN void for_each_batch(int64_t i, int64_t first, int64_t step, F f) const {
    const T* at = costs.at + i * costs.row_stride + first * costs.col_stride;
    const int64_t stride = step * costs.col_stride;
    int64_t j = first;
    T cost[kAtOnce];
    for (; j + (kAtOnce - 1) * step < s.m; j += kAtOnce * step, at += kAtOnce * stride) {
      JAXMATCH_UNROLL
      for (int a = 0; a < kAtOnce; ++a) cost[a] = at[a * stride];
      f(cost, kAtOnce, j);
    }
    if (j >= s.m) return;
    const int left = int((s.m - 1 - j) / step) + 1;
    JAXMATCH_UNROLL
    for (int a = 0; a < kAtOnce; ++a) cost[a] = at[lesser(a, left - 1) * stride];
    f(cost, left, j);
  }

  // Calls f(columns, reduced costs) for a few columns of row i at a time, of the core or of all; a
  // column of -1 stands for nothing.
  template <class Team, class F>
  JAXMATCH_FN void for_each_few(const Team& team, Lanes g, int64_t i, bool dense, F f) const {
    if (!dense) {
      const ReducedCore reduced = team.reduced_core(s, i);
      for (int c = g.lane; c < kClasses; c += g.kCount) f(reduced.cols[c], reduced.slack[c]);
      return;
    }
    const int64_t u = peek(s.u + i);
    for (int64_t first = g.lane; first < s.m; first += kBest * g.kCount) {
      ClassCols col;
      ClassKeys slack;
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        const int64_t j = first + b * g.kCount;
        const double key = j < s.m && has_col(j) ? costs.key(i, j) : infinity();
        col.x[b] = key < infinity() ? int32_t(j) : -1;
        slack.x[b] = key < infinity() ? int64_t(key) - u - peek(s.v + j) : 0;
      }
      f(col, slack);
    }
  }
  // f(column, reduced cost), one at a time.
  template <class Team, class F>
  JAXMATCH_FN void for_each_slack(const Team& team, Lanes g, int64_t i, bool dense, F f) const {
    for_each_few(team, g, i, dense, [&](const ClassCols& col, const ClassKeys& slack) {
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        if (col.x[b] >= 0) f(col.x[b], slack.x[b]);
      }
    });
  }
};

JAXMATCH_FN inline bool is_large_price(int64_t v) { return v > kMostPrice || v < -kMostPrice; }

// Prices as the passes read them. Returns the number of those that a double would round.
template <class Team, class T>
JAXMATCH_FN int64_t publish_prices(Team& team, const Core<T>& p) {
  return team.sum(p.s.m, [&](int64_t j) {
    const int64_t v = peek(p.s.v + j);
    put(p.s.v_real + j, p.has_col(j) ? double(v) : -infinity());
    return is_large_price(v);
  });
}

// The four least reduced costs of each class of columns, from now on the core of row i. Returns the
// least of all: the greatest price that the row may have, kFar if everything is forbidden.
template <class T>
JAXMATCH_FN int64_t select_core(const Core<T>& p, const double* v, Lanes g, int64_t i) {
  double least = infinity();
  for (int c = g.lane; c < kClasses; c += g.kCount) {
    double best[kBest];
    int32_t col[kBest];
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      best[b] = infinity();
      col[b] = -1;
    }
    const auto insert = [&](double x, int32_t at) {
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        const bool swap = x < best[b];
        const double kept = swap ? x : best[b];
        const int32_t kept_col = swap ? at : col[b];
        x = swap ? best[b] : x;
        at = swap ? col[b] : at;
        best[b] = kept;
        col[b] = kept_col;
      }
    };
    // First which of a batch may belong to the best, then these only: lanes that work together
    // insert at the same time, each another one.
    p.for_each_batch(i, c, kClasses, [&](const auto& cost, int count, int64_t j) {
      const auto reduced = [&](auto x, int a) { return p.costs.key_of(x) - v[j + a * kClasses]; };
      unsigned better = 0;
      JAXMATCH_UNROLL
      for (int a = 0; a < p.kAtOnce; ++a) {
        if (a < count && reduced(cost[a], a) < best[kBest - 1]) better |= 1u << a;
      }
      for (; better != 0; better &= better - 1) {
        const int a = trailing_zeros(better);
        insert(reduced(pick(cost, a), a), int32_t(j + a * kClasses));
      }
    });
    ClassCols cols;
    ClassKeys keys;
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      cols.x[b] = col[b];
      keys.x[b] = col[b] < 0 ? 0 : int64_t(best[b] + v[col[b]]);
    }
    p.s.core_col[i * kClasses + c] = cols;
    p.s.core_key[i * kClasses + c] = keys;
    least = best[0] < least ? best[0] : least;
  }
  return g.min(least < infinity() ? int64_t(least) : kFar);
}

// The least reduced cost of row i over all columns.
template <class T>
JAXMATCH_FN int64_t least_reduced(const Core<T>& p, const double* v, Lanes g, int64_t i) {
  double least = infinity();
  p.for_each_batch(i, g.lane, g.kCount, [&](const auto& cost, int count, int64_t j) {
    JAXMATCH_UNROLL
    for (int a = 0; a < p.kAtOnce; ++a) {
      if (a >= count) break;
      const double x = p.costs.key_of(cost[a]) - v[j + a * g.kCount];
      least = x < least ? x : least;
    }
  });
  return g.min(least < infinity() ? int64_t(least) : kFar);
}

// First cores and row prices. Returns the number of rows without any partner.
template <class Team, class T>
JAXMATCH_FN int64_t select_cores(Team& team, const Core<T>& p) {
  const double* const v = team.prices(p.s);
  return team.sum_rows(p.s.n, [&](Lanes g, int64_t i) {
    if (!p.has_row(i)) return 0;
    const int64_t least = select_core(p, v, g, i);
    if (g.lane == 0) put(p.s.u + i, least);
    return int(least == kFar);
  });
}

// Row prices that hold for all columns and not only for the core. A row whose price was too high
// gets a new core, and loses a partner that is not tight any more. Returns how many rows did.
template <class Team, class T>
JAXMATCH_FN int64_t price_rows(Team& team, const Core<T>& p) {
  const double* const v = team.prices(p.s);
  return team.sum_rows(p.s.n, [&](Lanes g, int64_t i) {
    if (!p.has_row(i)) return 0;
    const int64_t least = least_reduced(p, v, g, i);
    if (least >= peek(p.s.u + i)) return 0;
    select_core(p, v, g, i);
    const int32_t j = peek(p.s.col4row + i);
    const bool loses = j >= 0 && int64_t(p.costs.key(i, j)) - peek(p.s.v + j) > least;
    if (g.lane == 0) {
      put(p.s.u + i, least);
      if (loses) {
        put(p.s.col4row + i, int32_t(kFree));
        put(p.s.row4col + j, int32_t(kFree));
      }
    }
    return int(loses);
  });
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_CORE_SELECT_H_
