// Writes the results: duals, plan, value and gap, or the status of a problem without a plan.
#ifndef JAXMATCH_CUDA_TRANSPORT_FINISH_CUH_
#define JAXMATCH_CUDA_TRANSPORT_FINISH_CUH_

#include "common/reals.h"
#include "transport/cuda/flows.cuh"
#include "transport/cuda/levels.cuh"
#include "transport/cuda/masses.cuh"

namespace jaxmatch::transport {

#include "transport/duals_below.inc.h"

__device__ inline void write_mass(const TransportProblem& p, int64_t at, int64_t units,
                                  double unit) {
  if (p.mass_dtype == Dtype::kS32) {
    static_cast<int32_t*>(p.mass)[at] = int32_t(units);
  } else if (p.mass_dtype == Dtype::kS64) {
    static_cast<int64_t*>(p.mass)[at] = units;
  } else {
    write_real(p.mass, p.mass_dtype, at, double(units) * unit);
  }
}

// Marks the entries of the plan from `first` on as unused.
__device__ inline void write_plan_end(Team team, const TransportProblem& p, int64_t first) {
  team.each(p.n + p.m - 1, [&](int64_t k) {
    if (k < first) return;
    p.rows[k] = p.cols[k] = kNone;
    write_mass(p, k, 0, 0);
  });
}

constexpr double kNan = __builtin_nan("");

// Writes the results of a problem without a solution. `gap`: the mass that one side lacks, if the
// status is kUnbalanced.
__device__ inline void write_failure(Team team, const TransportProblem& p, Status status,
                                     double gap = kNan) {
  const double nan = kNan;
  write_plan_end(team, p, 0);
  team.each(p.n, [&](int64_t i) { write_real(p.row_dual, p.result_dtype, i, nan); });
  team.each(p.m, [&](int64_t j) { write_real(p.col_dual, p.result_dtype, j, nan); });
  team.one([&] {
    write_real(p.value, p.result_dtype, 0, nan);
    write_real(p.gap, p.result_dtype, 0, gap);
    *p.status = status;
  });
}

// The first node whose arc to its parent is a forbidden pair with mass or, if `with_mass` is false,
// without mass. Returns kNone if there is no such node. One block calls it.
template <class C>
__device__ int32_t find_forbidden(const Tree<C>& t, bool with_mass) {
  uint64_t first = ~uint64_t(0), none = 0;
  t.team.each(t.nodes, [&](int64_t x) {
    const int32_t parent = t.above[x];
    if (parent == t.root() || (t.w.flow[x] > 0) != with_mass || uint64_t(x) > first) return;
    if (t.cost_between(int32_t(x), parent) >= t.c.forbidden) first = uint64_t(x);
  });
  t.team.least(first, none);
  return first == ~uint64_t(0) ? kNone : int32_t(first);
}

// Takes forbidden pairs without mass out of the tree. Such a pair gives the nodes below it prices
// of about c.forbidden, which no allowed pair needs. So the subtree is hung from the root instead,
// and its prices are shifted to bring the price of its top closer to 0. `finite`: some pairs are
// forbidden only by a CostMap. Their true cost is at least c.forbidden, and they limit the shift as
// allowed pairs do.
template <class C>
__device__ void release_forbidden(Team team, const Tree<C>& t, bool finite) {
  const Workspace& w = t.w;
  const C& c = t.c;
  int32_t* const inside = w.scratch[0];
  for (;;) {
    if (team.rank == 0) {
      const int32_t x = find_forbidden(t, false);
      if (x != kNone) {
        t.team.each(t.nodes, [&](int64_t y) { inside[y] = t.tour[x].holds(t.tour[y].first); });
      }
      team.one([&] { w.control->found = x; });
    }
    team.sync();
    const int32_t x = w.control->found;
    if (x == kNone) return;
    // The least reduced cost between a row outside the subtree and a column in it. A greater shift
    // would make this reduced cost negative.
    int64_t most = INT64_MAX;
    team.each_by_warp(c.p.n, [&](int64_t i) {
      if (inside[i] || c.supply[i] == 0) return;
      for (int64_t j = team.lane(); j < c.p.m; j += kWarpSize) {
        if (!inside[c.p.n + j] || c.demand[j] == 0) continue;
        const int64_t cost = c.units(i, j);
        if (cost == c.forbidden && !finite) continue;
        const int64_t slack = cost - w.price[i] - w.price[c.p.n + j];
        most = slack < most ? slack : most;
      }
    });
    uint64_t key = uint64_t(most), index = 0;
    team.least(key, index);
    most = int64_t(key);
    const int64_t wanted = t.is_row(x) ? w.price[x] : -w.price[x];
    const int64_t less = wanted < 0 ? 0 : wanted < most ? wanted : most;
    team.sync();
    if (team.rank == 0) t.move(x, t.root(), x, 0, -less);
    team.sync();
  }
}

// Writes the duals, in terms of the given costs, not in units. Rows and columns without mass get
// the greatest duals that the duals of the other side allow. `empty`: the problem has no mass.
// Returns the greatest magnitude of a dual.
template <class C>
__device__ double write_duals(Team team, const C& c, const Workspace& w, bool empty) {
  const TransportProblem& p = c.p;
  const double per_unit = 1 / fabs(c.scale), sign = p.maximize ? -1 : 1;
  team.each(p.n, [&](int64_t i) {
    if (c.supply[i] > 0) w.row_dual[i] = double(w.price[i]) * per_unit;
  });
  // First, col_dual has the bits of the dual of a column without demand.
  auto* const bits = reinterpret_cast<unsigned long long*>(w.col_dual);
  team.each(p.m, [&](int64_t j) { bits[j] = ordered_bits(kFar); });
  team.sync();
  // A warp handles a part of the rows of a column without demand.
  constexpr int64_t kPart = 8 * kWarpSize;
  const int64_t parts = empty ? 0 : (p.n + kPart - 1) / kPart;
  team.each_by_warp(p.m * parts, [&](int64_t k) {
    const int64_t j = k / parts, first = k % parts * kPart;
    if (c.demand[j] > 0 || !c.has_col(j)) return;
    double least = kFar;
    for (int64_t i = first + team.lane(); i < min(first + kPart, p.n); i += kWarpSize) {
      if (c.supply[i] == 0) continue;
      least = fmin(least, difference_below(c.mapped(c.raw(i, j)), w.row_dual[i]));
    }
    const uint64_t key = warp_least(ordered_bits(least));
    if (team.lane() == 0) atomicMin(&bits[j], (unsigned long long)(key));
  });
  team.sync();
  team.each(p.m, [&](int64_t j) {
    if (c.demand[j] > 0) {
      w.col_dual[j] = double(w.price[p.n + j]) * per_unit;
    } else {
      const double least = from_ordered_bits(uint64_t(bits[j]));
      w.col_dual[j] = least < kFar ? dual_below(p, least) : 0;
    }
  });
  team.sync();
  team.each_by_warp(p.n, [&](int64_t i) {
    if (c.supply[i] > 0) return;
    double least = kFar;
    for (int64_t j = team.lane(); j < p.m && c.has_row(i); j += kWarpSize) {
      if (!c.has_col(j)) continue;
      least = fmin(least, difference_below(c.mapped(c.raw(i, j)), w.col_dual[j]));
    }
    least = from_ordered_bits(warp_least(ordered_bits(least)));
    if (team.lane() == 0) w.row_dual[i] = least < kFar ? dual_below(p, least) : 0;
  });
  team.sync();
  double most = 0;
  team.each(p.n, [&](int64_t i) {
    most = fmax(most, fabs(w.row_dual[i]));
    write_real(p.row_dual, p.result_dtype, i, sign * w.row_dual[i] + 0.0);
  });
  team.each(p.m, [&](int64_t j) {
    most = fmax(most, fabs(w.col_dual[j]));
    write_real(p.col_dual, p.result_dtype, j, sign * w.col_dual[j] + 0.0);
  });
  return team.most(most);
}

// The cost of a part of a plan.
struct PartCost {
  __int128 whole = 0;
  PlanCost sum;

