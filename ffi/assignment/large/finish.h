// Results of a large solve: pairs, value, duals, and a proved bound on the gap to the optimal
// value.
#ifndef JAXMATCH_LARGE_FINISH_H_
#define JAXMATCH_LARGE_FINISH_H_

#include "assignment/large/problem.h"
#include "common/dtype.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// Where the results of one problem are written.
struct LargeResults {
  int32_t *col4row, *row4col, *status;
  void *value, *row_dual, *col_dual, *gap;
  bool wide;  // results are float64, else float32

  JAXMATCH_DEVICE void write(void* array, int64_t at, double x) const {
    if (wide) {
      static_cast<double*>(array)[at] = x;
    } else {
      static_cast<float*>(array)[at] = float(x);
    }
  }
};

// Column prices as real numbers on the scale of the costs, relative to spare_price. They are
// multiplied by 2^-64 if sums of them might overflow a double.
struct RealPrices {
  const int64_t* v;
  double shrink, unscale;
  int64_t base;

  template <class T>
  JAXMATCH_DEVICE explicit RealPrices(const LargeProblem<T>& p)
      : v(p.s.v), shrink(1), base(load_relaxed(&p.s.control->spare_price)) {
    const double unit = 1 / fabs(p.costs.factor) / p.costs.boost;
    const double most = real_of(uint64_t(load_relaxed(&p.s.control->range.most)));
    if (unit > 0x1p900 || most > 0x1p900) shrink = 0x1p-64;
    unscale = unit * shrink;
  }
  JAXMATCH_DEVICE double reduced(double cost, int64_t j) const {
    return cost * shrink - double(load_relaxed(v + j) - base) * unscale;
  }
  // A bound on the error that underflow causes in two scaled numbers.
  JAXMATCH_DEVICE double rounding() const { return shrink < 1 ? 0x1p-1072 : 0; }
};

// The least reduced cost of row i, scaled as RealPrices are.
template <class T>
JAXMATCH_DEVICE double least_real(const LargeProblem<T>& p, Lanes g, int64_t i) {
  const RealPrices prices(p);
  const double sign = p.maximize ? -1 : 1;
  double least = infinity();
  for (int64_t j = g.lane; j < p.s.m; j += g.kCount) {
    if (!p.has_col(j)) continue;
    const double x = prices.reduced(sign * p.costs.real(i, j), j);
    least = x < least ? x : least;
  }
  return g.min_real(least);
}

// Costs of a solution, read from the problem.
template <class T>
struct DirectCosts {
  const LargeProblem<T>& p;

  JAXMATCH_DEVICE double real(int64_t i, int64_t j) const { return p.costs.real(i, j); }
  JAXMATCH_DEVICE double least(Lanes g, int64_t i) const { return least_real(p, g, i); }
};

// An upper bound on the slack of row i's pair, scaled as RealPrices are. It is at least 0, and +inf
// if it would be NaN.
template <class T, class Costs>
JAXMATCH_DEVICE double row_gap(const LargeProblem<T>& p, const Costs& costs, Lanes g, int64_t i) {
  const int32_t mine = load_relaxed(p.s.col4row + i);
  const RealPrices prices(p);
  const double paid = prices.reduced((p.maximize ? -1 : 1) * costs.real(i, mine), mine);
  const double least = costs.least(g, i);
  // The added terms bound the rounding errors of `paid`, `least`, their difference, and a sum over
  // all rows.
  const double gap = paid - least + 0x1p-51 * (fabs(paid) + fabs(least)) + prices.rounding();
  return gap > 0 ? gap : gap <= 0 ? 0 : infinity();
}

// The part of the gap that free columns cause in a solve stopped at its time limit. In an optimum
// of a wide problem all free columns have the price spare_price, so each contributes the distance
// of its price to spare_price.
template <class Team, class T>
JAXMATCH_DEVICE double gap_of_free_columns(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const RealPrices prices(p);
  double* const parts = reinterpret_cast<double*>(s.label);
  team.each(s.m, [&](int64_t j) {
    const bool free = p.has_col(j) && load_relaxed(s.row4col + j) < 0;
    parts[j] = free ? greater(prices.reduced(0, j), 0.0) : 0;
  });
  return team.ordered_sum(s.m, parts);
}

