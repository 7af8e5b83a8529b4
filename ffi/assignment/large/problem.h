// One large problem: its costs, masks and state, and the scan over all costs.
#ifndef JAXMATCH_LARGE_PROBLEM_H_
#define JAXMATCH_LARGE_PROBLEM_H_

#include "assignment/large/state.h"

namespace jaxmatch::assignment::large {

template <class T>
struct LargeProblem {
  LargeState s;
  QuantizedCosts<T> costs;
  const uint8_t *row_mask, *col_mask;  // of canonical rows and columns, or null
  bool maximize;

  using Element = typename ElementOf<T>::Type;
  using Range = typename RangeFor<Element>::Type;
  JAXMATCH_DEVICE void include(Range& range, Element cost) const {
    if constexpr (!Integral<Element>::value) range.include(single(cost), maximize);
  }
  JAXMATCH_DEVICE bool has_row(int64_t i) const { return !row_mask || row_mask[i]; }
  JAXMATCH_DEVICE bool has_col(int64_t j) const { return !col_mask || col_mask[j]; }
  // Shard (assignment/large/sharded/state.h) overrides the next three functions.
  JAXMATCH_DEVICE static constexpr int classes() { return kColumnClasses; }
  JAXMATCH_DEVICE static constexpr int64_t row_id(int64_t i) { return i; }
  JAXMATCH_DEVICE static constexpr int64_t col_id(int64_t j) { return j; }

  // Converts the cost of row i and column j to units. PerturbedShard, in an auction of sharded
  // costs, adds a perturbation.
  JAXMATCH_DEVICE double key_at(int64_t, int64_t, Element cost) const { return costs.key_of(cost); }

  static constexpr bool kComputed = ElementOf<T>::is_computed;

  // Finds the least cost of each of the columns first, first + step, ... before `last`, among the
  // rows from `row` to before `last_row`. To maximise, costs are negated. Extends `range` by all
  // costs read. Calls f(column, least) for unmasked columns.
  template <int kRows, int kCols, class F>
  JAXMATCH_DEVICE void least_of_columns(int first, int step, int last, int64_t row,
                                        int64_t last_row, Range& range, F f) const {
    const auto exists = [&](int j) { return j < last && has_col(j); };
    int some = first;
    while (some < last && !has_col(some)) some += step;
    while (row < last_row && !has_row(row)) ++row;
    if (some >= last || row >= last_row) return;
    // Masked rows and columns are replaced by unmasked ones. Duplicates do not change a minimum,
    // and without branches all loads are in flight together.
    int at[kCols];
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      at[a] = exists(first + a * step) ? first + a * step : some;
    }
    using Ordered = decltype(ordered(Element{}, true));
    Ordered best[kCols];
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) best[a] = worst<Ordered>();
    const auto scan = [&](auto place) {
      int64_t present = row;
      for (int64_t next = row; next < last_row; next += kRows) {
        int64_t i[kRows];
        JAXMATCH_UNROLL
        for (int r = 0; r < kRows; ++r) {
          if (next + r < last_row && has_row(next + r)) present = next + r;
          i[r] = present;
        }
        Element cost[kRows][kCols];
        costs.load(i, place, cost);
        JAXMATCH_UNROLL
        for (int r = 0; r < kRows; ++r) {
          JAXMATCH_UNROLL
          for (int a = 0; a < kCols; ++a) {
            best[a] = lesser(best[a], ordered(cost[r][a], maximize));
            include(range, cost[r][a]);
          }
        }
      }
    };
    if (!col_mask && first + (kCols - 1) * step < last) {  // most warps do not diverge here
      scan([&](int a) { return first + a * step; });
    } else {
      scan([&](int a) { return at[a]; });
    }
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      if (at[a] == first + a * step) f(at[a], real_of_ordered(best[a], maximize));
    }
  }

  // Calls f(column, slack) for the candidates of row i.
  template <class F>
  JAXMATCH_DEVICE void for_each_candidate(Lanes g, int64_t i, F f) const {
    const int64_t u = load_relaxed(s.u + i);
    for (int c = g.lane; c < kColumnClasses; c += g.kCount) {
      const ClassCols col = s.core_col[i * kColumnClasses + c];
      ClassKeys slack = s.core_key[i * kColumnClasses + c];
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b)
        slack.x[b] -= u + load_relaxed(s.v + greater(col.x[b], 0));
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        if (col.x[b] >= 0) f(col.x[b], slack.x[b]);
      }
    }
  }
};

// Computes the range of all costs, and stores the column minima in v_real. Ends with a barrier.
template <class Team, class P>
JAXMATCH_NOINLINE void scan_costs(Team& team, const P& problem) {
  P p = problem;
  team.scan_costs(p);
}

JAXMATCH_DEVICE inline bool is_large_price(int64_t v) { return v > kMostPrice || v < -kMostPrice; }

// Stores column prices as doubles for the passes over all costs. Returns the number of prices that
// are too large for exact doubles.
template <class Team, class T>
JAXMATCH_DEVICE int64_t publish_prices(Team& team, const LargeProblem<T>& p) {
  return team.sum(p.s.m, [&](int64_t j) {
    const int64_t v = load_relaxed(p.s.v + j);
    store_relaxed(p.s.v_real + j, p.has_col(j) ? double(v) : -infinity());
    return is_large_price(v);
  });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_PROBLEM_H_