  // `raw`: the cost of arc k. `real`: w.mass has the masses as floats.
  template <class C>
  __device__ void add(const C& c, const Workspace& w, int32_t k, typename C::Raw raw, bool real) {
    if (real) {
      const double cost = C::real(raw), mass = __longlong_as_double(w.mass[k]);
      sum.add(cost, mass);
      if constexpr (C::kInteger) {
        const int64_t exact = c.scale < 0 ? -c.units_of(raw) : c.units_of(raw);
        sum.add(double(exact - int64_t(cost)), mass);
      }
    } else if constexpr (C::kInteger) {
      whole += __int128(c.scale < 0 ? -c.units_of(raw) : c.units_of(raw)) * w.mass[k];
    } else {
      sum.add(C::real(raw), w.mass[k]);
    }
  }
  __device__ void add(const PartCost& other) {
    whole += other.whole;
    sum.sum.add(other.sum.sum);
  }
  __device__ double value(double unit, bool real) const {
    return double(whole) * unit + sum.value(real ? 1 : unit);
  }
};

// The cost of a plan, from the costs in w.flow and the masses in w.mass. Each thread adds
// consecutive arcs; if arcs are few, one thread adds all. One block calls it; the first thread gets
// the result.
template <class C>
__device__ double cost_of(Team team, const C& c, const Workspace& w, int32_t count, double unit,
                          bool real) {
  // Arcs of a part; more if threads are too few. The pool has room for the costs of all parts.
  constexpr int32_t kPart = 128;
  const int32_t wanted = (count + kPart - 1) / kPart, parts = min(wanted, kThreads);
  const int32_t width = (count + parts - 1) / max(parts, 1);
  auto* const part = reinterpret_cast<PartCost*>(w.pool[0]);
  team.each(parts, [&](int64_t t) {
    PartCost own;
    const int32_t first = int32_t(t) * width, last = min(first + width, count);
    for (int32_t k = first; k < last; ++k) {
      own.add(c, w, k, typename C::Raw(w.flow[k]), real);
    }
    part[t] = own;
  });
  team.sync();
  PartCost all;
  if (threadIdx.x == 0) {
    for (int32_t t = 0; t < parts; ++t) all.add(part[t]);
  }
  return all.value(unit, real);
}

// Writes value, gap and status. The first thread calls it.
// - most: the greatest magnitude of a dual
// - whole: all costs are whole numbers of units
// - gap: how far recomputed flows may be from the optimal cost
// - excess: the cost of the basis minus the cost of the plan written
template <class C>
__device__ void write_value(const C& c, const Masses& masses, double most, bool whole, double value,
                            double gap, double excess) {
  const TransportProblem& p = c.p;
  write_real(p.value, p.result_dtype, 0, value);
  // What rounding may add to the gap: each cost is off by up to half a unit, and each mass by one
  // unit. Balancing changes each demand by up to two more units.
  if (!whole) gap += double(masses.total) * masses.unit / fabs(c.scale);
  if (masses.rounded) gap += double(p.n + 3 * p.m) * masses.unit * most;
  if (excess > 0) gap = fmax(gap - excess, 0.0);
  gap *= 1 + 0x1p-50;
  if (!whole || masses.rounded) gap += 0x1p-1074;  // covers products that underflowed
  if (p.result_dtype == Dtype::kF32 && gap > double(float(gap))) {
    gap = nextafterf(float(gap), __builtin_huge_valf());
  }
  write_real(p.gap, p.result_dtype, 0, gap);
  *p.status = kOptimal;
}

// Writes plan, value, gap and status. `saved`: the number of arcs of another plan, which is written
// instead if it costs less. One block calls it.
template <class C>
__device__ void write_plan(const Tree<C>& t, const Masses& masses, double most, bool whole,
                           int32_t saved) {
  Team team = t.team;
  const Workspace& w = t.w;
  const TransportProblem& p = t.c.p;
  const bool real = masses.coarse;
  double excess, gap = 0;
  // Flows are recomputed only for the plan of the basis, so the saved plan is then ignored.
  int32_t count = list_better(t, real ? 0 : saved, masses.unit, &excess);
  if (real && !recompute_flows(t.c, {team, w}, most, count, gap)) {
    return write_failure(team, p, kInfeasible);
  }
  team.each(count, [&](int64_t k) {
    p.rows[k] = int32_t(w.key[k] >> 32);
    p.cols[k] = int32_t(uint32_t(w.key[k]));
    if (real) {
      write_real(p.mass, p.mass_dtype, k, __longlong_as_double(w.mass[k]));
    } else {
      write_mass(p, k, w.mass[k], masses.unit);
    }
    w.flow[k] = int64_t(t.c.raw(p.rows[k], p.cols[k]));
  });
  write_plan_end(team, p, count);
  team.sync();
  const double value = cost_of(team, t.c, w, count, masses.unit, real);
  team.one([&] { write_value(t.c, masses, most, whole, value, gap, excess); });
}

// Writes the results of a problem without mass.
template <class C>
__device__ void write_empty(Team team, const C& c, const Workspace& w) {
  const TransportProblem& p = c.p;
  write_duals(team, c, w, true);
  write_plan_end(team, p, 0);
  team.one([&] {
    write_real(p.value, p.result_dtype, 0, 0);
    write_real(p.gap, p.result_dtype, 0, 0);
    *p.status = kOptimal;
  });
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_FINISH_CUH_