// Writes all results. All threads of the team call it. For an unfinished problem it writes the
// current pairs.
template <class Team, class T, class Costs>
JAXMATCH_DEVICE void write_results(Team& team, const LargeProblem<T>& p, const LargeResults& r,
                                   const Costs& costs) {
  const LargeState& s = p.s;
  const bool flip = load_relaxed(&s.control->flip);
  const bool finished = load_relaxed(&s.control->stage) >= kFinish;
  const int32_t status = finished ? load_relaxed(&s.control->status) : int32_t(kUnfinished);
  const bool begun = load_relaxed(&s.control->stage) > kSelect;
  const bool late = status == kTimeLimit, proved = status == kOptimal || late;
  const bool shows_pairs = begun && (proved || status == kUnfinished);
  const double nan = real_of(uint64_t{0x7ff8} << 48);
  const double unscale = 1 / fabs(p.costs.factor) / p.costs.boost, sign = p.maximize ? -1 : 1;
  const int64_t base = load_relaxed(&s.control->spare_price);
  const bool empty = load_relaxed(&s.control->rows) == 0;
  team.each(s.n, [&](int64_t i) {
    const int32_t j = shows_pairs && !empty ? load_relaxed(s.col4row + i) : -1;
    (flip ? r.row4col : r.col4row)[i] = greater(j, -1);
    const double u = empty || !p.has_row(i) ? 0 : double(load_relaxed(s.u + i) + base) * unscale;
    r.write(flip ? r.col_dual : r.row_dual, i, proved ? sign * u : nan);
  });
  team.each(s.m, [&](int64_t j) {
    const int32_t i = shows_pairs && !empty ? load_relaxed(s.row4col + j) : -1;
    (flip ? r.col4row : r.row4col)[j] = greater(i, -1);
    const double v = empty || !p.has_col(j) ? 0 : double(load_relaxed(s.v + j) - base) * unscale;
    r.write(flip ? r.row_dual : r.col_dual, j, proved ? sign * v : nan);
  });
  // The value is summed as integers, high and low bits separately, so that it does not depend on
  // the order of additions.
  constexpr int64_t kHalf = int64_t{1} << 26;
  double value = 0, gap = 0;
  if (late && load_relaxed(&s.control->free_rows) > 0) {
    value = sign * infinity();
    gap = infinity();
  } else if (proved && !empty) {
    const auto key = [&](int64_t i) {
      const int32_t j = load_relaxed(s.col4row + i);
      return j >= 0 ? int64_t(p.costs.key_of_real(costs.real(i, j))) : 0;
    };
    const int64_t high = team.wide_sum(s.n, [&](int64_t i) { return key(i) >> 26; });
    const int64_t low = team.wide_sum(s.n, [&](int64_t i) { return key(i) & (kHalf - 1); });
    value = (double(high) * double(kHalf) + double(low)) * unscale * sign;
    const bool exact = load_relaxed(&s.control->exact);
    // An optimal solution uses no clamped costs, but a solution completed at the time limit may.
    if (!exact || (late && !Integral<T>::value)) {
      double* const parts = reinterpret_cast<double*>(s.nearest);
      team.each(s.n, [&](int64_t i) {
        const int32_t j = load_relaxed(s.col4row + i);
        parts[i] = j >= 0 ? costs.real(i, j) : 0;
      });
      value = team.ordered_sum(s.n, parts);
    }
    if (!exact || late) {
      double* const parts = reinterpret_cast<double*>(s.nearest);
      team.rows(s.n, [&](Lanes g, int64_t i) {
        const double x = p.has_row(i) ? row_gap(p, costs, g, i) : 0;
        if (g.lane == 0) parts[i] = x;
      });
      gap = team.ordered_sum(s.n, parts);
      if (late) gap += gap_of_free_columns(team, p);
      gap = gap / RealPrices(p).shrink * (1 + 0x1p-30);
    }
  }
  team.sync();
  team.leader([&] {
    r.write(r.value, 0, proved ? value : nan);
    // The gap is an upper bound, so it is rounded up.
    r.write(r.gap, 0, proved ? (r.wide || gap == 0 ? gap : gap * (1 + 0x1p-23) + 0x1p-149) : nan);
    *r.status = status;
    if (finished) s.control->stage = kDone;
  });
}
template <class Team, class T>
JAXMATCH_DEVICE void write_results(Team& team, const LargeProblem<T>& p, const LargeResults& r) {
  write_results(team, p, r, DirectCosts<T>{p});
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_FINISH_H_
