// An auction for sharded costs: a row bids from its candidate set (a few columns with small reduced
// costs) as long as this set determines the bid.
//
// Every device keeps the candidates of all rows, with a lower bound on the reduced costs of all
// other columns: the horizon. Prices only fall during an auction, so a horizon holds until
// candidates are selected anew. All devices make the same bids without an exchange. A bid for the
// cheapest candidate needs no other column while that candidate is below the horizon. A row whose
// candidates are all beyond the horizon waits. When most free rows wait, the devices that own them
// select their candidates anew at the current prices, and all devices gather these. If they fit
// into packed blocks (see PackedBlocks), they are gathered in packed form, and no device reads or
// writes data of other rows.
//
// In a wide problem (more columns than rows), dummy rows of zeros bid for the surplus columns, see
// lower_spare_price(). Devices know all that these bids depend on.
//
// Candidates are selected by perturbed costs, because all bids of a scale use perturbed costs.
// Otherwise rows of nearly equal costs would have the same candidates, far too few for all of them.
#ifndef JAXMATCH_LARGE_SHARDED_AUCTION_H_
#define JAXMATCH_LARGE_SHARDED_AUCTION_H_

#include "assignment/large/auction/bids.h"
#include "assignment/large/sharded/core.h"
#include "assignment/large/sharded/packed.h"
#include "assignment/large/sharded/refine.h"

namespace jaxmatch::assignment::large {

// Candidates are selected anew when the number of waiting rows is at least kWaitingPart times the
// number of rows that can still bid.
constexpr int64_t kWaitingPart = 8;
// Limits on candidate selections, per scale and per auction, because rows of an infeasible problem
// bid forever. With lower limits, scales leave too many rows to the next scales and to searches.
constexpr int32_t kMostExchangesOfScale = 256, kMostExchanges = 1024;

// The number added to a cost in a scale, a whole number of units.
JAXMATCH_DEVICE inline double whole_perturbation(double epsilon, int64_t row, int64_t col) {
  const double x = Perturbation{epsilon}.of(row, int32_t(col));
  return (x + 0x1.8p52) - 0x1.8p52;
}

// The perturbed costs of a shard in a scale.
template <class T>
struct PerturbedShard : Shard<T> {
  double epsilon;

