// Price refinement (Goldberg 1997). An auction leaves pairs with a slack of at most epsilon; label
// correcting makes them tight. Pairs on a negative cycle cannot become tight and are given up.
#ifndef JAXMATCH_LARGE_AUCTION_REFINE_H_
#define JAXMATCH_LARGE_AUCTION_REFINE_H_

#include "assignment/large/auction/relax.h"
#include "assignment/large/begin.h"
#include "assignment/large/row_minima.h"
#include "assignment/large/stop.h"

namespace jaxmatch::assignment::large {

constexpr int kMostRefineRounds = 32;

// Makes pairs tight, and frees the pairs that it cannot make tight in kMostRefineRounds rounds.
// Each row price is then the least reduced cost over all columns except leftover columns (see
// is_left()). Leftover columns keep their price.
template <class Team, class T>
JAXMATCH_DEVICE void refine_prices(Team& team, const LargeProblem<T>& p, int64_t& rounds) {
  const LargeState& s = p.s;
  int32_t* const lengths = s.control->frontier;
  const bool spares = has_spares(*s.control);
  team.leader([&] { lengths[0] = lengths[1] = 0; });
  team.each(s.m, [&](int64_t j) { store_relaxed(s.seen + j, load_relaxed(s.v + j)); });
  team.sync();
  int64_t count = list_rows(team, s.n, s.frontier, lengths, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j < 0) return false;
    const double u = p.costs.key_of(p.costs.raw(i, j)) - load_relaxed(s.v_real + j);
    store_relaxed(s.base + i, u);
    return true;
  });
  // Prices are the labels: v_j falls to the least C_ij - u_i, and u of the row matched to column j
  // rises by the same amount.
  int turn = 0;
  const auto goes_on = [&](int round) {
    return count > 0 && round < kMostRefineRounds && !is_late(team, s);
  };
  for (int round = 0; goes_on(round); ++round, ++rounds, turn ^= 1) {
    team.leader([&] { store_relaxed(lengths + !turn, 0); });
    relax_rows(
        team, p, s.frontier + turn * s.n, count, s.v,
        [spares](const LargeProblem<T>& its, int64_t j) { return !spares || !is_left(its.s, j); },
        [](int64_t) { return 0.0; });
    count = list_fallen(team, s, s.v, s.frontier + !turn * s.n, lengths + !turn,
                        [&](int32_t i, int64_t j, int64_t old, int64_t now) {
                          store_relaxed(s.v_real + j, double(now));
                          if (i >= 0) {
                            store_relaxed(s.base + i, load_relaxed(s.base + i) + double(old - now));
                          }
                        });
  }
  const int32_t* const left = s.frontier + turn * s.n;
  team.each(count, [&](int64_t k) {
    const int32_t i = load_relaxed(left + k), j = load_relaxed(s.col4row + i);
    store_relaxed(s.row4col + j, int32_t(kFree));
    store_relaxed(s.col4row + i, int32_t(kFree));
  });
  team.sync();
}

// Frees the rows for which a leftover column has become cheaper than their own column. cost_of(i,
// j) is the cost of row i's pair.
template <class Team, class CostOf>
JAXMATCH_DEVICE void free_slack_rows(Team& team, const LargeState& s, const CostOf& cost_of) {
  team.each(s.n, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j < 0) return;
    if (cost_of(i, j) - load_relaxed(s.v_real + j) <= double(load_relaxed(s.u + i))) return;
    store_relaxed(s.row4col + j, int32_t(kFree));
    store_relaxed(s.col4row + i, int32_t(kFree));
  });
  team.sync();
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_REFINE_H_
