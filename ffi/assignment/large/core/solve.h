// Exact solution of one large assignment by the core method: solve a sparse core (the candidate
// sets of all rows), check the prices against all costs (pricing), and repeat until no price
// changes.
//
// Each augmentation on the core is valid by itself (assignment/large/core/paths.h). Pricing makes
// the duals feasible for all costs and frees the rows whose pair is no longer tight. The core
// method gives up if candidate sets contain no path, yield few paths at a time or have changed too
// often. Searches over all costs then continue from the current duals and pairs. These searches are
// an auction and then forests (assignment/large/auction), or for sharded costs an auction
// (assignment/large/sharded/auction.h) and then the tree variant of the Hungarian method. Each
// forest, and each iteration of the tree variant, keeps the duals feasible and adds a pair, or
// proves infeasibility.
//
// Termination:
// - At most patience() pricings follow each selection of candidates.
// - Candidates of all rows are selected a few times. An auction, whose rounds are bounded, leads to
//   O(log n) more selections.
// - Between two selections, and after the last one, there are at most n searches over all costs.
// - For sharded costs, wide problems (more columns than rows) run further pricings before these
//   searches. Each such pricing frees a row.
#ifndef JAXMATCH_LARGE_CORE_SOLVE_H_
#define JAXMATCH_LARGE_CORE_SOLVE_H_

#include "assignment/large/auction/when.h"
#include "assignment/large/begin.h"
#include "assignment/large/core/bids.h"
#include "assignment/large/core/paths.h"
#include "assignment/large/core/price.h"
#include "assignment/large/finish.h"
#include "assignment/large/stop.h"
#include "common/status.h"

