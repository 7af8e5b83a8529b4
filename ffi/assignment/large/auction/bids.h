// An auction with epsilon scaling (Bertsekas and Castanon 1991). In each round every free row bids
// for its best column, and all rows bid at the same prices. A scale ends once few rows are free,
// because the last rows would bid against each other for a long time. The core method
// (core/solve.h) matches them instead, with candidates selected at the prices of the auction. In a
// wide problem (more columns than rows), dummy rows of zeros bid for the surplus columns.
#ifndef JAXMATCH_LARGE_AUCTION_BIDS_H_
#define JAXMATCH_LARGE_AUCTION_BIDS_H_

#include "assignment/large/auction/bid_window.h"
#include "assignment/large/auction/listed_bids.h"
#include "assignment/large/auction/two_least.h"
#include "assignment/large/begin.h"
#include "assignment/large/core/bids.h"
#include "assignment/large/row_minima.h"
#include "assignment/large/stop.h"

namespace jaxmatch::assignment::large {

// Epsilon in the first and in the last scale is the spread of the costs, see find_spread(), divided
// by these numbers.
constexpr int64_t kFirstEpsilon = 32, kLastEpsilon = int64_t{1} << 26;
// A scale ends when at most 1 in kStopPart rows, or kFewestFree rows, are free. It also ends after
// kRoundsPerRow rounds per row, because rows of an infeasible problem bid forever.
constexpr int64_t kStopPart = 128, kFewestFree = 4, kRoundsPerRow = 4;
// In a wide problem a scale does not end before few dummy rows lack a column: at most as many as
// other rows may be free, and at most 1 in kLackingPart of all dummy rows.
constexpr int64_t kLackingPart = 4;

// An auction is given up if a price falls below this. The margin above -kMostPrice keeps prices
// exact in doubles for a few more bids of any size.
constexpr int64_t kLeastAuctionPrice = 4 * kMostRaise - kMostPrice;

struct Played {
  int64_t rounds = 0, bids = 0;
};

// The greatest difference between finite reduced costs of the same row, at the prices in v_real.
// Reads every `step`-th row.
template <class Team, class T>
JAXMATCH_DEVICE int64_t find_spread(Team& team, const LargeProblem<T>& p, int64_t step) {
  const LargeState& s = p.s;
  team.leader([&] { s.control->reach = 0; });
  team.sync();
  team.rows((s.n + step - 1) / step, [&](Lanes g, int64_t k) {
    if (!p.has_row(k * step)) return;
    const int64_t spread = spread_of_row(p, g, s.v_real, k * step);
    if (g.lane == 0 && spread > load_relaxed(&s.control->reach)) {
      atomic_max(&s.control->reach, spread);
    }
  });
  team.sync();
  return load_relaxed(&s.control->reach);
}

// Frees each row whose pair has a reduced cost more than epsilon above the row's least. Then lists
// all free rows and returns their number.
template <class Team, class T>
JAXMATCH_DEVICE int64_t begin_scale(Team& team, const LargeProblem<T>& p, int64_t epsilon) {
  const LargeState& s = p.s;
  team.leader([&] { s.control->frontier[0] = s.control->frontier[1] = 0; });
  team.each(s.n, [&](int64_t i) {
    store_relaxed(s.u + i, kFar);
    if constexpr (ListsColumns<LargeProblem<T>>::value) lower_horizon(s, i, epsilon);
  });
  team.sync();
  find_least_of_all(team, p, team.prices(s),
                    [u = s.u](int64_t i, int64_t x) { atomic_min(u + i, x); });
  team.sync();
  return list_rows(team, s.n, s.frontier, s.control->frontier, [&](int64_t i) {
    if (!p.has_row(i)) return false;
    const int32_t j = load_relaxed(s.col4row + i);
    if (j < 0) return true;
    const double slack = p.costs.key_of(p.costs.raw(i, j)) - load_relaxed(s.v_real + j);
    if (slack <= double(load_relaxed(s.u + i) + epsilon)) return false;
    store_relaxed(s.row4col + j, int32_t(kFree));
    store_relaxed(s.col4row + i, int32_t(kFree));
    return true;
  });
}

// Finds the two least perturbed reduced costs of each listed row, and calls publish(lanes, k,
// found) for the k-th of `count` rows.
template <class Team, class P, class Publish>
JAXMATCH_DEVICE void find_bids(Team& team, const P& p, const int32_t* rows, int64_t count,
                               Perturbation more, Publish publish) {
  if constexpr (ListsColumns<P>::value) {
    ListedBids<P>(p, more).bid(rows, count, publish);
  } else {
    team.template share_rows<TwoLeast>(
        count, p.s.m,
        [&](Lanes g, int64_t k, int64_t first, int64_t last) {
          return two_least(p, g, p.s.v_real, load_relaxed(rows + k), int(first), int(last), more);
        },
        publish);
  }
}

// Gives column j to row i, which made the greatest bid for it. Returns the row that loses the
// column, or a negative number.
JAXMATCH_DEVICE inline int32_t take_column(const LargeState& s, int32_t i, int32_t j,
                                           uint64_t bid) {
  const int64_t price = load_relaxed(s.v + j) - raise_of(bid);
  store_relaxed(s.v + j, price);
  store_relaxed(s.v_real + j, double(price));
  if (price < kLeastAuctionPrice) store_relaxed(&s.control->too_wide, 1);
  store_relaxed(s.bid + j, kNoBid);
  const int32_t owner = load_relaxed(s.row4col + j);
  store_relaxed(s.row4col + j, i);
  store_relaxed(s.col4row + i, j);
  if (owner >= 0) store_relaxed(s.col4row + owner, int32_t(kFree));
  return owner;
}

// One round: the `count` listed rows bid, and each column goes to the greatest raise, or among
// equal raises to the first row. Then lists the rows of the window that lost their bid or their
// column. Returns the number of bids that lost.
template <class Team, class T>
JAXMATCH_DEVICE int64_t play_round(Team& team, const LargeProblem<T>& p, int64_t count, int turn,
                                   int64_t epsilon, const BidWindow& window) {
  const LargeState& s = p.s;
  const int32_t* const rows = s.frontier + turn * s.n;
  int32_t *const next = s.frontier + !turn * s.n, *const length = s.control->frontier + !turn;
  team.leader([&] { store_relaxed(length, 0); });
  find_bids(team, p, rows, count, {double(epsilon)}, [&](Lanes g, int64_t k, const TwoLeast& two) {
    if (g.lane != 0) return;
    const int32_t i = load_relaxed(rows + k);
    store_relaxed(s.bid_col + k, two.col);
    store_relaxed(s.base + i, two.next);
    if (two.col < 0) return;
    // If a row has only one allowed column, any raise is valid. The raise is only epsilon, because
    // other rows may need that column, too.
    const double gain = two.next < infinity() ? two.next - two.least : 0;
    atomic_min(s.bid + two.col, pack_bid(int64_t(lesser(gain, double(kMostRaise))) + epsilon, i));
  });
  team.sync();
  return team.sum(count, [&](int64_t k) {
    const int32_t i = load_relaxed(rows + k), j = load_relaxed(s.bid_col + k);
    // The row cannot bid: all its allowed columns cost more than these units can express. Searches
    // over all costs will decide whether it can be matched.
    if (j < 0) return false;
    const auto list = [&](int32_t row) {
      if (window.has(row)) store_relaxed(next + atomic_add(length), row);
    };
    const uint64_t bid = load_relaxed(s.bid + j);
    if (row_of_bid(bid) != i) {
      list(i);
      return true;
    }
    const int32_t owner = take_column(s, i, j, bid);
    if (owner >= 0) list(owner);
    return false;
  });
}

// Lists the free rows of the window. Returns their number.
template <class Team, class T>
JAXMATCH_DEVICE int64_t list_window(Team& team, const LargeProblem<T>& p, int turn,
                                    const BidWindow& window) {
  const LargeState& s = p.s;
  team.leader([&] { store_relaxed(s.control->frontier + turn, 0); });
  team.sync();
  return list_rows(team, s.n, s.frontier + turn * s.n, s.control->frontier + turn, [&](int64_t i) {
    return window.has(i) && p.has_row(i) && load_relaxed(s.col4row + i) == kFree;
  });
}

// Lets the dummy rows bid if more than `few` of them lack a column. Dummy rows are alike and bid
// together: each call lowers spare_price by one step, and all columns above this price fall to it.
// Steps grow as Fibonacci numbers. A row whose column was above the price loses it to a dummy row
// if another column is now cheaper by more than epsilon. Such rows are appended to the list.
// cost_of(i, j) is the cost of row i's pair. `count`: the number of free rows. Returns the number
// of rows appended, or -1 if the dummy rows did not bid.
template <class Team, class T, class CostOf>
JAXMATCH_DEVICE int64_t lower_spare_price(Team& team, const LargeProblem<T>& p, int64_t count,
                                          int turn, int64_t epsilon, int64_t few,
                                          const CostOf& cost_of) {
  const LargeState& s = p.s;
  Control& c = *s.control;
  if (!has_spares(c) || count_cheaper(team, s) - count <= few) return -1;
  const int64_t lower = load_relaxed(&c.spare_price) - load_relaxed(&c.spare_step);
  int32_t *const list = s.frontier + turn * s.n, *const length = c.frontier + turn;
  const int64_t added = team.sum(s.n, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j < 0 || load_relaxed(s.v + j) <= lower) return false;
    const double pays = cost_of(i, j) - double(lower);
    if (pays <= load_relaxed(s.base + i) + double(epsilon)) return false;
    store_relaxed(s.row4col + j, int32_t(kFree));
    store_relaxed(s.col4row + i, int32_t(kFree));
    store_relaxed(list + atomic_add(length), int32_t(i));
    return true;
  });
  team.leader([&] {
    c.spare_price = lower;
    const int64_t step = c.spare_step;
    c.spare_step = c.next_spare_step;
    c.next_spare_step += step;
  });
  team.each(s.m, [&](int64_t j) {
    if (!p.has_col(j) || load_relaxed(s.v + j) <= lower) return;
    store_relaxed(s.v + j, lower);
    store_relaxed(s.v_real + j, double(lower));
  });
  team.sync();
  return added;
}

