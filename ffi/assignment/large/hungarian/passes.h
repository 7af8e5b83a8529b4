// Passes of the Hungarian methods over all costs. They are bound by memory bandwidth. A group of
// lanes processes several rows and words of columns together, where a word is 32 neighbouring
// columns. Many loads are then in flight, and a column's price is loaded once for all these rows.
//
// Slacks are integers below 2^53, exact in doubles; forbidden or masked pairs have slack +inf.
#ifndef JAXMATCH_LARGE_HUNGARIAN_PASSES_H_
#define JAXMATCH_LARGE_HUNGARIAN_PASSES_H_

#include "assignment/large/row_minima.h"

namespace jaxmatch::assignment::large {

// State of a column in a forward pass, which grows alternating trees from free rows. kInactive: not
// reached. kCovered: in a tree, with its matched row. kReverse: reached and free, so that it ends a
// path.
enum ColMark : int32_t { kInactive, kCovered, kReverse };

// Algorithm 1 of Date and Nagi (see steps.h), for one column: the least of cost minus row dual over
// every `step`-th row, from row `first` on.
template <class P>
JAXMATCH_DEVICE int64_t least_of_column(const P& p, int64_t j, int64_t first, int64_t step) {
  constexpr int kRowsAtOnce = 8;  // loads in flight together
  int64_t least = kFar;
  for (int64_t next = first; p.has_col(j) && next < p.s.n; next += kRowsAtOnce * step) {
    int64_t row[kRowsAtOnce];
    typename P::Element cost[kRowsAtOnce][1];
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      row[a] = next + a * step < p.s.n ? next + a * step : first;
    }
    p.costs.load(row, [&](int) { return j; }, cost);
    JAXMATCH_UNROLL
    for (int a = 0; a < kRowsAtOnce; ++a) {
      if (!p.has_row(row[a])) continue;
      const double u = double(load_relaxed(p.s.u + row[a]));
      least = lesser(least, whole_or_far(p.costs.key_of(cost[a][0]) - u));
    }
  }
  return least;
}

constexpr int kWordBits = 32;

// A window of a few rows and a few words of neighbouring columns. Each lane processes some of the
// columns.
template <class P, int kRowCount, int kMostWords>
struct Window {
  static constexpr int kRows = kRowCount, kShare = kWordBits / Lanes::kCount;
  static constexpr int kWords = kShare > 1                        ? 1
                                : sizeof(typename P::Element) > 4 ? kMostWords / 2
                                                                  : kMostWords;
  static constexpr int kCols = kWords * kShare;

  int64_t i[kRows];  // row numbers; the last one is repeated
  double u[kRows];

  template <class RowOf>
  JAXMATCH_DEVICE Window(const P& p, int count, RowOf row_of) {
    JAXMATCH_UNROLL
    for (int a = 0; a < kRows; ++a) {
      i[a] = row_of(lesser(a, count - 1));
      u[a] = double(load_relaxed(p.s.u + i[a]));
    }
  }
  // Reads the words from `word` on. For each row calls f(index of the row in the window, slacks of
  // this lane's columns). Columns that are not wanted have slack +inf. The lane's c-th column is
  // bit bit_of(g, c) of word c / kShare.
  template <class Wanted, class F>
  JAXMATCH_DEVICE void scan(const P& p, Lanes g, int64_t word, Wanted wanted, F f) const {
    const auto column = [&](int c) { return (word + c / kShare) * kWordBits + bit_of(g, c); };
    const auto within = [&](int c) { return lesser(column(c), p.s.m - 1); };
    typename P::Element cost[kRows][kCols];
    p.costs.load(i, within, cost);
    double v[kCols];
    JAXMATCH_UNROLL
    for (int c = 0; c < kCols; ++c) {
      const double price = load_relaxed(p.s.v_real + within(c));
      v[c] = column(c) < p.s.m && wanted(within(c)) ? price : -infinity();
    }
    JAXMATCH_UNROLL
    for (int a = 0; a < kRows; ++a) {
      double slack[kCols];
      JAXMATCH_UNROLL
      for (int c = 0; c < kCols; ++c) slack[c] = p.costs.key_of(cost[a][c]) - v[c] - u[a];
      f(a, slack);
    }
  }
  JAXMATCH_DEVICE static int bit_of(Lanes g, int c) { return c % kShare * Lanes::kCount + g.lane; }
};

template <class P>
using ZeroWindow = Window<P, 4, 4>;
template <class P>
using SlackWindow = Window<P, 8, 2>;  // more rows per load of the columns' marks

// Some words of columns of a few rows: the work item of a group of lanes. The rows are contiguous,
// or come from a list.
struct Stripe {
  int64_t first_row, first_word, last_word;
  int rows;
};