  JAXMATCH_DEVICE double key_at(int64_t i, int64_t j, typename Shard<T>::Element cost) const {
    return this->costs.key_of(cost) + whole_perturbation(epsilon, this->row_id(i), this->col_id(j));
  }
};

template <class T>
JAXMATCH_DEVICE PerturbedShard<T> perturbed(const Sharded<T>& d) {
  PerturbedShard<T> shard;
  static_cast<Shard<T>&>(shard) = d.shard;
  shard.epsilon = double(load_relaxed(&d.p.s.control->epsilon));
  return shard;
}

// Selects the candidates of this shard's rows that are marked in in_tree, and requests their
// exchange.
template <class Team, class T>
JAXMATCH_DEVICE Next request_candidates(Team& team, Sharded<T>& d) {
  team.leader([&] { store_relaxed(d.p.s.control->frontier, 0); });
  publish_prices(team, d.p);
  reset_reduction(team, d);
  select_repriced(team, d, perturbed(d), load_relaxed(&d.continuation->exchanges));
  return {kPlayRounds, kRequestCores};
}

// Selects the candidates of the `waiting` rows in s.listed, and requests their exchange.
template <class Team, class T>
JAXMATCH_DEVICE Next request_for_waiting(Team& team, Sharded<T>& d, int64_t waiting, int turn) {
  const LargeState& s = d.p.s;
  const Partition& partition = d.partition;
  const int classes = partition.classes();
  int32_t* const mine = s.frontier + !turn * s.n;  // the list that is not in use
  int32_t* const length = s.control->frontier + !turn;
  // Number of waiting rows per device. This memory is not otherwise used during an auction.
  int32_t* const rows_of = d.listed;
  team.leader([&] { store_relaxed(length, 0); });
  team.each(partition.devices, [&](int64_t k) { store_relaxed(rows_of + k, 0); });
  team.sync();
  const int64_t count = team.sum(waiting, [&](int64_t k) {
    const int64_t i = load_relaxed(s.listed + k);
    const int64_t owner = partition.by_rows ? i / partition.each : partition.me;
    atomic_add(rows_of + owner);
    store_relaxed(s.horizon + i, kFar);
    if (owner != partition.me) return false;
    store_relaxed(mine + atomic_add(length), int32_t(i - d.shard.row0));
    return true;
  });
  int64_t most = 0;  // all devices compute the same value
  for (int64_t k = 0; k < partition.devices; ++k) {
    most = greater(most, int64_t(load_relaxed(rows_of + k)));
  }
  const PackedBlocks& packed = d.packed;
  if (most > packed.room(packed.bytes, classes)) {
    team.sync();
    return request_candidates(team, d);
  }
  select_packed(team, d, perturbed(d), mine, count, load_relaxed(&d.continuation->exchanges));
  team.leader([&] { d.continuation->packed = 1; });
  const bool few = most <= packed.room(packed.bytes_of_few, classes);
  return {kPlayRounds, few ? kRequestFew : kRequestSome};
}

template <class Team, class T>
JAXMATCH_DEVICE Next begin_sharded_auction(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  // In an auction all devices must know the cost of every pair. They know the costs of bids, but
  // only the owner of a pair found before knows its cost. So the auction begins without pairs.
  team.each(s.n, [&](int64_t i) {
    if (load_relaxed(s.col4row + i) >= 0) store_relaxed(s.col4row + i, int32_t(kFree));
    store_relaxed(s.base + i, -infinity());  // the row's second-least reduced cost: unknown
  });
  team.each(s.m, [&](int64_t j) {
    const int32_t i = load_relaxed(s.row4col + j);
    if (i >= 0 || i == kSpare) store_relaxed(s.row4col + j, int32_t(kFree));
    store_relaxed(s.bid + j, kNoBid);
  });
  const int64_t spread = load_relaxed(&d.continuation->spread);
  team.leader([&] {
    s.control->epsilon = greater(spread / kFirstEpsilon, int64_t{1});
    s.control->last_epsilon = greater(spread / kLastEpsilon, int64_t{1});
    s.control->too_wide = 0;
    s.control->trees = 0;
    s.control->auction = state_when_held(s.control->auction);
    d.continuation->exchanges = 0;
  });
  team.sync();
  return {kBeginScale};
}

template <class Team, class T>
JAXMATCH_DEVICE Next begin_sharded_scale(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  team.each(s.n, [&](int64_t i) {
    store_relaxed(s.in_tree + i, int32_t(d.p.has_row(i) ? kReselects : kUnchanged));
  });
  team.leader([&] {
    d.continuation->scale_begins = 1;
    d.continuation->first_exchange = d.continuation->exchanges;
    d.continuation->turns = 0;
    s.control->spare_step = s.control->next_spare_step = load_relaxed(&s.control->epsilon);
  });
  return request_candidates(team, d);
}

// Frees each row whose pair has a reduced cost more than epsilon above the row's least.
template <class Team, class T>
JAXMATCH_DEVICE void free_expensive_pairs(Team& team, const Sharded<T>& d, int64_t epsilon) {
  const LargeState& s = d.p.s;
  team.each(s.n, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j < 0) return;
    const int64_t more = int64_t(whole_perturbation(double(epsilon), i, j));
    const int64_t pays = load_relaxed(d.paid + i) + more - load_relaxed(s.v + j);
    if (pays <= d.reduction.least(d.reduction.first(i)) + epsilon) return;
    store_relaxed(s.col4row + i, int32_t(kFree));
    store_relaxed(s.row4col + j, int32_t(kFree));
  });
}

