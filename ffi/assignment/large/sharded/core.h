// The steps of the core method for sharded costs. A step ends where devices have to exchange data.
// The next launch continues with the next step.
//
// All devices run the same searches, augmentations and price changes as a single device
// (assignment/large/core/solve.h), on identical candidate sets. Each step that reads costs ends
// with a request for an exchange.
#ifndef JAXMATCH_LARGE_SHARDED_CORE_H_
#define JAXMATCH_LARGE_SHARDED_CORE_H_

#include "assignment/large/auction/refine.h"
#include "assignment/large/auction/two_least.h"
#include "assignment/large/auction/when.h"
#include "assignment/large/core/solve.h"
#include "assignment/large/sharded/state.h"

namespace jaxmatch::assignment::large {

// The next step. It runs at once if no exchange is requested.
struct Next {
  Step step;
  Request request = kRequestNothing;
};

// Resets the reduction buffer to +inf.
template <class Team, class T>
JAXMATCH_DEVICE void reset_reduction(Team& team, const Sharded<T>& d) {
  team.each(d.reduction.words,
            [&](int64_t k) { d.reduction.store(k, ReductionBuffer::kIdentity); });
  team.sync();
}

// Computes the range of this device's costs, and the column minima of its shard.
template <class Team, class T>
JAXMATCH_DEVICE Next scan_shard(Team& team, Sharded<T>& d) {
  reset_reduction(team, d);
  scan_costs(team, d.shard);
  team.leader([&] {
    const QuantRange& range = d.p.s.control->range;
    d.reduction.store(0, -range.most);
    d.reduction.store(1, range.lowest);
    d.reduction.store(2, range.invalid);
  });
  team.each(d.shard.s.m, [&](int64_t j) {
    d.reduction.store(d.reduction.first(d.shard.col_id(j)),
                      order_of(load_relaxed(d.shard.s.v_real + j)));
  });
  return {kJudgeCosts, kRequestReduction};
}

template <class Team, class T>
JAXMATCH_DEVICE void merge_cost_ranges(Team& team, const Sharded<T>& d) {
  team.each(d.p.s.m, [&](int64_t j) {
    store_relaxed(d.p.s.v_real + j, real_of_order(d.reduction.least(d.reduction.first(j))));
  });
  team.leader([&] {
    QuantRange& range = d.p.s.control->range;
    range.most = -d.reduction.least(0);
    range.lowest = d.reduction.least(1);
    range.invalid = int32_t(d.reduction.least(2));
  });
  team.sync();
}

// Publishes row minima and horizons of the shard to the reduction buffer.
struct PublishToReduction {
  int64_t *least_of, *horizon_of;