namespace jaxmatch::assignment::large {

// Limits on the rounds of bids, and on the attempts of a search with a bound. After the last
// bounded attempt the search is repeated without a bound.
constexpr int kMostBidRounds = 64, kMostWidened = 4;
// The core method gives up after patience() pricings, or after patience() steps that find paths for
// less than 1 / kPartFound of the free rows. Patience is low if an auction may follow and few costs
// are equal. Otherwise it is higher, because the forests or Hungarian trees that may follow read
// all costs. On points, Hungarian trees may even need a dual update per column. Patience grows with
// the number of rows, because the number of steps does.
constexpr int64_t kLeastPatience = 64, kRowsByPatience = 64;
constexpr int64_t kLeastBeforeAuction = 16, kRowsBeforeAuction = 512;
constexpr int64_t kPartFound = 32;
JAXMATCH_DEVICE inline int patience(const Control& c) {
  if (load_relaxed(&c.auction) == kMayHoldAuction) {
    return int(greater(kLeastBeforeAuction, c.rows / kRowsBeforeAuction));
  }
  return int(greater(kLeastPatience, c.rows / kRowsByPatience));
}
// A pricing follows each search that moves prices farther than this, because it detects large
// prices before they can overflow 64 bits. Only labels without bits for hops have room for such
// distances.
constexpr int64_t kMostMove = kTooFar >> 13;
// Used by adapt_limit(). A pricing has freed many rows if it freed more than one row in kManyFreed,
// and hardly any if it freed fewer than one in kFewFreed.
constexpr int kLeastCaution = 1, kMostExcessBits = 50;
constexpr int64_t kManyFreed = 256, kFewFreed = 1024;
// Row prices may exceed their horizons by an excess, see adapt_limit(), only after this many
// pricings since the last selection of all candidates. In one measurement, 50,000 points in the
// plane took 790 ms on one H200 without this wait, and 580 ms without any excess, see
// benchmarks/notes/assignment_structured.md.
constexpr int kPricingsWithoutExcess = 16;
// First bound of a search, in multiples of the distance that prices last moved. With 1 or 2, all
// searches together take up to 1.3 times as long.
constexpr int64_t kAhead = 3;

// The number of rows whose price may exceed their horizon (a lower bound on the reduced costs
// outside the candidates) by any distance.
JAXMATCH_DEVICE inline int64_t most_beyond(int64_t rows, int caution) {
  return greater(rows >> caution, int64_t{1});
}

JAXMATCH_DEVICE inline MoveLimit move_limit(const Progress& progress, int64_t rows) {
  const int64_t excess = progress.excess_bits > 0 ? int64_t{1} << progress.excess_bits : 0;
  return {most_beyond(rows, progress.caution), excess};
}

// The first bound of a search; if negative, the search has no bound. Before prices have moved, the
// bound is half the mean distance of row prices to their horizons. A row without a finite horizon
// counts as distance zero.
template <class Team, class T>
JAXMATCH_DEVICE int64_t first_bound(Team& team, const LargeProblem<T>& p,
                                    const Progress& progress) {
  if (progress.usual_reach > 0) return lesser(kAhead * progress.last_reach, kTooFar);
  const LargeState& s = p.s;
  const int64_t rows = load_relaxed(&s.control->rows), most = kTooFar / rows;
  const int64_t sum = team.wide_sum(s.n, [&](int64_t i) {
    const int64_t horizon = p.has_row(i) ? load_relaxed(s.horizon + i) : kFar;
    if (horizon >= kFar) return int64_t{0};
    return lesser(greater(horizon - load_relaxed(s.u + i), int64_t{0}), most);
  });
  return sum > 0 ? greater(sum / rows / 2, int64_t{1}) : -1;
}

// Runs one step of the core method: a search and its augmentations.
//
// Most arcs are longer than any path, so first_bound() bounds the search. The bound grows while the
// search reaches fewer than half as many free columns as there are free rows. The team caches the
// usable arcs before the search, unless `gathered` says that they are cached. augment_stage()
// clears `gathered` when prices move, or when pairs change and labels are stored by row.
template <class Team, class T>
JAXMATCH_DEVICE Found run_step(Team& team, const LargeProblem<T>& p, Search& search,
                               const Progress& progress, int64_t free_rows, ArcForm& gathered,
                               int64_t& rounds) {
  int64_t far = search.tight ? 0 : first_bound(team, p, progress);
  begin_phase(team, p);
  for (int widened = 0;; ++widened) {
    const bool named = search.names_parents();
    search.set_bound(widened < kMostWidened ? far : -1);
    if (widened > 0 && named != search.names_parents()) reset_labels(team, p);
    if (const ArcForm form = ArcForm::of(search); !(form == gathered)) {
      team.gather_arcs(p, search);
      gathered = form;
    }
    team.sync();
    rounds += find_labels(team, p, search);
    if (search.tight || 2 * count_reached(team, p, search) >= free_rows || !search.is_bounded())
      break;
    far = lesser(2 * far + progress.usual_reach, kTooFar);
  }
  if (search.hop_bits == 0) {
    rounds += find_parents(team, p, search);
  } else if (!search.names_parents()) {
    set_parents(team, p, search);
  }
  return augment(team, p, search, move_limit(progress, load_relaxed(&p.s.control->rows)));
}

// Each function below whose name ends in _stage runs a stage and returns the next one. All threads
// of the team call it and take the same branches.

// Checks the costs and chooses their unit. The range of the costs, and the column minima in v_real,
// must be known. Returns the next stage.
template <class Team, class T>
JAXMATCH_DEVICE int judge_costs(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const bool invalid = load_relaxed(&s.control->range.invalid);
  const bool empty = load_relaxed(&s.control->rows) == 0;
  team.each(s.m, [&](int64_t j) {
    const double least = fabs(load_relaxed(s.v_real + j));
    if (p.has_col(j) && least < infinity()) {
      atomic_max(&s.control->columns_most, int64_t(bits_of(least)));
    }
  });
  team.sync();
  team.leader([&] {
    const bool priced = s.control->unit != kNoUnit;
    s.control->status = int32_t(invalid ? kInvalidCost : priced ? kOptimal : kOverflow);
    choose_unit(p);
  });
  return invalid || empty ? kFinish : kSelect;
}

template <class Team, class T>
JAXMATCH_DEVICE int scan_stage(Team& team, LargeProblem<T>& p) {
  scan_costs(team, p);
  return judge_costs(team, p);
}

// Selects the candidate sets at the prices in v_real.
template <class Team, class T>
JAXMATCH_DEVICE int select_stage(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const auto enter = [u = s.u, horizon = s.horizon, row_mask = p.row_mask,
                      status = &s.control->status](int64_t i, int64_t least, int64_t seen) {
    store_relaxed(u + i, least);
    store_relaxed(horizon + i, seen);
    if (least == kFar && (!row_mask || row_mask[i])) store_relaxed(status, int32_t(kInfeasible));
  };
  select_all_cores(team, p, team.prices(s), enter);
  team.sync();
  return load_relaxed(&s.control->status) == kInfeasible ? kFinish : kBid;
}

template <class Team, class T>
JAXMATCH_DEVICE int bid_stage(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  int64_t rounds = 0;
  team.leader([&] { s.control->stale = 0; });
  team.sync();
  const bool spares = has_spares(*s.control);
  // After an auction of a wide problem, a bid might take a leftover column (see is_left()) instead
  // of a column that some row must take.
  const bool may_bid = !spares || !is_held(load_relaxed(&s.control->auction));
  for (; may_bid && rounds < kMostBidRounds && make_bids(team, p) > 0; ++rounds) take_bids(team, p);
  const int64_t free_rows = update_row_prices(team, p);
  if (spares) place_spares(team, p, free_rows);
  team.leader([&] {
    s.control->bid_rounds = int32_t(rounds);
    s.control->free_rows = int32_t(free_rows);
    s.control->recent_pricings = 0;
    s.control->trees = 0;
    s.control->progress = Progress{};
  });
  return kAugment;
}

// Runs steps until another stage must follow or the budget is spent. Every thread keeps its own
// copy of the progress, so that no barrier is needed.
template <class Team, class T>
JAXMATCH_DEVICE int augment_stage(Team& team, const LargeProblem<T>& p, int64_t& budget) {
  const LargeState& s = p.s;
  Control& c = *s.control;
  Progress progress = c.progress;
  int64_t free_rows = c.free_rows;
  bool stale = c.stale, gives_up = false;
  const bool spares = has_spares(c);
  const int most_slow = patience(c);
  int steps = 0, next = kAugment;
  int64_t rounds = 0;
  ArcForm gathered;
  for (; next == kAugment; ++steps, --budget) {
    if (free_rows == 0) next = stale ? kPrice : kCheckClamped;
    if (next != kAugment || budget == 0 || is_late(team, s)) break;
    Search search{progress.tight, spares, 0};
    if (search.tight || !progress.split) {
      for (int64_t hops = 2 * s.n; hops > 0; hops >>= 1) ++search.hop_bits;
    }
    const Found found = run_step(team, p, search, progress, free_rows, gathered, rounds);
    if (!search.tight) {
      progress.slow += kPartFound * found.paths < free_rows;
      progress.last_reach = found.reach;
      if (found.paths == 0 && found.too_wide && search.hop_bits > 0) {
        progress.split = true;
      } else if (found.paths == 0 || found.limited || progress.slow > most_slow) {
        next = kPrice;  // there may be better arcs outside the core
        gives_up = progress.slow > most_slow || (!stale && found.paths == 0 && found.reach == 0);
      }
      stale |= found.paths > 0 || found.reach > 0;
    }
    if (found.reach > kMostMove) next = kPrice;
    progress.limited = found.limited;
    if (found.reach > 0) progress.usual_reach = found.reach;
    // The cached arcs are outdated: prices have moved, or labels have new positions.
    if (found.reach > 0 || (found.paths > 0 && team.label_layout(s).by_rows)) gathered = {};
    progress.tight = search.tight && 4 * found.paths >= free_rows;  // tight arcs yield many paths
    free_rows -= found.paths;
  }
  team.leader([&] {
    c.free_rows = int32_t(free_rows);
    c.stale = stale;
    c.trees = gives_up;
    c.steps += steps;
    c.rounds += int32_t(rounds);
    c.progress = progress;
  });
  return next;
}

// Frees the columns of dummy rows, and gives all free columns the greatest price. Sharded costs
// need this, because the tree variant has no dummy rows.
template <class Team, class T>
JAXMATCH_DEVICE void release_spares(Team& team, const LargeProblem<T>& p) {
  const LargeState& s = p.s;
  const int64_t price = load_relaxed(&s.control->spare_price);
  team.each(s.m, [&](int64_t j) {
    const int32_t i = load_relaxed(s.row4col + j);
    if (i != kFree && i != kSpare) return;
    store_relaxed(s.row4col + j, int32_t(kFree));
    store_relaxed(s.v + j, price);
  });
  team.sync();
}

// Adapts the limit on price moves after a pricing that freed `freed` rows. The limit has two parts:
// rows / 2^caution row prices may exceed their horizon by any distance, and all row prices may
// exceed it by the excess.
//
// - The caution increases if the pricing freed more than a quarter of the rows that might exceed
//   their horizon. An excess then ends, too.
// - The caution decreases if the pricing freed less than a 16th of these rows.
// - With `may_exceed`, an excess begins if the caution is least, the limit cut the last price move,
//   and hardly any row was freed. Horizons are then too low: a path between two clusters raises the
//   prices of a whole cluster beyond them. The first excess is the distance that prices moved last.
// - The excess doubles after each further pricing that meets these conditions, and falls to a
//   quarter after one that freed many rows.
//
// With an unlimited excess, pricings freed a seventh to a quarter of the rows again and again
// (16,000 rows in 20 clusters).
JAXMATCH_DEVICE inline void adapt_limit(Progress& progress, bool may_exceed, int64_t freed,
                                        int64_t rows) {
  int excess_bits = progress.excess_bits, caution = progress.caution;
  const int64_t allowed = most_beyond(rows, caution);
  const bool too_far = 4 * freed > allowed, hindered = progress.limited && kFewFreed * freed < rows;
  if (too_far) {
    caution = caution == kLeastCaution ? 3 : lesser(caution + 1, 6);
    excess_bits = 0;
  } else if (excess_bits > 0 && kManyFreed * freed > rows) {
    excess_bits = greater(excess_bits - 2, 0);
  } else if (may_exceed && hindered && caution == kLeastCaution) {
    const int64_t least =
        excess_bits > 0 ? int64_t{2} << excess_bits : greater(progress.usual_reach, int64_t{2});
    while (excess_bits < kMostExcessBits && int64_t{1} << excess_bits < least) ++excess_bits;
  } else if (16 * freed < allowed) {
    caution = greater(caution - 1, kLeastCaution);
  }
  progress.excess_bits = int8_t(excess_bits);
  progress.caution = int8_t(caution);
}

// Parameters of a pricing; every thread has its own copy.
struct Pricing {
  int64_t free_rows, rows;
  bool spares;  // costs are sharded, there are dummy rows, and the tree variant may follow
  bool trees, renew;
  int number;
  bool too_wide = false;