// The listed rows bid for their cheapest candidates. For the k-th listed row, stores the column in
// bid_col[k], or -1 if the row cannot bid, and the unperturbed cost of the pair in nearest[k].
template <class Team, class T>
JAXMATCH_NOINLINE void bid_on_candidates(Team& team, const LargeProblem<T>& problem,
                                         const int32_t* rows, int64_t count, int64_t epsilon) {
  const LargeState s = problem.s;
  team.rows(count, [&](Lanes g, int64_t k) {
    const int64_t i = load_relaxed(rows + k);
    int64_t least = kFar, next = kFar;
    int32_t col = INT32_MAX;
    for (int c = g.lane; c < kColumnClasses; c += g.kCount) {
      const ClassCols cols = s.core_col[i * kColumnClasses + c];
      ClassKeys x = s.core_key[i * kColumnClasses + c];
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        x.x[b] -= load_relaxed(s.v + greater(cols.x[b], 0));
      }
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        const int32_t j = cols.x[b];
        if (j < 0) continue;
        const bool better = x.x[b] < least || (x.x[b] == least && j < col);
        next = lesser(next, better ? least : x.x[b]);
        col = better ? j : col;
        least = better ? x.x[b] : least;
      }
    }
    const int64_t first = g.min(least);
    const int32_t chosen = g.min(least == first ? col : INT32_MAX);
    const int64_t second = g.min(col == chosen ? next : least);
    if (g.lane != 0) return;
    const int64_t horizon = load_relaxed(s.horizon + i);
    const bool bids = first < kFar && first <= horizon;
    store_relaxed(s.bid_col + k, bids ? chosen : -1);
    if (!bids) return;
    const int64_t more = int64_t(whole_perturbation(double(epsilon), i, chosen));
    store_relaxed(s.nearest + k, first + load_relaxed(s.v + chosen) - more);
    // If a row has only one allowed column, any raise is valid. The raise is only epsilon, because
    // other rows may need that column, too.
    const int64_t bound = lesser(second, horizon), gain = bound < kFar ? bound - first : 0;
    store_relaxed(s.base + i, bound < kFar ? double(bound) : infinity());
    atomic_min(s.bid + chosen, pack_bid(lesser(gain, kMostRaise) + epsilon, i));
  });
}

// One round: the `count` listed rows bid, and each column goes to the greatest raise, or among
// equal raises to the first row. Then lists the rows that lost their bid or their column. Marks and
// lists the rows that must wait for new candidates, and returns their number.
template <class Team, class T>
JAXMATCH_DEVICE int64_t play_listed_round(Team& team, const Sharded<T>& d, int64_t count, int turn,
                                          int64_t epsilon) {
  const LargeState& s = d.p.s;
  const int32_t* const rows = s.frontier + turn * s.n;
  int32_t *const next = s.frontier + !turn * s.n, *const length = s.control->frontier + !turn;
  team.leader([&] { store_relaxed(length, 0); });
  bid_on_candidates(team, d.p, rows, count, epsilon);
  team.sync();
  return team.sum(count, [&](int64_t k) {
    const int32_t i = load_relaxed(rows + k), j = load_relaxed(s.bid_col + k);
    if (j < 0) {
      store_relaxed(s.in_tree + i, int32_t(kReselects));
      store_relaxed(s.listed + atomic_add(&d.continuation->waiting), i);
      return true;
    }
    const auto list = [&](int32_t row) { store_relaxed(next + atomic_add(length), row); };
    const uint64_t bid = load_relaxed(s.bid + j);
    if (row_of_bid(bid) != i) {
      list(i);
      return false;
    }
    const int32_t owner = take_column(s, i, j, bid);
    store_relaxed(d.paid + i, load_relaxed(s.nearest + k));
    if (owner >= 0) list(owner);
    return false;
  });
}

// Loads the candidates that were requested, and lists all free rows. The list already holds
// `listed` of them if candidates are packed. Returns the number of free rows.
template <class Team, class T>
JAXMATCH_DEVICE int64_t take_candidates(Team& team, Sharded<T>& d, int64_t listed, int turn,
                                        int64_t epsilon) {
  const LargeState& s = d.p.s;
  const Continuation& from = *d.continuation;
  int32_t* const rows = s.frontier + turn * s.n;
  if (load_relaxed(&from.packed)) {
    const int64_t waiting = load_relaxed(&from.waiting);
    team.leader([&] { store_relaxed(s.control->frontier + turn, int32_t(listed + waiting)); });
    load_packed(team, d);
    team.each(waiting, [&](int64_t k) {
      const int32_t i = load_relaxed(s.listed + k);
      store_relaxed(s.in_tree + i, int32_t(kUnchanged));
      store_relaxed(rows + listed + k, i);
    });
    team.sync();
    return listed + waiting;
  }
  int32_t* const length = s.control->frontier + turn;
  load_cores(team, d, [&](int64_t i) { return load_relaxed(s.in_tree + i) != kUnchanged; });
  if (load_relaxed(&from.scale_begins)) free_expensive_pairs(team, d, epsilon);
  team.each(s.n, [&](int64_t i) { store_relaxed(s.in_tree + i, int32_t(kUnchanged)); });
  team.leader([&] { store_relaxed(length, 0); });
  team.sync();
  return list_rows(team, s.n, rows, length, [&](int64_t i) {
    return d.p.has_row(i) && load_relaxed(s.col4row + i) == kFree;
  });
}