  template <class T>
  JAXMATCH_DEVICE explicit PublishToReduction(const Sharded<T>& d)
      : least_of(d.reduction.out + d.reduction.first(d.shard.row0)),
        horizon_of(d.reduction.out + d.reduction.second(d.shard.row0)) {}
  JAXMATCH_DEVICE void operator()(int64_t i, int64_t least) const {
    atomic_min(least_of + i, least);
  }
  JAXMATCH_DEVICE void operator()(int64_t i, int64_t least, int64_t horizon) const {
    store_relaxed(least_of + i, least);
    store_relaxed(horizon_of + i, horizon);
  }
};

// Mark of a row in in_tree. kReselects: the row needs new candidates, or its price is in doubt.
// kLowered: its price has fallen, or in price refinement its column's price.
enum Repriced : int32_t { kUnchanged, kReselects, kLowered };

// Lists the shard's marked rows, i.e. those that are not kUnchanged, and returns their number. A
// barrier must separate setting control->frontier[0] to 0 from this call.
template <class Team, class T>
JAXMATCH_DEVICE int64_t list_repriced(Team& team, const Sharded<T>& d) {
  const LargeState& s = d.shard.s;
  return list_rows(team, s.n, s.frontier, s.control->frontier,
                   [&](int64_t i) { return load_relaxed(s.in_tree + i) != kUnchanged; });
}

// Selects new candidate sets for the shard's marked rows.
template <class Team, class T, class P>
JAXMATCH_DEVICE void select_repriced(Team& team, const Sharded<T>& d, const P& shard, int choice) {
  const LargeState& s = d.shard.s;
  const int64_t count = list_repriced(team, d);
  if (count == 0) return;
  select_listed_cores(team, shard, team.prices(s), s.frontier, count, uint32_t(choice),
                      PublishToReduction(d));
}
template <class Team, class T>
JAXMATCH_DEVICE void select_repriced(Team& team, const Sharded<T>& d, int choice) {
  select_repriced(team, d, d.shard, choice);
}

// Copies the candidate sets and horizons of the chosen rows from the gathered blocks.
template <class Team, class T, class Chosen>
JAXMATCH_DEVICE void load_cores(Team& team, const Sharded<T>& d, Chosen chosen) {
  const LargeState& s = d.p.s;
  const int classes = d.partition.classes();
  team.rows(s.n, [&](Lanes g, int64_t i) {
    if (!d.p.has_row(i) || !chosen(i)) return;
    if (g.lane == 0) store_relaxed(s.horizon + i, d.reduction.least(d.reduction.second(i)));
    for (int c = g.lane; c < kColumnClasses; c += g.kCount) {
      ClassCols cols;
      ClassKeys keys;
      const int64_t owner = d.partition.by_rows ? i / d.partition.each : c / classes;
      if (owner < d.partition.devices) {
        const int64_t row = d.partition.by_rows ? i - owner * d.partition.each : i;
        const int64_t at = row * classes + (d.partition.by_rows ? c : c - owner * classes);
        cols = d.gathered.cols(owner)[at];
        keys = d.gathered.keys(owner)[at];
      } else {  // unused classes, if the number of devices does not divide kColumnClasses
        JAXMATCH_UNROLL
        for (int b = 0; b < kCandidatesPerClass; ++b) {
          cols.x[b] = -1;
          keys.x[b] = 0;
        }
      }
      s.core_col[i * kColumnClasses + c] = cols;
      s.core_key[i * kColumnClasses + c] = keys;
    }
  });
  team.sync();
}

// Publishes the greatest spread of a row's reduced costs, among sampled rows of the shard.
template <class Team, class T>
JAXMATCH_DEVICE void publish_spread(Team& team, const Sharded<T>& d) {
  const Shard<T>& shard = d.shard;
  const int64_t step = (d.p.s.n + kSampledRows - 1) / kSampledRows;
  team.rows((d.p.s.n + step - 1) / step, [&](Lanes g, int64_t k) {
    const int64_t i = k * step - shard.row0;
    if (i < 0 || i >= shard.s.n || !shard.has_row(i)) return;
    const int64_t spread = spread_of_row(shard, g, shard.s.v_real, i);
    if (g.lane == 0) atomic_min(d.reduction.out, -spread);
  });
}

// Selects the candidates of all rows, at the first prices or at the prices of an auction.
template <class Team, class T>
JAXMATCH_DEVICE Next select_first_cores(Team& team, Sharded<T>& d) {
  const bool after_auction = is_held(load_relaxed(&d.p.s.control->auction));
  if (!after_auction) begin(team, d.p);
  if (publish_prices(team, d.p) > 0 && after_auction) return {kRestart};
  reset_reduction(team, d);
  if (!after_auction) publish_spread(team, d);
  select_all_cores(team, d.shard, team.prices(d.shard.s), PublishToReduction(d));
  return {kLoadCores, kRequestCores};
}

template <class Team, class T>
JAXMATCH_DEVICE Next load_first_cores(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const int64_t isolated = team.sum(s.n, [&](int64_t i) {
    if (!d.p.has_row(i)) return false;
    const int64_t least = d.reduction.least(d.reduction.first(i));
    store_relaxed(s.u + i, least);
    return least >= kFar;
  });
  if (isolated > 0) {
    team.leader([&] { s.control->status = kInfeasible; });
    return {kEnd};
  }
  load_cores(team, d, [](int64_t) { return true; });
  Control& c = *s.control;
  team.leader([&] {
    d.continuation->lists_hold = 0;
    if (is_held(c.auction)) return;
    const int64_t least = d.reduction.least(0);
    d.continuation->spread = least == ReductionBuffer::kIdentity ? 0 : -least;
    c.auction = d.may_hold_auction ? auction_for(d.continuation->spread, c.rows) : kNoAuction;
  });
  team.sync();
  if (has_spares(c) && is_held(load_relaxed(&c.auction))) {
    free_slack_rows(team, s, [&](int64_t i, int64_t) { return double(load_relaxed(d.paid + i)); });
  }
  bid_stage(team, d.p);
  team.sync();
  return {auction_follows(c) ? kBeginAuction : kSearchCores};
}

// Begins a pricing: checks doubtful rows against the shard. These are the rows whose price exceeds
// their horizon (a lower bound on the reduced costs outside their candidates), or all rows if
// prices of spare columns have risen. With `renew`, rows whose price equals their horizon are
// doubtful, too, and all doubtful rows get new candidate sets in the same pass.
template <class Team, class T>
JAXMATCH_DEVICE Next begin_sharded_pricing(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const Pricing pricing = begin_pricing(team, d.p, true);
  if (pricing.too_wide) return {kRestart};
  reset_reduction(team, d);
  team.each(s.n, [&](int64_t i) {
    const bool doubtful =
        pricing.all_rows() || load_relaxed(s.u + i) + pricing.renew > load_relaxed(s.horizon + i);
    store_relaxed(s.in_tree + i, int32_t(d.p.has_row(i) && doubtful ? kReselects : kUnchanged));
  });
  team.sync();
  if (pricing.renew) {
    select_repriced(team, d, pricing.number);
    return {kRepriceAll, kRequestCores};
  }
  const LargeState& mine = d.shard.s;
  const int64_t count = list_repriced(team, d);
  if (count > 0) {
    find_least_of_list(team, d.shard, team.prices(mine), mine.frontier, count,
                       PublishToReduction(d));
  }
  return {kReprice, kRequestReduction};
}

// Lowers the price of each doubtful row to the row's least reduced cost over all devices. A row
// whose price falls loses its partner, because that pair is no longer tight. Calls keep(i, least)
// for doubtful rows whose price does not fall. Returns the number of rows that lost their partner.
template <class Team, class T, class Keep>
JAXMATCH_DEVICE int64_t lower_row_prices(Team& team, const Sharded<T>& d, Keep keep) {
  const LargeState& s = d.p.s;
  return team.sum(s.n, [&](int64_t i) {
    if (load_relaxed(s.in_tree + i) == kUnchanged) return false;
    const int64_t least = d.reduction.least(d.reduction.first(i));
    const int32_t j = load_relaxed(s.col4row + i);
    if (least >= load_relaxed(s.u + i)) {
      keep(i, least);
      return false;
    }
    store_relaxed(s.u + i, least);
    store_relaxed(s.in_tree + i, int32_t(kLowered));
    if (j < 0) return false;
    store_relaxed(s.col4row + i, int32_t(kFree));
    store_relaxed(s.row4col + j, int32_t(kFree));
    return true;
  });
}

// Ends a pricing that freed `freed` rows. Returns the next step.
template <class Team, class T>
JAXMATCH_DEVICE Step close_pricing(Team& team, const Sharded<T>& d, const Pricing& pricing,
                                   int64_t freed) {
  const Step after =
      end_pricing(team, d.p, pricing, freed) == kPrice ? kBeginPricing : kSearchCores;
  team.leader([&] {
    d.continuation->after = after;
    d.continuation->lists_hold = 0;
  });
  return after;
}

// Finishes a pricing, as price_rows() does, once the row minima of all devices are known.
template <class Team, class T>
JAXMATCH_DEVICE Next reprice(Team& team, Sharded<T>& d) {
  const LargeState& s = d.p.s;
  const Pricing pricing(*s.control, true);
  team.leader([&] { store_relaxed(s.control->frontier, 0); });
  const int64_t freed = lower_row_prices(team, d, [&](int64_t i, int64_t least) {
    store_relaxed(s.in_tree + i, int32_t(kUnchanged));
    store_relaxed(s.horizon + i,
                  pricing.all_rows() ? least : greater(load_relaxed(s.horizon + i), least));
  });
  const int64_t choosing =
      team.sum(s.n, [&](int64_t i) { return load_relaxed(s.in_tree + i) != kUnchanged; });
  const Step after = close_pricing(team, d, pricing, freed);
  reset_reduction(team, d);  // ends with a barrier
  if (choosing == 0) return {after};
  select_repriced(team, d, pricing.number);
  return {kRenewCores, kRequestCores};
}

template <class Team, class T>
JAXMATCH_DEVICE Next reprice_all(Team& team, Sharded<T>& d) {
  const Pricing pricing(*d.p.s.control, true);
  const int64_t freed = lower_row_prices(team, d, [](int64_t, int64_t) {});
  const Step after = close_pricing(team, d, pricing, freed);
  load_cores(team, d, [&](int64_t i) { return load_relaxed(d.p.s.in_tree + i) != kUnchanged; });
  return {after};
}

template <class Team, class T>
JAXMATCH_DEVICE Next renew_cores(Team& team, Sharded<T>& d) {
  load_cores(team, d, [&](int64_t i) { return load_relaxed(d.p.s.in_tree + i) != kUnchanged; });
  return {Step(load_relaxed(&d.continuation->after))};
}

// Runs steps on the candidate sets until costs must be read.
template <class Team, class T>
JAXMATCH_DEVICE Next search_cores(Team& team, const LargeProblem<T>& p) {
  const Control& c = *p.s.control;
  if (load_relaxed(&c.trees)) return {may_hold_auction(c) ? kBeginAuction : kBeginTrees};
  int64_t budget = INT64_MAX;
  const int next = augment_stage(team, p, budget);
  team.sync();
  return {next == kPrice ? kBeginPricing : kCheckPrices};
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_CORE_H_
