// Exact transport on CUDA, with a team of blocks per problem. An auction, or augmenting paths if
// columns are few, finds prices and most of a plan. The network simplex method then makes the plan
// optimal.
#ifndef JAXMATCH_CUDA_TRANSPORT_KERNEL_CUH_
#define JAXMATCH_CUDA_TRANSPORT_KERNEL_CUH_

#include "transport/cuda/auction.cuh"
#include "transport/cuda/balance.cuh"
#include "transport/cuda/column_paths.cuh"
#include "transport/cuda/finish.cuh"
#include "transport/cuda/forest.cuh"
#include "transport/cuda/kernels.h"
#include "transport/cuda/paths.cuh"
#include "transport/cuda/simplex.cuh"
#include "transport/operands.h"

namespace jaxmatch::transport {

// Sets the column prices to the given duals. If no duals are given, or one is not finite or too
// large, sets the prices to 0 and returns false.
template <class C>
__device__ bool start_warm(Team team, const C& c, const Workspace& w) {
  bool usable = c.p.start_dual != nullptr;
  team.each(c.p.m, [&](int64_t j) {
    w.v[j] = 0;
    if (c.p.start_dual) usable &= fabs(c.given_price(j)) < 0x1p20;
  });
  usable = !team.any(!usable);
  if (usable) team.each(c.p.m, [&](int64_t j) { w.v[j] = float(c.given_price(j)); });
  team.sync();
  return usable;
}

// Converts the column prices of the auction to whole units. They are rounded to a coarse grid, so
// that costs with few bits get duals with few bits, which float32 can hold.
template <class C>
__device__ void take_prices(Team team, const C& c, const Workspace& w) {
  constexpr double kGrid = 0x1p-14;
  team.each(c.p.m, [&](int64_t j) {
    const double v = rint(double(w.v[j]) / kGrid) * kGrid * c.units_per_normal;
    w.price[c.p.n + j] = fabs(v) < 0x1p60 ? int64_t(rint(v)) : int64_t{0};
  });
  team.sync();
}

// Finds prices in whole units after the auction has taken a given plan: refines the prices of the
// given duals (refine_prices.cuh), and moves free mass along shortest augmenting paths (paths.cuh).
template <class C>
__device__ void settle_prices(Team team, const C& c, const Workspace& w, Holding* held) {
  PriceLabels<C> labels{team, c, w, held};
  const int64_t bit = lowest_bit(labels);
  labels.begin(bit);
  refine_prices(labels);
  FreeMass<C>(labels).run(bit);
  team.each(c.p.m, [&](int64_t j) {
    if (c.demand[j] > 0) w.v[j] = float(double(labels.price(j)) / c.units_per_normal);
  });
  team.sync();
}

// Finds the first prices and the first holdings (masses of rows that columns hold). Returns the
// pool of holdings.
template <class C>
__device__ Holding* hold_masses(Team team, const C& c, const Workspace& w) {
  const int32_t* const start = c.p.start_col && c.p.start_col[0] >= 0 ? c.p.start_col : nullptr;
  const bool warm = start_warm(team, c, w);
  if (team.s.few_bytes > 0) {
    const int32_t searches = plan_few_columns(team, c, w, warm);
    team.one([&] { w.control->bids = searches; });
    return w.pool[0];
  }
  Auction<C> auction{team, c, w};
  Holding* const held = hold_auction(auction, warm, start);
  if (start) {
    settle_prices(team, c, w, held);
  } else {
    take_prices(team, c, w);
  }
  return held;
}

// Finds an optimal basis for the current costs. Returns whether no forbidden pair has mass in it.
template <class C>
__device__ bool find_basis(Team team, const Tree<C>& tree, const Workspace& w) {
  const C& c = tree.c;
  Holding* const held = hold_masses(team, c, w);
  if (team.rank == 0) grow_basis(tree, held, team.s.few_bytes > 0 && has_few_rows(c.p.n, c.p.m));
  team.sync();
  const int32_t pivots = pivot_to_optimum(tree, team);
  team.one([&] {
    c.p.counts[kBids] += w.control->bids;
    c.p.counts[kPivots] += pivots;
  });
  if (c.forbidden == 0) return true;
  if (team.rank == 0) {
    const int32_t used = find_forbidden(tree, true);
    team.one([&] { w.control->found = used; });
  }
  team.sync();
  const bool found = w.control->found == kNone;
  team.sync();
  return found;
}

// Solves the problem without the costs above level `needed` (levels.cuh). While it is infeasible,
// adds one level at a time. A unit large enough for the costs of a high level may round the costs
// below them away. So there is an extra solve first, for which draw_near() replaces the costs of a
// high level, where it can, by a smaller number that still outweighs all lower levels. The plan of
// this solve is written if it costs less than the plan for the unchanged costs.
template <class C>
__device__ void solve_levels(Team team, C& c, const Workspace& w, bool tree_in_shared,
                             const CostSummary& found, int needed, int64_t shorter) {
  const Team first = team.alone();
  const int levels = team.s.levels.count;
  const double arcs = most_arcs(shorter);
  int end = needed + 1;
  bool near = draws_near(team, end, arcs);
  int32_t saved = 0;
  for (;;) {
    CostSummary part = found;
    set_map(team, c, end, near, arcs, &part);
    if (!choose_unit(c, part, shorter)) return write_failure(team, c.p, kOverflow);
    const Tree<C> tree(first, c, w, tree_in_shared);
    if (!find_basis(team, tree, w)) {
      if (end == levels) return write_failure(team, c.p, kInfeasible);
      near = draws_near(team, ++end, arcs);
      continue;
    }
    if (near) {
      if (team.rank == 0) saved = save_plan(tree);
      near = false;
      team.sync();
      continue;
    }
    if (c.forbidden > 0) release_forbidden(team, tree, end < levels);
    const double most = write_duals(team, c, w, false);
    const bool whole = are_whole(team, c);
    if (team.rank == 0) write_plan(tree, w.control->masses, most, whole, saved);
    return;
  }
}

template <class C>
__device__ void solve_transport(Team team, C& c, const Workspace& w, bool tree_in_shared) {
  const TransportProblem& p = c.p;
  team.one([&] { p.counts[kBids] = p.counts[kPivots] = 0; });
  Team first = team.alone();
  const CostSummary found = summarize_costs(team, c);
  const Masses masses = read_masses(team, c, w, found.forbids);
  const Status status = found.invalid ? kInvalidCost : masses.status;
  if (status != kOptimal) {
    return write_failure(team, p, status, status == kUnbalanced ? masses.lacking : kNan);
  }
  int64_t used_rows = 0, used_cols = 0;
  team.each(p.n, [&](int64_t i) { used_rows += w.supply[i] > 0; });
  team.each(p.m, [&](int64_t j) { used_cols += w.demand[j] > 0; });
  used_rows = team.sum(used_rows);
  used_cols = team.sum(used_cols);
  if (used_rows == 0) return write_empty(team, c, w);
  const int64_t shorter = used_rows < used_cols ? used_rows : used_cols;
  int needed = 0;
  if (!C::kInteger && may_have_levels(found)) {
    needed = find_levels(team, c, w, most_arcs(shorter));
  }
  solve_levels(team, c, w, tree_in_shared, found, needed, shorter);
}

// Each team solves every `teams`-th problem, and uses the workspace of its first problem for all.
template <class Type>
__global__ void __launch_bounds__(kThreads, 1)
    transport_kernel(const __grid_constant__ TransportBatch batch) {
  Shared& shared = *reinterpret_cast<Shared*>(shared_memory);
  const int64_t first = blockIdx.x / unsigned(batch.blocks);
  const int64_t teams = gridDim.x / unsigned(batch.blocks);
  if (threadIdx.x == 0) {
    const int64_t n = batch.first.n, m = batch.first.m;
    shared.barriers = 0;
    shared.problem = batch.first;
    shared.few_bytes = batch.few_bytes;
    shared.lengths_in_shared = batch.lengths_in_shared;
    shared.workspace = Workspace(batch.workspace + first * batch.workspace_bytes, n, m);
    if (batch.state_in_shared) {
      shared.workspace.move_state(shared.state(batch.tree_in_shared), n, m);
    }
  }
  const Team team(shared, batch.blocks, int(blockIdx.x % unsigned(batch.blocks)));
  for (int64_t k = first; k < batch.size; k += teams) {
    if (batch.only_left && batch.first.status[k] != kLeft) continue;
    if (k != first) team.sync();
    if (threadIdx.x == 0) {
      shared.levels = CostLevels{};
      shared.problem = problem_at(batch.first, k);
    }
    team.sync_block();
    const Workspace& w = shared.workspace;
    Costs<Type> c{shared.problem, w.supply, w.demand};
    solve_transport(team, c, w, batch.tree_in_shared);
  }
}

template <class Type>
TransportKernel pick_transport_kernel() {
  return transport_kernel<Type>;
}

}  // namespace jaxmatch::transport

#define JAXMATCH_INSTANCE(Type)                           \
  namespace jaxmatch::transport {                         \
  template TransportKernel pick_transport_kernel<Type>(); \
  }                                                       \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_TRANSPORT_KERNEL_CUH_
