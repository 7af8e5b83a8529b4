// Exact transport. An auction, or augmenting paths if columns are few, finds prices and most of a
// plan. Cancelling cycles turns the plan into a forest, which is the first basis. The network
// simplex method then makes the plan optimal.
//
// Included by portable.cc, avx2.cc and avx512.cc, which define JAXMATCH_ISA_NAMESPACE (the
// namespace) and are compiled for their instruction set. Only solve_transport may have external
// linkage, and nothing may come from the C++ standard library (see assignment/cpu/problem.h).

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(JAXMATCH_AVX2) || defined(JAXMATCH_AVX512)
#include <immintrin.h>
#endif

#include "assignment/cpu/problem.h"
#include "common/cpu/poll.h"
#include "common/host_device.h"
#include "transport/cpu/problem.h"

namespace jaxmatch::transport {
namespace JAXMATCH_ISA_NAMESPACE {
namespace {

// clang-format off: each of these needs the ones before it.
#include "common/compensated_sum.inc.h"
#include "transport/masses.inc.h"
#include "transport/plan_cost.inc.h"
#include "transport/duals_below.inc.h"
#include "common/float16.inc.h"
#include "common/cpu/number_format.inc.h"
#include "common/cpu/lanes.inc.h"
#include "common/cpu/transpose.inc.h"
#include "common/cpu/stack.inc.h"
#include "common/reals.inc.h"
#include "common/cpu/two_least.inc.h"
#include "common/cost_levels.inc.h"
#include "common/cost_units.inc.h"
#include "transport/cpu/masses.h"
#include "transport/cpu/costs.h"
#include "transport/cpu/levels.h"
#include "transport/plan_flows.inc.h"
#include "transport/balance.inc.h"
#include "transport/cpu/balance.h"
#include "transport/cpu/send_rest.h"
#include "transport/cpu/scan.h"
#include "transport/cpu/auction.h"
#include "transport/cpu/parts.h"
#include "transport/cpu/few_columns.h"
#include "transport/cpu/place_rest.h"
#include "transport/cpu/basis.h"
#include "transport/cpu/simplex.h"
#include "transport/cpu/finish.h"
#include "transport/cpu/canonical.h"
#include "assignment/cpu/distances.h"
#include "transport/cpu/point_costs.h"
#include "transport/cpu/results.h"
// clang-format on

// Sets the column prices to the given duals. Returns false if no duals are given, or if one is not
// finite or too large.
template <class C>
bool start_warm(const TransportProblem& p, const CanonicalForm& f, const C& c, double* u) {
  if (!p.start_dual) return false;
  const double sign = p.maximize ? -1 : 1, scale = fabs(c.scale);
  const auto dual = [&](int64_t j) { return sign * read_real(p.start_dual, p.result_dtype, j); };
  for (int64_t j = 0; j < p.m; ++j) {
    if (!(fabs(dual(j)) * scale < 0x1p52)) return false;  // so that prices are exact as doubles
  }
  if (!f.transposed) {
    for (int32_t j = 0; j < c.cols; ++j) c.v[j] = rint(dual(f.col_list[j]) * scale);
    return true;
  }
  // The problem is transposed, so the given duals are those of canonical rows. Each canonical
  // column gets the greatest price that they allow.
  Poll poll;
  for (int32_t j = 0; j < c.cols; ++j) u[j] = __builtin_inf();
  for (int32_t i = 0; i < c.rows; ++i) {
    poll.after(c.cols);
    const double v = dual(f.row_list[i]) * scale;
    const auto* const row = c.row(i);
    for (int32_t j = 0; j < c.cols; ++j) u[j] = fmin(u[j], c.key_of(row[j]) - v);
  }
  for (int32_t j = 0; j < c.cols; ++j) c.v[j] = u[j] < __builtin_inf() ? rint(u[j]) : 0;
  return true;
}

// Runs an auction, which sets the column prices. Calls put(row, col, mass) for its plan. Returns
// the number of bids.
template <class C, class Put>
int64_t begin_by_auction(const C& c, Workspace<C>& w, bool warm, bool has_dummies, const Put& put) {
  Auction<C> auction{c,     w.supply, w.demand, 0,      w.pool,     w.pool_size, 0,
                     kNone, w.top,    w.of_row, w.held, w.rest,     w.ring,      0,
                     0,     0,        0,        warm,   has_dummies};
  auction.run(w.u);
  for (int32_t h = 0; h < auction.made; ++h) {
    const Holding& own = w.pool[h];
    if (own.row != kNone) put(own.row, own.col, own.mass);
  }
  place_rest(c, w.demand, w.held, w.rest, w.ring, put);
  return auction.bids;
}

// Finds augmenting paths between few columns instead of running an auction. This also sets the
// column prices. Calls put(row, col, mass) for the plan. Returns the number of paths.
template <class C, class Put>
int64_t begin_by_paths(const C& c, Workspace<C>& w, bool warm, const Put& put) {
  ColumnPaths<C> paths{c, w.paths, w.supply, w.demand};
  paths.run(warm);
  paths.give_plan(w.rest, put);
  place_rest(c, w.demand, w.paths.held, w.rest, w.ring, put);
  return paths.paths;
}

// Solves the problem with its costs changed by `map`. `found` summarises the changed costs. If the
// problem is feasible, calls write(costs, basis, whole), where `whole` says whether all costs are
// whole numbers of units.
template <class C, class Write>
Status solve_mapped(const TransportProblem& p, const CanonicalForm& f, Workspace<C>& w,
                    const CostSummary& found, const CostMap& map, const Write& write) {
  C c;
  c.map = map;
  if (!choose_unit(c, found, p.maximize, f.cols)) return kOverflow;
  set_costs(&c, f, w);
  const bool warm = start_warm(p, f, c, w.u);
  Basis<C> basis = w.basis(c);
  basis.clear();
  int32_t added = 0;
  const auto add = [&](int32_t i, int32_t j, int64_t mass) { basis.add(i, j, mass, added++); };
  int64_t tries;
  if (f.few_columns) {
    tries = begin_by_paths(c, w, warm, add);
  } else {
    tries = begin_by_auction(c, w, warm, p.moved != nullptr, add);
  }
  basis.grow_tree(w.order);
  Simplex<C> simplex{basis, c};
  // A cost that underflows to 0 units looks like a whole number of units, but is not.
  const bool whole = simplex.run() && found.least * fabs(c.scale) > 0;
  p.counts[kBids] += int32_t(tries);
  p.counts[kPivots] += int32_t(simplex.pivots);
  if (uses_forbidden(basis, c)) return kInfeasible;
  write(c, basis, whole);
  return kOptimal;
}

// Solves the problem without the costs above level `needed` (levels.h). While it is infeasible,
// adds one level at a time. A unit large enough for the costs of a high level may round the costs
// below them away. So there is an extra solve first, for which draw_near() replaces the costs of a
// high level, where it can, by a smaller number that still outweighs all lower levels. The plan of
// this solve is written if it costs less than the plan for the unchanged costs.
template <class C>
Status solve_levels(const TransportProblem& p, const CanonicalForm& f, Workspace<C>& w,
                    const CostSummary& found, const CostLevels& levels, int needed) {
  for (int end = needed + 1; end <= levels.count; ++end) {
    const bool forbids = end < levels.count;
    CostSummary part = found;
    part.forbids |= forbids;
    const CostMap near = draw_near(levels, end, most_arcs(f.cols), &part.most);
    int32_t saved = 0;
    if (near.draws_near()) {
      const auto save = [&](const C& c, Basis<C>& b, bool) {
        for_arcs(f, c, b,
                 [&](int32_t i, int32_t j, int64_t mass) { w.saved[saved++] = {mass, i, j}; });
      };
      if (solve_mapped(p, f, w, part, near, save) == kInfeasible) continue;
    }
    const double most = levels.level[end - 1].most;
    part.most = most > 0 ? most : found.most;
    const auto write = [&](const C& c, Basis<C>& b, bool whole) {
      if (c.forbidden > 0) release_forbidden(b, c, forbids, w.order);
      write_solution(p, f, c, b, w, whole, saved);
    };
    const Status status = solve_mapped(p, f, w, part, forbid_from(levels, end), write);
    if (status != kInfeasible) return status;
  }
  return kInfeasible;
}

template <class C>
bool solve_as(const TransportProblem& p, Arena* arena) {
  CanonicalForm f(p);
  Workspace<C> w;
  Stack stack;
  w.allocate(p, f, false, &stack);
  if (!reserve(arena, stack.used, &stack)) return false;
  w.allocate(p, f, false, &stack);
  w.given.load();
  p.counts[kBids] = p.counts[kPivots] = 0;
  const CostSummary found = summarize_costs(p, w.given);
  const auto read = [&] {
    w.masses = {w.masses.row, w.masses.col, w.masses.real};
    Status status = read_masses(p, &w.masses);
    if (status == kOptimal && !is_whole(p.mass_dtype)) {
      if (!p.moved) {
        status = balance_masses(p, w.given, found.forbids, w.component, w.order, &w.masses);
      }
      w.masses.coarse = are_coarse(p, w.masses);
    }
    return status;
  };
  Status status = found.invalid ? kInvalidCost : read();
  if (status != kOptimal) {
    write_failure(p, status, status == kUnbalanced ? w.masses.lacking : __builtin_nan(""));
    return true;
  }
  f.find_used(w.masses);
  if (f.rows == 0) {
    write_empty(p, w.given, w.u, w.v);
    return true;
  }
  CostLevels levels;
  int needed = 0;
  if (!Format<typename C::Elem>::kInteger && may_have_levels(p, w.given, found, w.masses)) {
    levels = find_levels(p, w.given, w.masses, most_arcs(f.cols), w.v, &needed);
    f.has_levels = levels.count > 1;
    f.gathered |= f.has_levels;
  }
  // ColumnPaths reads several rows at a time, so the cache must have room for all rows.
  f.few_columns &= C::can_keep_rows(f) && double(found.most_whole) < kMostExactWhole;
  if (C::kComputed || f.gathered || f.few_columns) {
    stack = {};
    w.allocate(p, f, true, &stack);
    if (!reserve(arena, stack.used, &stack)) return false;
    w.allocate(p, f, true, &stack);
    w.given.load();
    read();
  }
  f.list(w);
  status = solve_levels(p, f, w, found, levels, needed);
  if (status != kOptimal) write_failure(p, status);
  return true;
}

}  // namespace

bool solve_transport(const TransportProblem& p, Arena* arena) {
  if (p.row_points) {
    return p.cost_dtype == Dtype::kF32 ? solve_as<PointCosts<DoubleLanes, float>>(p, arena)
                                       : solve_as<PointCosts<DoubleLanes, double>>(p, arena);
  }
  switch (p.cost_dtype) {
    case Dtype::kBF16:
      return solve_as<Costs<DoubleLanes, BFloat16>>(p, arena);
    case Dtype::kF16:
      return solve_as<Costs<DoubleLanes, Float16>>(p, arena);
    case Dtype::kF32:
      return solve_as<Costs<DoubleLanes, float>>(p, arena);
    case Dtype::kF64:
      return solve_as<Costs<DoubleLanes, double>>(p, arena);
    case Dtype::kS32:
      return solve_as<Costs<DoubleLanes, int32_t>>(p, arena);
    case Dtype::kS64:
      return solve_as<Costs<DoubleLanes, int64_t>>(p, arena);
  }
  return false;
}

}  // namespace JAXMATCH_ISA_NAMESPACE
}  // namespace jaxmatch::transport