  JAXMATCH_DEVICE explicit Pricing(const Control& c, bool sharded = false)
      : free_rows(load_relaxed(&c.free_rows)),
        rows(load_relaxed(&c.rows)),
        spares(sharded && has_spares(c) && !may_hold_auction(c)),
        trees(load_relaxed(&c.trees)),
        renew(c.progress.limited),
        number(load_relaxed(&c.recent_pricings) + 1) {}
  // True if prices of spare columns have risen; all rows must then be checked.
  JAXMATCH_DEVICE bool all_rows() const { return trees && spares; }
};

template <class Team, class T>
JAXMATCH_DEVICE Pricing begin_pricing(Team& team, const LargeProblem<T>& p, bool sharded = false) {
  Pricing pricing(*p.s.control, sharded);
  team.leader([&] { p.s.control->frontier[0] = p.s.control->frontier[1] = 0; });
  if (pricing.all_rows()) release_spares(team, p);
  pricing.too_wide = publish_prices(team, p) > 0;
  return pricing;
}

// Returns the next stage.
template <class Team, class T>
JAXMATCH_DEVICE int end_pricing(Team& team, const LargeProblem<T>& p, const Pricing& pricing,
                                int64_t freed) {
  Control& c = *p.s.control;
  const bool gives_up = !pricing.trees && pricing.number >= patience(c);
  team.leader([&] {
    c.pricings += 1;
    c.recent_pricings = pricing.number;
    c.free_rows = int32_t(pricing.free_rows + freed);
    c.stale = 0;
    c.trees = pricing.trees || gives_up;
    // There is no excess if many costs are equal, because pricings would free many rows.
    const bool may_exceed = c.auction == kHeldAuction && pricing.number >= kPricingsWithoutExcess;
    adapt_limit(c.progress, may_exceed, freed, pricing.rows);
    c.progress.limited = false;
  });
  // If a row has lost its column, another pricing gives that column the price of the other free
  // columns.
  const bool again = pricing.spares && (gives_up || (pricing.trees && freed > 0));
  return pricing.too_wide ? kBegin : again ? kPrice : kAugment;
}

template <class Team, class T>
JAXMATCH_DEVICE int price_stage(Team& team, const LargeProblem<T>& p) {
  const Pricing pricing = begin_pricing(team, p);
  const int64_t freed =
      pricing.too_wide ? 0 : price_rows(team, p, uint32_t(pricing.number), pricing.renew);
  return end_pricing(team, p, pricing, freed);
}

// True if a price is too large for exact doubles.
template <class Team, class T>
JAXMATCH_DEVICE bool has_large_prices(Team& team, const LargeProblem<T>& p) {
  return team.sum(p.s.m, [&](int64_t j) { return is_large_price(load_relaxed(p.s.v + j)); }) != 0;
}

// True if the solution uses clamped costs. Stores the greatest magnitude of such a cost in
// control->used_most.
template <class Team, class T, class Costs>
JAXMATCH_DEVICE bool uses_clamped_costs(Team& team, const LargeProblem<T>& p, const Costs& costs) {
  const LargeState& s = p.s;
  if (Integral<T>::value) return false;
  return team.sum(s.n, [&](int64_t i) {
    const int32_t j = load_relaxed(s.col4row + i);
    if (j < 0) return 0;
    const double paid = costs.real(i, j), cost = fabs(paid);
    if (p.costs.key_of_real(paid) < kMostKey) return 0;
    if (cost * fabs(p.costs.factor) * p.costs.boost <= kMostKey) return 0;
    atomic_max(&s.control->used_most, int64_t(bits_of(cost)));
    return 1;
  }) != 0;
}

// Calls run_stage(stage) repeatedly; it returns the next stage. Stops when the problem is solved,
// the budget of steps is spent, or the time is up.
template <class Team, class T, class RunStage>
JAXMATCH_DEVICE void run_stages(Team& team, LargeProblem<T>& p, const int64_t& budget,
                                RunStage run_stage) {
  Control* const c = p.s.control;
  int stage = load_relaxed(&c->stage);
  int32_t unit = load_relaxed(&c->unit);
  int64_t since = team.now();
  const auto read_quantizer = [&] {
    p.costs.factor = c->factor;
    p.costs.boost = c->boost;
  };
  if (stage > kBegin) read_quantizer();
  team.sync();
  while (stage != kFinish && stage != kDone) {
    if ((stage == kAugment || stage == kAuction) && budget <= 0) return;
    int next = run_stage(stage);
    // If the solution uses clamped costs, solve again with a higher clamp.
    bool clamp_less = false;
    if (next == kCheckClamped) {
      next = has_large_prices(team, p) ? kBegin : kFinish;
      clamp_less = next == kFinish && uses_clamped_costs(team, p, DirectCosts<T>{p});
    }
    if (next == kBegin) next = unit == kNoUnit ? kFinish : kBegin;  // no coarser unit is left
    if (next == kBegin) ++unit;
    if (clamp_less) next = kBegin;
    team.leader([&] {
      const int64_t now = team.now();
      c->spent[stage] += now - since;
      since = now;
      c->stage = next;
      c->unit = unit;
    });
    stage = next;
    team.sync();
    read_quantizer();
    if (stage > kSelect && stage < kFinish && is_late(team, p.s)) return stop_early(team, p);
  }
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_SOLVE_H_
