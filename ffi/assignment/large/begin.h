// The start of a solve: chooses the canonical rows, the unit of the quantised costs and the initial
// prices. Adds dummy rows of zeros to make a wide problem (more columns than rows) square.
#ifndef JAXMATCH_LARGE_BEGIN_H_
#define JAXMATCH_LARGE_BEGIN_H_

#include "assignment/large/core/bids.h"
#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

// Chooses the unit of the quantised costs. Costs that span at most kQuantBits bits are represented
// exactly. Otherwise costs are clamped at about 2^10 times the greatest column minimum, or higher
// if an earlier solution used a clamped cost. After an overflow the unit is so coarse that no label
// or price of a feasible problem can overflow.
template <class T>
JAXMATCH_DEVICE void choose_unit(const LargeProblem<T>& p) {
  Control& c = *p.s.control;
  c.exact = 1;
  c.factor = p.maximize ? -1 : 1;
  c.boost = 1;
  if (Integral<T>::value || c.range.most == 0) return;
  if (c.unit == kNoUnit) {
    c.factor = 0;
    return;
  }
  const auto exponent = [](int64_t bits) { return ilogb(real_of(uint64_t(bits))); };
  int bits = kQuantBits;
  for (int64_t n = p.s.n; c.unit == kCoarseUnit && n > 0; n >>= 1) --bits;
  int unit = exponent(c.range.lowest), top = exponent(c.range.most) + 1;
  if (top - unit > bits) {
    int clamp = c.columns_most > 0 ? exponent(c.columns_most) + 11 : unit + bits;
    if (c.used_most > 0) clamp = greater(clamp, exponent(c.used_most) + 1);
    if (c.unit == kFineUnit) top = lesser(top, clamp);
    if (top - unit > bits) {
      unit = top - bits;
      c.exact = 0;
    }
  }
  const int half = unit < -1000 ? 500 : 0;  // only for tiny doubles
  c.factor = ldexp(c.factor, -unit - half);
  c.boost = ldexp(1.0, half);
}

// True if there are more columns than rows. Dummy rows of zeros then take the surplus columns.
JAXMATCH_DEVICE inline bool has_spares(const Control& c) {
  return load_relaxed(&c.rows) < load_relaxed(&c.cols);
}

// Unmatches all rows and columns and sets the initial column prices. They are the column minima if
// there are as many rows as columns, otherwise zero.
template <class Team, class T>
JAXMATCH_DEVICE void begin(Team& team, LargeProblem<T>& p) {
  const LargeState& s = p.s;
  team.each(s.n, [&](int64_t i) {
    store_relaxed(s.col4row + i, int32_t(p.has_row(i) ? kFree : kAbsent));
  });
  const bool square = !has_spares(*s.control);
  team.leader([&] { s.control->spare_price = 0; });
  team.each(s.m, [&](int64_t j) {
    store_relaxed(s.row4col + j, int32_t(p.has_col(j) ? kFree : kAbsent));
    store_relaxed(s.bid + j, kNoBid);
    // scan_costs() left the least cost of each column in v_real (of negated costs, to maximise).
    const double least = load_relaxed(s.v_real + j) * fabs(p.costs.factor) * p.costs.boost;
    const bool used = square && p.has_col(j) && least < infinity();
    store_relaxed(s.v + j, used ? int64_t(p.costs.whole(least)) : 0);
  });
  team.sync();
}

// True for a leftover column: a free column at the greatest price, spare_price. Dummy rows take
// such columns, because a row of zeros prefers the greatest price.
JAXMATCH_DEVICE inline bool is_left(const LargeState& s, int64_t j) {
  return load_relaxed(s.row4col + j) == kFree &&
         load_relaxed(s.v + j) == load_relaxed(&s.control->spare_price);
}

// The number of free columns whose price is too low for a dummy row. Rows must take these columns.
template <class Team>
JAXMATCH_DEVICE int64_t count_cheaper(Team& team, const LargeState& s) {
  return team.sum(
      s.m, [&](int64_t j) { return load_relaxed(s.row4col + j) == kFree && !is_left(s, j); });
}

// Makes a wide problem square: assigns dummy rows to leftover columns, see is_left(). The first
// leftover columns stay free, so that there are as many free columns as free rows.
template <class Team, class T>
JAXMATCH_DEVICE void place_spares(Team& team, const LargeProblem<T>& p, int64_t free_rows) {
  const LargeState& s = p.s;
  const int64_t open_columns = free_rows - count_cheaper(team, s);
  team.leader_lanes([&](Lanes g) {
    int64_t left = open_columns;
    for (int64_t first = 0; first < s.m; first += g.kCount) {
      const int64_t j = first + g.lane;
      const bool open = j < s.m && is_left(s, j);
      const int rank = g.rank(open), count = g.sum(int(open));
      if (open && rank >= left) store_relaxed(s.row4col + j, int32_t(kSpare));
      left = greater(left - count, int64_t{0});
    }
  });
  team.sync();
}

// Chooses the side with fewer unmasked entries as the canonical rows. If both sides have equally
// many, it chooses the rows, or with `flip_equal` the columns. Swaps the sides of `p` if necessary.
template <class Team, class T>
JAXMATCH_DEVICE void orient(Team& team, LargeProblem<T>& p, bool flip_equal = false) {
  Control* const c = p.s.control;
  const int64_t rows = team.sum(p.s.n, [&](int64_t i) { return p.has_row(i); });
  const int64_t cols = team.sum(p.s.m, [&](int64_t j) { return p.has_col(j); });
  const bool flip = rows > cols || (flip_equal && rows == cols);
  team.leader([&] {
    c->rows = int32_t(lesser(rows, cols));
    c->cols = int32_t(greater(rows, cols));
    c->flip = flip;
  });
  if (flip) {
    const auto swap = [](auto& a, auto& b) {
      const auto kept = a;
      a = b;
      b = kept;
    };
    swap(p.s.n, p.s.m);
    p.costs.flip();
    swap(p.row_mask, p.col_mask);
  }
  team.sync();
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_BEGIN_H_
