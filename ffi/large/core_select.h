// Each row's core: of each class of columns those with the least reduced costs.
//
// Core-oriented assignment: Volgenant, Linear and semi-assignment problems: a core oriented
// approach, Computers and Operations Research 23 (1996).
#ifndef JAXMATCH_LARGE_CORE_SELECT_H_
#define JAXMATCH_LARGE_CORE_SELECT_H_

#include "core_problem.h"

namespace jaxmatch {

// The best columns of one class for one row. Of equal ones each row has an order of its own: rows
// that are all alike have cores that are not.
struct Candidates {
  uint32_t scatter;
  double x[kBest];
  int32_t col[kBest];

  JAXMATCH_FN void begin(int64_t row) {
    scatter = uint32_t(row) * 0x85EBCA77u;
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      x[b] = kNone;
      col[b] = -1;
    }
  }
  // A forbidden column may not, a tied one might.
  JAXMATCH_FN bool may_enter(double cost) const { return cost <= x[kBest - 1]; }
  JAXMATCH_FN void insert(double cost, int32_t j) {
    const uint32_t mine = place(j);
    bool before[kBest];
    JAXMATCH_UNROLL
    for (int b = 0; b < kBest; ++b) {
      before[b] = (cost < x[b]) | ((cost == x[b]) & (mine < place(col[b])));
    }
    JAXMATCH_UNROLL
    for (int b = kBest - 1; b > 0; --b) {
      x[b] = before[b - 1] ? x[b - 1] : before[b] ? cost : x[b];
      col[b] = before[b - 1] ? col[b - 1] : before[b] ? j : col[b];
    }
    x[0] = before[0] ? cost : x[0];
    col[0] = before[0] ? j : col[0];
  }
  // What others of the class have at least.
  JAXMATCH_FN double horizon() const { return col[kBest - 1] < 0 ? infinity() : x[kBest - 1]; }

 private:
  JAXMATCH_FN uint32_t place(int32_t j) const {
    const uint32_t x = uint32_t(j) * 0x9E3779B1u + scatter;
    return (x ^ x >> 15) * 0x2C1B3C6Du;
  }
  static constexpr double kNone = 1.7976931348623157e308;  // below a forbidden cost
};

// Selects the cores of a few rows; with kTurned, the classes of each so many columns are turned by
// another number. tell(row, least, horizon): the least reduced cost of all, and the least of those
// that the core may lack; kFar if there is none.
template <bool kTurned, int kRows, int kCols, class P, class Tell>
JAXMATCH_FN void select_together(const P& p, const double* v, Lanes g, const int64_t (&row)[kRows],
                                 uint32_t turn, int classes, Tell tell) {
  const int m = int(p.s.m), blocks = (m + classes - 1) / classes;
  double least[kRows], horizon[kRows];
  JAXMATCH_UNROLL
  for (int r = 0; r < kRows; ++r) least[r] = horizon[r] = infinity();
  for (int c = g.lane; c < classes; c += g.kCount) {
    Candidates best[kRows];
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) best[r].begin(p.row_id(row[r]));
    const auto column = [&](int block) {
      if (!kTurned) return block * classes + c;
      return block * classes + int((c + (uint32_t(block) * turn >> 16)) % uint32_t(classes));
    };
    const auto look = [&](int block, unsigned exist, const auto& place) {
      typename P::Element cost[kRows][kCols];
      p.costs.look_up(row, place, cost);
      double price[kCols];
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) price[a] = v[place(a)];
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        // First which of them may belong to the best, then these only: lanes that work together
        // insert at the same time, each another one.
        unsigned better = 0;
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) {
          const bool enters = best[r].may_enter(p.costs.key_of(cost[r][a]) - price[a]);
          better |= unsigned(enters) << a;
        }
        for (better &= exist; better != 0; better &= better - 1) {
          const int a = trailing_zeros(better), j = column(block + a);
          best[r].insert(p.costs.key_of(pick(cost[r], a)) - v[j], int32_t(p.col_id(j)));
        }
      }
    };
    const int end = column(blocks - 1) < m ? blocks : blocks - 1;
    int block = 0;
    for (; block + kCols <= end; block += kCols) {
      look(block, ~0u, [&](int a) { return column(block + a); });
    }
    if (block < end) {
      look(block, (1u << (end - block)) - 1,
           [&](int a) { return column(lesser(block + a, end - 1)); });
    }
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ClassCols cols;
      ClassKeys keys;
      JAXMATCH_UNROLL
      for (int b = 0; b < kBest; ++b) {
        const int32_t j = best[r].col[b];
        cols.x[b] = j;
        keys.x[b] = j < 0 ? 0 : int64_t(best[r].x[b] + v[j - p.col_id(0)]);
      }
      // The last row may be there twice, and is written twice alike.
      p.s.core_col[row[r] * classes + c] = cols;
      p.s.core_key[row[r] * classes + c] = keys;
      if (best[r].col[0] >= 0) least[r] = lesser(least[r], best[r].x[0]);
      horizon[r] = lesser(horizon[r], best[r].horizon());
    }
  }
  JAXMATCH_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const int64_t found = g.min(whole_or_far(least[r])), seen = g.min(whole_or_far(horizon[r]));
    if (g.lane == 0) tell(row[r], found, seen);
  }
}

// Selects the cores of row_of(k) for all k below `count`, at prices v. Calls
// tell(row, least, horizon), maybe twice alike, and also for masked rows.
template <bool kTurned, class Team, class P, class RowOf, class Tell>
JAXMATCH_APART void select_cores(Team& team, const P& problem, const double* v, int64_t count,
                                 RowOf row_of, uint32_t turn, Tell tell) {
  constexpr int kRows = Lanes::kCount > 1 ? 2 : 1;
  constexpr int kCols = Lanes::kCount == 1 ? 16 : P::kComputed ? 4 : 8;
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
    if (p.classes() == kClasses) {  // a number known to the compiler
      select_together<kTurned, kRows, kCols>(p, v, g, row, turn, kClasses, tell);
    } else {
      select_together<kTurned, kRows, kCols>(p, v, g, row, turn, p.classes(), tell);
    }
  });
}

// The same for all rows, each class every so many columns.
template <class Team, class P, class Tell>
JAXMATCH_FN void select_all_cores(Team& team, const P& p, const double* v, Tell tell) {
  select_cores<false>(team, p, v, p.s.n, [](int64_t k) { return k; }, 0, tell);
}

// The same for listed rows, where number `choice` of a solve turns the classes.
template <class Team, class P, class Tell>
JAXMATCH_FN void select_listed_cores(Team& team, const P& p, const double* v, const int32_t* list,
                                     int64_t count, uint32_t choice, Tell tell) {
  select_cores<true>(
      team, p, v, count, [list](int64_t k) { return int64_t(peek(list + k)); },
      choice * 0x9E3779B1u, tell);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_CORE_SELECT_H_