template <class Team, class T>
JAXMATCH_DEVICE int64_t lower_spare_price(Team& team, const LargeProblem<T>& p, int64_t count,
                                          int turn, int64_t epsilon, int64_t few) {
  return lower_spare_price(team, p, count, turn, epsilon, few, [&p](int64_t i, int64_t j) {
    return p.costs.key_of(p.costs.raw(i, j));
  });
}

// How many dummy rows may lack a column when a scale of a wide problem ends.
JAXMATCH_DEVICE inline int64_t most_lacking(const Control& c, int64_t stop) {
  return lesser(stop, int64_t(load_relaxed(&c.cols) - load_relaxed(&c.rows)) / kLackingPart);
}

// Runs one scale, and adds its rounds and bids to `done`. Returns the number of free rows, or -1 if
// the scale was given up.
template <class Team, class T>
JAXMATCH_DEVICE int64_t play_scale(Team& team, const LargeProblem<T>& p, int64_t epsilon,
                                   Played& done) {
  Control& c = *p.s.control;
  const int64_t rows = load_relaxed(&c.rows), stop = greater(rows / kStopPart, kFewestFree);
  const int64_t few = most_lacking(c, stop);
  team.leader([&] { c.spare_step = c.next_spare_step = epsilon; });
  int64_t count = begin_scale(team, p, epsilon);
  const int64_t most = done.rounds + kRoundsPerRow * rows;
  BidWindow window(p.s.m);
  int turn = 0;
  for (; done.rounds < most && !load_relaxed(&c.too_wide) && !is_late(team, p.s); ++done.rounds) {
    if (window.widens(count)) {
      turn ^= 1;
      count = list_window(team, p, turn, window);
    } else if (count > stop || !window.is_open()) {
      const int64_t lost = play_round(team, p, count, turn, epsilon, window);
      done.bids += count;
      turn ^= 1;
      if (window.narrows(count, lost)) {
        turn ^= 1;
        count = list_window(team, p, turn, window);
      } else {
        count = load_relaxed(c.frontier + turn);
      }
    } else {
      const int64_t added = lower_spare_price(team, p, count, turn, epsilon, few);
      if (added < 0) return count;
      count += added;
    }
  }
  return -1;
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_BIDS_H_
