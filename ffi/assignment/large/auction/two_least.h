// The least and the second-least reduced cost of a row.
#ifndef JAXMATCH_LARGE_AUCTION_TWO_LEAST_H_
#define JAXMATCH_LARGE_AUCTION_TWO_LEAST_H_

#include "assignment/large/rows.h"
#include "assignment/pair_hash.h"

namespace jaxmatch::assignment::large {

// The two least reduced costs of a row. Bids need no exact costs, so two_least() estimates them,
// and neither rounds costs to units nor clamps them.
struct TwoLeast {
  double least = infinity(), next = infinity();
  int32_t col = -1;  // the first column with the least reduced cost

  // Adds column j. Calls must be in order of increasing j, so that the first of several equal
  // columns is kept.
  JAXMATCH_INLINE void include(double x, int32_t j) {
    const bool better = x < least;
    const double higher = better ? least : x;
    next = lesser(next, higher);
    col = better ? j : col;
    least = better ? x : least;
  }
  JAXMATCH_INLINE void include_unordered(double x, int32_t j) {
    const bool better = x < least || (x == least && j < col);
    next = lesser(next, better ? least : x);
    col = better ? j : col;
    least = better ? x : least;
  }
  // Merges the results of all lanes; every lane gets the merged result.
  JAXMATCH_DEVICE static TwoLeast of_lanes(Lanes g, const TwoLeast& own) {
    TwoLeast all;
    all.least = g.min_real(own.least);
    all.col = g.min(own.least == all.least ? own.col : INT32_MAX);
    all.next = g.min_real(own.col == all.col ? own.next : own.least);
    if (!(all.least < infinity())) all.col = -1;
    return all;
  }
};

// Pseudorandom numbers below `size` that an auction adds to costs, see pair_hash.h.
struct Perturbation {
  double size;

  JAXMATCH_INLINE double of(int64_t row, int32_t col) const {
    return size * 0x1p-24 * double(pair_hash(uint32_t(row), uint32_t(col)));
  }
};

JAXMATCH_DEVICE inline int64_t spread_between(double least, double most) {
  return least < infinity() ? int64_t(most - least) : 0;
}

#if defined(__CUDACC__)

// Includes columns from `first` on. In each step every lane loads `kPacks` packs of neighbouring
// columns. Stops when fewer columns than a whole step remain before `last`. Returns the first
// column not included.
template <int kPacks, class P>
JAXMATCH_DEVICE int include_packs(const P& p, Lanes g, const double* v, int64_t i, int first,
                                  int last, Perturbation more, TwoLeast& own) {
  constexpr int kPack = 4, kStep = kPacks * kPack * Lanes::kCount;
  for (; first + kStep <= last; first += kStep) {
    typename P::Element cost[kPacks][kPack];  // loads in flight together
    const auto column = [&](int a) { return first + (a * Lanes::kCount + g.lane) * kPack; };
    JAXMATCH_UNROLL
    for (int a = 0; a < kPacks; ++a) p.costs.load_pack(i, column(a), cost[a]);
    JAXMATCH_UNROLL
    for (int a = 0; a < kPacks; ++a) {
      JAXMATCH_UNROLL
      for (int k = 0; k < kPack; ++k) {
        const int j = column(a) + k;
        own.include(p.costs.real_key_of(cost[a][k]) - v[j] + more.of(i, j), j);
      }
    }
  }
  return first;
}

// Finds the two least reduced costs of row i at prices v, in the columns from `first` to before
// `last`. `first` is a multiple of four. For computed costs listed_bids.h is used instead.
template <class P>
JAXMATCH_NOINLINE TwoLeast two_least(const P& problem, Lanes g, const double* v, int64_t i,
                                     int first, int last, Perturbation more) {
  constexpr int kCols = 8;  // loads in flight together
  const P p = problem;
  TwoLeast own;
  int j = first;
  if (p.costs.has_packs()) {
    j = include_packs<4>(p, g, v, i, j, last, more, own);
    j = include_packs<2>(p, g, v, i, j, last, more, own);
  }
  const int64_t row[1] = {i};
  for (j += g.lane; j < last; j += kCols * g.kCount) {
    const auto place = [&](int a) { return lesser(j + a * g.kCount, last - 1); };
    typename P::Element cost[1][kCols];
    double price[kCols];
    p.costs.load(row, place, cost);
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) price[a] = v[place(a)];
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      const int k = j + a * g.kCount;
      const double x = p.costs.real_key_of(cost[0][a]) - price[a] + more.of(i, k);
      own.include(k < last ? x : infinity(), k);
    }
  }
  return TwoLeast::of_lanes(g, own);
}

// The greatest difference between finite reduced costs of row i, or 0 if it has none.
template <class P>
JAXMATCH_NOINLINE int64_t spread_of_row(const P& problem, Lanes g, const double* v, int64_t i) {
  constexpr int kCols = P::kComputed ? 4 : 8;
  const P p = problem;
  const int64_t row[1] = {i};
  double most = -infinity(), least = infinity();
  for (int64_t j = g.lane; j < p.s.m; j += kCols * g.kCount) {
    const auto place = [&](int a) { return lesser(j + a * g.kCount, p.s.m - 1); };
    typename P::Element cost[1][kCols];
    p.costs.load(row, place, cost);
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      const double x = p.costs.key_of(cost[0][a]) - load_relaxed(v + place(a));
      most = x < infinity() ? greater(most, x) : most;
      least = lesser(least, x);
    }
  }
  return spread_between(g.min_real(least), -g.min_real(-most));
}

#else

template <class P>
TwoLeast two_least(const P& p, Lanes, const double* v, int64_t i, int first, int last,
                   Perturbation more) {
  TwoLeast own;
  vectorized([&]() JAXMATCH_VECTORIZED {
    typename P::Element cost[kVectorColumns];
    double reduced[kVectorColumns];
    for (int j = first; j < last; j += kVectorColumns) {
      const int count = lesser(last - j, kVectorColumns);
      p.costs.estimate_row(i, j, count, cost);
      for (int a = 0; a < count; ++a) {
        reduced[a] = p.costs.real_key_of(cost[a]) - v[j + a] + more.of(i, j + a);
      }
      uint32_t lower = 0;
      for (int a = 0; a < count; ++a) lower |= uint32_t(reduced[a] < own.next) << a;
      for (; lower != 0; lower &= lower - 1) {
        const int a = trailing_zeros(lower);
        own.include(reduced[a], j + a);
      }
    }
  });
  if (!(own.least < infinity())) own.col = -1;
  return own;
}

template <class P>
int64_t spread_of_row(const P& p, Lanes, const double* v, int64_t i) {
  double most = -infinity(), least = infinity();
  vectorized([&]() JAXMATCH_VECTORIZED {
    double reduced[kVectorColumns];
    for (int64_t j = 0; j < p.s.m; j += kVectorColumns) {
      const int count = int(lesser(p.s.m - j, int64_t{kVectorColumns}));
      reduce(p, v, i, j, count, reduced);
      for (int a = 0; a < count; ++a) {
        most = reduced[a] < infinity() ? greater(most, reduced[a]) : most;
        least = lesser(least, reduced[a]);
      }
    }
  });
  return spread_between(least, most);
}

#endif

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_TWO_LEAST_H_
