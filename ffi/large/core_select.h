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

  using Element = typename ElementOf<T>::Type;
  using Range = typename RangeFor<Element>::Type;
  JAXMATCH_FN void look_at(Range& range, Element cost) const {
    if constexpr (!Integral<Element>::value) range.look_at(single(cost), maximize);
  }
  JAXMATCH_FN bool has_row(int64_t i) const { return !row_mask || row_mask[i]; }
  JAXMATCH_FN bool has_col(int64_t j) const { return !col_mask || col_mask[j]; }
  // What a part of a problem that is divided over devices says otherwise, see divided_state.h.
  JAXMATCH_FN static constexpr int classes() { return kClasses; }
  JAXMATCH_FN static constexpr int64_t row_id(int64_t i) { return i; }
  JAXMATCH_FN static constexpr int64_t col_id(int64_t j) { return j; }

  static constexpr bool kComputed = ElementOf<T>::is_computed;

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
    int64_t at[kCols];  // another column in place of one that does not exist
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      at[a] = exists(first + a * step) ? first + a * step : some;
      if constexpr (!kComputed) at[a] *= costs.col_stride;
    }
    using Ordered = decltype(ordered(Element{}, true));
    Ordered best[kCols];
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) best[a] = worst<Ordered>();
    for (; row < s.n; row += kRows * row_step) {
      Element cost[kRows][kCols];
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        // In place of a row behind the last one, the same once more.
        const int64_t i = row + r * row_step < s.n ? row + r * row_step : row;
        if constexpr (kComputed) {
          costs.look_up(i, [&](int a) { return at[a]; }, cost[r]);
        } else {
          JAXMATCH_UNROLL
          for (int a = 0; a < kCols; ++a) cost[r][a] = costs.at[at[a] + i * costs.row_stride];
        }
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

  // Calls f(costs, how many, column_of) for columns first, first + step, ... of row i; column_of(a)
  // is the column of costs[a].
  static constexpr int kAtOnce = 16;
  template <class F>
  JAXMATCH_FN void for_each_batch(int64_t i, int64_t first, int64_t step, F f) const {
    int64_t j = first;
    const auto column_of = [&](int a) { return j + a * step; };
    Element cost[kAtOnce];
    if constexpr (kComputed) {
      for (; j < s.m; j += kAtOnce * step) {
        const int left = int(lesser((s.m - 1 - j) / step + 1, int64_t{kAtOnce}));
        costs.look_up(i, [&](int a) { return column_of(lesser(a, left - 1)); }, cost);
        f(cost, left, column_of);
      }
    } else {
      const T* at = costs.at + i * costs.row_stride + first * costs.col_stride;
      const int64_t stride = step * costs.col_stride;
      for (; j + (kAtOnce - 1) * step < s.m; j += kAtOnce * step, at += kAtOnce * stride) {
        JAXMATCH_UNROLL
        for (int a = 0; a < kAtOnce; ++a) cost[a] = at[a * stride];
        f(cost, kAtOnce, column_of);
      }
      if (j >= s.m) return;
      const int left = int((s.m - 1 - j) / step) + 1;
      JAXMATCH_UNROLL
      for (int a = 0; a < kAtOnce; ++a) cost[a] = at[lesser(a, left - 1) * stride];
      f(cost, left, column_of);
    }
  }
  // The same for a class of columns that is not those of one number modulo `classes`: the classes
  // of each so many columns are turned by another number.
  template <class F>
  JAXMATCH_FN void for_each_of_class(int64_t i, int c, int classes, uint32_t turn, F f) const {
    const int64_t blocks = (s.m + classes - 1) / classes;
    const auto column = [&](int64_t block) {
      return block * classes + (c + (uint32_t(block) * turn >> 16)) % uint32_t(classes);
    };
    const int64_t end = column(blocks - 1) < s.m ? blocks : blocks - 1;
    for (int64_t block = 0; block < end; block += kAtOnce) {
      const int left = int(lesser(end - block, int64_t{kAtOnce}));
      Element cost[kAtOnce];
      const auto place = [&](int a) { return column(block + lesser(a, left - 1)); };
      if constexpr (kComputed) {
        costs.look_up(i, place, cost);
      } else {
        const T* const at = costs.at + i * costs.row_stride;
        JAXMATCH_UNROLL
        for (int a = 0; a < kAtOnce; ++a) cost[a] = at[place(a) * costs.col_stride];
      }
      f(cost, left, [&](int a) { return column(block + a); });
    }
  }

  // Calls f(columns, reduced costs) for a few columns of the core of row i at a time; a column of
  // -1 stands for nothing.
  template <class Team, class F>
  JAXMATCH_FN void for_each_few(const Team& team, Lanes g, int64_t i, F f) const {
    const ReducedCore reduced = team.reduced_core(s, i);
    for (int c = g.lane; c < kClasses; c += g.kCount) f(reduced.cols[c], reduced.slack[c]);
  }
  // f(column, reduced cost), one at a time.
  template <class Team, class F>
  JAXMATCH_FN void for_each_slack(const Team& team, Lanes g, int64_t i, F f) const {
    for_each_few(team, g, i, [&](const ClassCols& col, const ClassKeys& slack) {
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

// The best columns of one class for one row. Of equal ones each row has an order of its own: rows
// that are all alike have cores that are not.
struct Candidates {
  uint32_t scatter;
  double x[kBest];
  int32_t col[kBest];
  uint32_t place[kBest];

  JAXMATCH_FN explicit Candidates(int64_t row) : scatter(uint32_t(row) * 0x85EBCA77u) {
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      x[b] = kNone;
      col[b] = -1;
      place[b] = 0;
    }
  }
  // A forbidden column may not, a tied one might.
  JAXMATCH_FN bool may_enter(double cost) const { return cost <= x[kBest - 1]; }
  JAXMATCH_FN void insert(double cost, int32_t j) {
    uint32_t mine = (uint32_t(j) * 0x9E3779B1u + scatter);
    mine = (mine ^ mine >> 15) * 0x2C1B3C6Du;
    bool before[kBest];
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      before[b] = (cost < x[b]) | ((cost == x[b]) & (mine < place[b]));
    }
    JAXMATCH_UNROLL
    for (int b = kBest - 1; b > 0; --b) {
      x[b] = before[b - 1] ? x[b - 1] : before[b] ? cost : x[b];
      col[b] = before[b - 1] ? col[b - 1] : before[b] ? j : col[b];
      place[b] = before[b - 1] ? place[b - 1] : before[b] ? mine : place[b];
    }
    x[0] = before[0] ? cost : x[0];
    col[0] = before[0] ? j : col[0];
    place[0] = before[0] ? mine : place[0];
  }
  // What others of the class have at least.
  JAXMATCH_FN double horizon() const { return col[kBest - 1] < 0 ? infinity() : x[kBest - 1]; }

 private:
  static constexpr double kNone = 1.7976931348623157e308;  // below a forbidden cost
};

// The four least reduced costs of each class of columns, from now on the core of row i. Returns the
// least of all: the greatest price that the row may have, kFar if everything is forbidden.
template <bool kFirst, class P>
JAXMATCH_APART int64_t select_core(const P& problem, const double* v, Lanes g, int64_t i,
                                   uint32_t turn) {
  const P p = problem;
  const int classes = p.classes();
  double least = infinity(), horizon = infinity();
  for (int c = g.lane; c < classes; c += g.kCount) {
    Candidates best(p.row_id(i));
    // First which of a batch may belong to the best, then these only: lanes that work together
    // insert at the same time, each another one.
    const auto look = [&](const auto& cost, int count, const auto& column_of) {
      const auto reduced = [&](auto x, int a) { return p.costs.key_of(x) - v[column_of(a)]; };
      unsigned better = 0;
      JAXMATCH_UNROLL
      for (int a = 0; a < p.kAtOnce; ++a) {
        // No branch, so that prices come at the same time.
        const bool enters = best.may_enter(reduced(cost[a], lesser(a, count - 1)));
        better |= unsigned((a < count) & enters) << a;
      }
      for (; better != 0; better &= better - 1) {
        const int a = trailing_zeros(better);
        best.insert(reduced(pick(cost, a), a), int32_t(p.col_id(column_of(a))));
      }
    };
    if constexpr (kFirst) {
      p.for_each_batch(i, c, classes, look);
    } else {
      p.for_each_of_class(i, c, classes, turn, look);
    }
    ClassCols cols;
    ClassKeys keys;
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      cols.x[b] = best.col[b];
      keys.x[b] = best.col[b] < 0 ? 0 : int64_t(best.x[b] + v[best.col[b] - p.col_id(0)]);
    }
    p.s.core_col[i * classes + c] = cols;
    p.s.core_key[i * classes + c] = keys;
    if (best.col[0] >= 0) least = lesser(least, best.x[0]);
    horizon = lesser(horizon, best.horizon());
  }
  const int64_t seen = g.min(whole_or_far(horizon));
  if (g.lane == 0) put(p.s.horizon + i, seen);
  return g.min(whole_or_far(least));
}

// First cores and row prices. Returns the number of rows without any partner.
template <class Team, class T>
JAXMATCH_FN int64_t select_cores(Team& team, const Core<T>& p) {
  const double* const v = team.prices(p.s);
  return team.sum_rows(p.s.n, [&](Lanes g, int64_t i) {
    if (!p.has_row(i)) return 0;
    const int64_t least = select_core<true>(p, v, g, i, 0);
    if (g.lane == 0) put(p.s.u + i, least);
    return int(least == kFar);
  });
}

// The least reduced cost of row i over all columns.
template <class P>
JAXMATCH_APART int64_t least_reduced(const P& problem, const double* v, Lanes g, int64_t i) {
  const P p = problem;
  double least = infinity();
  p.for_each_batch(i, g.lane, g.kCount, [&](const auto& cost, int count, const auto& column_of) {
    JAXMATCH_UNROLL
    for (int a = 0; a < p.kAtOnce; ++a) {
      const int at = lesser(a, count - 1);  // no branch, so that costs come at the same time
      least = lesser(least, p.costs.key_of(cost[a]) - v[column_of(at)]);
    }
  });
  return g.min(whole_or_far(least));
}

// Row prices that hold for all columns and not only for the core. Prices of columns only fall, so
// that those within the row's horizon do. A row whose price was too high gets a new core, and loses
// a partner that is not tight any more; with `renew` so does every row that has come as far as its
// horizon; with `everyone` horizons do not count. Returns how many rows lost theirs.
template <class Team, class T>
JAXMATCH_FN int64_t price_rows(Team& team, const Core<T>& p, uint32_t choice, bool renew,
                               bool everyone) {
  const CoreState& s = p.s;
  const double* const v = team.prices(s);
  const auto is_doubtful = [&](int64_t i) {
    const bool doubtful = everyone || peek(s.u + i) + renew > peek(s.horizon + i);
    return p.has_row(i) && doubtful ? 0 : -1;
  };
  return team.sum_rows(s.n, is_doubtful, [&](Lanes g, int64_t i, int64_t) {
    const int64_t least = least_reduced(p, v, g, i), u = peek(s.u + i);
    const int32_t j = peek(s.col4row + i);
    const bool falls = least < u;
    const bool loses = falls && j >= 0 && int64_t(p.costs.key(i, j)) - peek(s.v + j) > least;
    const bool chooses = falls || renew;
    // Behind this all lanes have read what the first one writes.
    if (chooses) select_core<false>(p, v, g, i, choice * 0x9E3779B1u);
    if (g.lane == 0) {
      const int64_t before = everyone ? least : peek(s.horizon + i);
      if (!chooses) put(s.horizon + i, greater(before, least));
      if (falls) put(s.u + i, least);
      if (loses) {
        put(s.col4row + i, int32_t(kFree));
        put(s.row4col + j, int32_t(kFree));
      }
    }
    return int(loses);
  });
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_CORE_SELECT_H_
