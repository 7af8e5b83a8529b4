// The order of the steps of a sharded problem, and its results.
#ifndef JAXMATCH_LARGE_SHARDED_SOLVE_H_
#define JAXMATCH_LARGE_SHARDED_SOLVE_H_

#include "assignment/large/sharded/auction.h"
#include "assignment/large/sharded/hungarian.h"

namespace jaxmatch::assignment::large {

// The costs of a solution, as gathered from all devices.
template <class T>
struct GatheredCosts {
  const Sharded<T>& d;

  JAXMATCH_DEVICE double real(int64_t i, int64_t) const {
    return real_of_order(load_relaxed(d.paid + i));
  }
  JAXMATCH_DEVICE double least(Lanes, int64_t i) const {
    return real_of_order(load_relaxed(d.least + i));
  }
};

template <class Team, class T>
JAXMATCH_DEVICE void gather_rows(Team& team, const Sharded<T>& d, int64_t* into) {
  team.each(d.p.s.n,
            [&](int64_t i) { store_relaxed(into + i, d.reduction.least(d.reduction.first(i))); });
  team.sync();
}

template <class Team, class T>
JAXMATCH_DEVICE Next judge_gathered_costs(Team& team, Sharded<T>& d) {
  merge_cost_ranges(team, d);
  const bool ends = judge_costs(team, d.p) == kFinish;
  team.leader([&] { d.p.s.control->auction = kNoAuction; });
  team.sync();
  read_quantizer(d);
  return {ends ? kEnd : d.core ? kSelectCores : kReduceRows};
}

template <class T>
JAXMATCH_DEVICE void read_quantizer(Sharded<T>& d) {
  const Control& c = *d.p.s.control;
  d.p.costs.factor = d.shard.costs.factor = c.factor;
  d.p.costs.boost = d.shard.costs.boost = c.boost;
}

// After all rows are matched, publishes the cost of each pair that the shard owns.
template <class Team, class T>
JAXMATCH_DEVICE Next check_prices(Team& team, Sharded<T>& d) {
  if (has_large_prices(team, d.p)) return {kRestart};
  reset_reduction(team, d);
  const Shard<T>& shard = d.shard;
  team.each(shard.s.n, [&](int64_t i) {
    const int64_t j = int64_t(load_relaxed(shard.s.col4row + i)) - shard.col0;
    if (!shard.has_row(i) || j < 0 || j >= shard.s.m) return;
    d.reduction.store(d.reduction.first(shard.row_id(i)), order_of(shard.costs.real(i, j)));
  });
  return {kCheckPaid, kRequestReduction};
}

template <class Team, class T>
JAXMATCH_DEVICE Next check_paid(Team& team, Sharded<T>& d) {
  gather_rows(team, d, d.paid);
  if (uses_clamped_costs(team, d.p, GatheredCosts<T>{d})) return {kScanCosts};
  if (load_relaxed(&d.p.s.control->exact)) return {kEnd};
  reset_reduction(team, d);
  const Shard<T>& shard = d.shard;
  team.rows(shard.s.n, [&](Lanes g, int64_t i) {
    if (!shard.has_row(i)) return;
    const double least = least_real(shard, g, i);
    if (g.lane == 0) d.reduction.store(d.reduction.first(shard.row_id(i)), order_of(least));
  });
  return {kBoundGap, kRequestReduction};
}

template <class Team, class T>
JAXMATCH_DEVICE Next restart(Team& team, Sharded<T>& d) {
  Control& c = *d.p.s.control;
  const int32_t unit = load_relaxed(&c.unit);
  const bool ends = unit == kNoUnit;  // no coarser unit is left
  team.sync();
  team.leader([&] { c.unit = ends ? unit : unit + 1; });
  team.sync();
  return {ends ? kEnd : kScanCosts};
}

template <class Team, class T>
JAXMATCH_DEVICE Next take_step(Team& team, Sharded<T>& d, Step step) {
  switch (step) {
    case kScanCosts:
      return scan_shard(team, d);
    case kJudgeCosts:
      return judge_gathered_costs(team, d);
    case kSelectCores:
      return select_first_cores(team, d);
    case kLoadCores:
      return load_first_cores(team, d);
    case kSearchCores:
      if constexpr (!Team::kSearchesInOwnKernel) return search_cores(team, d.p);
      return {kSearchCores};  // unreachable: solve_shard() stops before this step
    case kBeginPricing:
      return begin_sharded_pricing(team, d);
    case kReprice:
      return reprice(team, d);
    case kRepriceAll:
      return reprice_all(team, d);
    case kRenewCores:
      return renew_cores(team, d);
    case kReduceRows:
      return reduce_shard_rows(team, d);
    case kReduceCols:
      return reduce_shard_cols(team, d);
    case kLoadPrices:
      return load_prices(team, d);
    case kBeginTrees:
      return begin_trees(team, d);
    case kMergeLists:
      return merge_lists(team, d);
    case kSearchTight:
      return search_tight(team, d);
    case kMoveDuals:
      return move_sharded_duals(team, d);
    case kCheckPrices:
      return check_prices(team, d);
    case kCheckPaid:
      return check_paid(team, d);
    case kBoundGap:
      gather_rows(team, d, d.least);
      return {kEnd};
    case kBeginAuction:
    case kBeginScale:
    case kPlayRounds:
    case kRelax:
    case kTakeLabels:
      return take_auction_step(team, d, step);
    case kRestart:
      return restart(team, d);
    default:
      return {kEnd};
  }
}

// Runs steps until an exchange is requested or the problem is solved. If it is solved, writes the
// results. A team whose searches have a separate kernel also stops before a search. A second launch
// (`again`) continues after the search.
template <class Team, class T>
JAXMATCH_DEVICE void solve_shard(Team& team, Sharded<T>& d, const LargeResults& results,
                                 bool again) {
  Control& c = *d.p.s.control;
  Next next{Step(load_relaxed(&d.continuation->step))};
  if (next.step > kJudgeCosts) read_quantizer(d);
  team.sync();
  const auto stops = [&] {
    return next.request != kRequestNothing || next.step == kEnd ||
           (Team::kSearchesInOwnKernel && next.step == kSearchCores);
  };
  while (!stops()) {
    next = take_step(team, d, next.step);
    team.sync();
  }
  // After the search kernel, the next search cannot come in the same call, because pricings and
  // checks request an exchange before it. If one did not, an empty exchange would still lead to the
  // search.
  if (again && next.step == kSearchCores) next.request = kRequestReduction;
  team.leader([&] {
    d.continuation->step = next.step;
    d.continuation->request = next.step == kEnd ? kRequestNothing : next.request;
    if (next.step == kEnd) c.stage = kFinish;
  });
  team.sync();
  if (next.step == kEnd) write_results(team, d.p, results, GatheredCosts<T>{d});
}

// Sets up the shard, once the canonical rows are known.
template <class T>
JAXMATCH_DEVICE void set_up_shard(Sharded<T>& d, bool rows, int64_t each, int64_t me,
                                  char* cores_out, int64_t core_count, TightList* lists_out) {
  const bool flip = load_relaxed(&d.p.s.control->flip);
  const bool by_rows = rows != flip;
  d.partition = {by_rows, d.reduction.devices, me, each, d.p.s.n, d.p.s.m};
  Shard<T>& shard = d.shard;
  static_cast<LargeProblem<T>&>(shard) = d.p;
  shard.row0 = by_rows ? me * each : 0;
  shard.col0 = by_rows ? 0 : me * each;
  shard.number_of_classes = d.partition.classes();
  shard.lists = lists_out + shard.row0;
  LargeState& s = shard.s;
  if (by_rows) {
    s.n = each;
    s.u += shard.row0;
    s.col4row += shard.row0;
    s.horizon += shard.row0;
    s.in_tree += shard.row0;
    s.base += shard.row0;
    if (shard.row_mask) shard.row_mask += shard.row0;
  } else {
    s.m = each;
    s.v += shard.col0;
    s.v_real += shard.col0;
    s.label += shard.col0;
    s.on_path += shard.col0;
    if (shard.col_mask) shard.col_mask += shard.col0;
  }
  s.core_key = reinterpret_cast<ClassKeys*>(cores_out);
  s.core_col = reinterpret_cast<ClassCols*>(s.core_key + core_count);
}

// What one kernel launch (on the CPU, one call) does on this device. It runs steps until the
// problem is solved, an exchange with the other devices is due, or, on CUDA, search_shard() must
// run, which is a separate kernel. `again`: this is the second launch of a call, after
// search_shard(). It returns at once if the first launch requested an exchange or ended the solve.
template <class Team, class T>
JAXMATCH_DEVICE void run_shard(Team& team, Sharded<T> d, const LargeResults& results, bool rows,
                               int64_t each, const int32_t* me, char* cores_out, int64_t core_count,
                               TightList* lists_out, bool again = false) {
  if (again && (load_relaxed(&d.continuation->request) != kRequestNothing ||
                load_relaxed(&d.continuation->step) == kEnd))
    return;
  orient(team, d.p, !rows);
  set_up_shard(d, rows, each, *me, cores_out, core_count, lists_out);
  solve_shard(team, d, results, again);
}

// What the kernel between the two launches of run_shard() does: it runs the search if a search is
// the next step. It is a separate kernel so that it gets its own register allocation. It reads no
// costs, so T can be any type.
template <class Team, class T>
JAXMATCH_DEVICE void search_shard(Team& team, LargeProblem<T> p, Continuation* continuation,
                                  bool rows) {
  if (load_relaxed(&continuation->request) != kRequestNothing ||
      load_relaxed(&continuation->step) != kSearchCores)
    return;
  orient(team, p, !rows);
  const Next next = search_cores(team, p);
  team.leader([&] { continuation->step = next.step; });
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_SOLVE_H_