// Splits the words of `count` rows into stripes, so that all groups of lanes have work. Calls
// f(lanes, stripe) for each stripe.
template <class Rows, class Team, class P, class F>
JAXMATCH_DEVICE void for_each_stripe(Team& team, const P& p, int64_t count, F f) {
  // Usual number of windows per stripe. It is small, so that there are several stripes for each
  // group of lanes.
  constexpr int64_t kUsual = Rows::kShare > 1 ? 4 : 32 / Rows::kWords;
  const int64_t words = (p.s.m + kWordBits - 1) / kWordBits;
  const int64_t windows = (words + Rows::kWords - 1) / Rows::kWords;
  const int64_t groups = (count + Rows::kRows - 1) / Rows::kRows;
  const int64_t parts = greater((windows + kUsual - 1) / kUsual, team.shares(groups, windows));
  const int64_t width = (windows + parts - 1) / parts * Rows::kWords;
  team.rows(groups * parts, [&](Lanes g, int64_t k) {
    const int64_t row = k / parts * Rows::kRows, word = k % parts * width;
    const int rows = int(lesser(count - row, int64_t{Rows::kRows}));
    if (word < words) f(g, Stripe{row, word, lesser(word + width, words), rows});
  });
}

// Calls keep(problem, row, word, bits) for each row and word of a stripe. The set bits are the
// tight columns.
template <class P, class Keep>
JAXMATCH_NOINLINE void find_tight_of_stripe(const P& problem, Lanes g, Stripe stripe, Keep keep) {
  using Rows = ZeroWindow<P>;
  const P p = problem;
  const auto everywhere = [](int64_t) { return true; };
  const Rows rows(p, stripe.rows, [&](int a) { return stripe.first_row + a; });
  for (int64_t word = stripe.first_word; word < stripe.last_word; word += Rows::kWords) {
    rows.scan(p, g, word, everywhere, [&](int a, const double (&slack)[Rows::kCols]) {
      uint32_t tight[Rows::kWords] = {}, mine = 0;
      JAXMATCH_UNROLL
      for (int c = 0; c < Rows::kCols; ++c) {
        tight[c / Rows::kShare] |= uint32_t(slack[c] == 0) << Rows::bit_of(g, c);
      }
      JAXMATCH_UNROLL
      for (int w = 0; w < Rows::kWords; ++w) {
        const uint32_t of_all = g.bit_or(tight[w]);
        if (g.lane == w) mine = of_all;
      }
      if (a < stripe.rows && g.lane < Rows::kWords && word + g.lane < stripe.last_word) {
        keep(p, rows.i[a], word + g.lane, mine);
      }
    });
  }
}

// Calls keep(problem, row, word, bits) for the words of all rows, as find_tight_of_stripe() does
// for a stripe. Stores the prices in v_real, where other passes may use them until duals change.
template <class Team, class P, class Keep>
JAXMATCH_DEVICE void find_tight(Team& team, const P& p, Keep keep) {
  publish_prices(team, p);  // ends with a barrier
  for_each_stripe<ZeroWindow<P>>(
      team, p, p.s.n, [&](Lanes g, Stripe stripe) { find_tight_of_stripe(p, g, stripe, keep); });
  team.sync();
}

// Stores each tight pair as a bit. The bits are valid until duals change.
template <class Team, class P>
JAXMATCH_DEVICE void compress_tight(Team& team, const P& p) {
  find_tight(team, p, [](const P& its, int64_t i, int64_t word, uint32_t tight) {
    its.s.tight[i * ((its.s.m + kWordBits - 1) / kWordBits) + word] = tight;
  });
}

// The least slack in a stripe of listed rows, over columns outside the trees.
template <class P>
JAXMATCH_NOINLINE int64_t least_of_stripe(const P& problem, Lanes g, Stripe stripe,
                                          const int32_t* list) {
  using Rows = SlackWindow<P>;
  const P p = problem;
  const auto outside = [&](int64_t j) { return load_relaxed(p.s.on_path + j) == kInactive; };
  const Rows rows(p, stripe.rows, [&](int a) { return load_relaxed(list + stripe.first_row + a); });
  double least = infinity();
  for (int64_t word = stripe.first_word; word < stripe.last_word; word += Rows::kWords) {
    rows.scan(p, g, word, outside, [&](int, const double (&slack)[Rows::kCols]) {
      JAXMATCH_UNROLL
      for (int c = 0; c < Rows::kCols; ++c) least = lesser(least, slack[c]);
    });
  }
  return g.min(whole_or_far(least));
}

// Algorithm 7, stage 1 of the classical dual update: the least slack between rows of the trees and
// columns outside them, or kFar if there is none. `list` must have room for all rows, and `length`
// must be 0.
template <class Team, class P>
JAXMATCH_DEVICE int64_t least_outside_classical(Team& team, const P& p, int32_t* list,
                                                int32_t* length) {
  const LargeState& s = p.s;
  const int64_t count = list_rows(team, s.n, list, length,
                                  [&](int64_t i) { return load_relaxed(s.in_tree + i) != 0; });
  for_each_stripe<SlackWindow<P>>(team, p, count, [&](Lanes g, Stripe stripe) {
    const int64_t least = least_of_stripe(p, g, stripe, list);
    // Most groups would not lower the value; skipping their atomics avoids contention.
    if (g.lane == 0 && least < load_relaxed(&s.control->reach))
      atomic_min(&s.control->reach, least);
  });
  team.sync();
  return load_relaxed(&s.control->reach);
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_HUNGARIAN_PASSES_H_