// Lets the dummy rows of a wide problem bid, see lower_spare_price(). Returns the number of rows
// that lost their column and were appended to the list of turn `turn`, or -1.
template <class Team, class T>
JAXMATCH_DEVICE int64_t lower_spares(Team& team, const Sharded<T>& d, int64_t free_rows, int turn,
                                     int64_t epsilon, int64_t few) {
  return lower_spare_price(team, d.p, free_rows, turn, epsilon, few, [&](int64_t i, int64_t j) {
    return double(load_relaxed(d.paid + i)) + whole_perturbation(double(epsilon), i, j);
  });
}

// Runs rounds of bids until most free rows wait for new candidates, or the scale ends.
template <class Team, class T>
JAXMATCH_DEVICE Next play_rounds(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  Control& c = *s.control;
  Continuation& from = *d.continuation;
  const int64_t epsilon = load_relaxed(&c.epsilon), rows = load_relaxed(&c.rows);
  const bool last = epsilon <= load_relaxed(&c.last_epsilon);
  const int32_t exchanges = load_relaxed(&from.exchanges) + 1;
  const bool gives_up = exchanges >= kMostExchanges;
  const bool may_exchange =
      !gives_up && exchanges - load_relaxed(&from.first_exchange) < kMostExchangesOfScale;
  int64_t turns = load_relaxed(&from.turns), waiting = 0, bids = 0;
  int turn = int(turns & 1);  // selects the list of the rows that bid
  int64_t count = take_candidates(team, d, load_relaxed(&from.count), turn, epsilon);
  team.leader([&] { store_relaxed(&from.waiting, 0); });
  team.sync();
  const int64_t stop = greater(rows / kStopPart, kFewestFree), most = kRoundsPerRow * rows;
  const int64_t few = most_lacking(c, stop);
  const auto fails = [&] { return turns >= most || load_relaxed(&c.too_wide); };
  bool over = false;
  while (!over) {
    if (fails()) {
      over = true;
    } else if (count + waiting <= stop) {
      const int64_t added = lower_spares(team, d, count + waiting, turn, epsilon, few);
      over = added < 0;
      count += greater(added, int64_t{0});
      turns += over ? 0 : 2;  // `turn` stays
    } else if (kWaitingPart * count > waiting) {
      bids += count;
      waiting += play_listed_round(team, d, count, turn, epsilon);
      turn ^= 1;
      ++turns;
      count = load_relaxed(c.frontier + turn);
    } else {
      break;
    }
  }
  over |= !may_exchange;
  const bool refines = over && (last || gives_up || fails());
  team.sync();
  if (refines) {  // until no dummy row lacks a column
    for (int64_t added = 0; added >= 0; count += greater(added, int64_t{0})) {
      added = lower_spares(team, d, count + waiting, turn, epsilon, 0);
    }
  }
  team.leader([&] {
    c.bids = int32_t(lesser(c.bids + bids, int64_t{INT32_MAX}));
    c.rounds += int32_t(turns - from.turns);
    c.free_rows = int32_t(count + waiting);
    c.steps += over;
    if (over) c.epsilon = greater(epsilon / kScaleFactor, int64_t{1});
    from.turns = int32_t(over ? 0 : turns);
    from.exchanges = exchanges;
    from.scale_begins = from.packed = 0;
    from.count = int32_t(count);
  });
  team.sync();
  if (!over) return request_for_waiting(team, d, waiting, turn);
  if (!refines) return {kBeginScale};
  // Price refinement begins with all matched rows, at the row prices that make their pairs tight.
  team.each(s.n, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j >= 0) {
      store_relaxed(s.base + i, double(load_relaxed(d.paid + i) - load_relaxed(s.v + j)));
    }
    store_relaxed(s.in_tree + i, int32_t(j >= 0 ? kLowered : kUnchanged));
  });
  team.sync();
  return {kRelax};
}

// Not inlined, so that it does not take registers from other steps.
template <class Team, class T>
JAXMATCH_NOINLINE Next take_auction_step(Team& team, Sharded<T>& d, Step step) {
  switch (step) {
    case kBeginAuction:
      return begin_sharded_auction(team, d);
    case kBeginScale:
      return begin_sharded_scale(team, d);
    case kPlayRounds:
      return play_rounds(team, d);
    case kRelax:
      return relax_shard(team, d);
    default:
      return take_labels(team, d);
  }
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_AUCTION_H_
