// Exact transport on CUDA for small problems (is_small()), with one warp per problem.
#ifndef JAXMATCH_CUDA_TRANSPORT_SMALL_CUH_
#define JAXMATCH_CUDA_TRANSPORT_SMALL_CUH_

#include "transport/cuda/finish.cuh"
#include "transport/cuda/small_memory.h"
#include "transport/cuda/small_paths.cuh"
#include "transport/operands.h"

namespace jaxmatch::transport {

// Costs that are scanned so often that they should stay in the L1 cache.
template <class Type>
struct InL1 : Type {};
template <class Type>
struct InL1Row {
  static constexpr bool kComputed = false;
  const typename Type::Raw* at;

  __device__ InL1Row(const TransportProblem& p, int64_t i)
      : at(static_cast<const typename Type::Raw*>(p.cost) + i * p.m) {}
  __device__ auto raw(int64_t j) const { return at[j]; }
};
template <class Type>
struct RowOf<InL1<Type>> {
  using Row = InL1Row<Type>;
};

template <class Type>
__device__ void write_costs(Team team, TransportProblem& p, const Workspace& w) {
  const Costs<Type> given{p, w.supply, w.demand};
  auto* const written = reinterpret_cast<typename Type::Raw*>(w.key);
  team.each_by_warp(p.n, [&](int64_t i) {
    for (int64_t j = team.lane(); j < p.m; j += kWarpSize) written[i * p.m + j] = given.raw(i, j);
  });
  team.sync_block();
  team.one([&] { p.cost = written; });
  team.sync_block();
}

// Makes the plan a forest, and writes it.
template <class C, int kOwn>
struct SmallFinish {
  using Paths = SmallPaths<C, kOwn>;
  using Mask = typename Paths::Mask;

  Team team;
  const C& c;
  const Workspace& w;
  Paths& paths;
  const typename Paths::Problem& f;
  Mask of_row[kOwn];  // for each of this lane's rows, its columns in the plan

  __device__ SmallFinish(Paths& paths)
      : team(paths.f.team), c(paths.f.c), w(paths.f.w), paths(paths), f(paths.f) {
    unroll<kOwn>([&](int a) { of_row[a] = 0; });
#pragma unroll 1
    for (int32_t i = 0; i < f.rows; ++i) {
      unroll<kOwn>([&](int a) {
        const Mask cols = __ballot_sync(kAllLanes, bool(paths.held[a] >> i & 1));
        unroll<kOwn>([&](int b) {
          if (f.col(b) == i) of_row[b] |= cols << a * kWarpSize;
        });
      });
    }
  }

  // The set of rows with more than one arc to the columns in `others`. `own` has the arcs of this
  // lane's rows. Also works with rows and columns exchanged.
  __device__ Mask branching(const Mask (&own)[kOwn], Mask others) const {
    Mask all = 0;
    unroll<kOwn>([&](int a) {
      const Mask lanes = __ballot_sync(kAllLanes, count_of(Mask(own[a] & others)) > 1);
      all |= lanes << a * kWarpSize;
    });
    return all;
  }
  // Moves mass around cycles until no cycle is left. All arcs of a cycle are tight, so this does
  // not change the cost.
  __device__ void make_forest() {
    constexpr Mask kAll = ~Mask(0);
    Mask rows = kAll, cols = branching(paths.held, kAll);
    for (;;) {
      const Mask left = branching(of_row, cols);
      if (left == 0) return;
      if (left == rows) break_cycle(rows, cols);
      rows = left == rows ? kAll : left;
      cols = branching(paths.held, rows);
    }
  }
  // Finds a cycle, and moves mass around it until an arc is empty. Each row in `rows` must have at
  // least two arcs to `cols`, and each column in `cols` at least two arcs to `rows`.
  __device__ void break_cycle(Mask rows, Mask cols) {
    // For each of this lane's rows and columns, the next node on the walk that finds the cycle.
    int32_t next_col[kOwn] = {}, next_row[kOwn] = {};
    Mask passed_rows = 0, passed_cols = 0;
    int32_t i = first_of(rows), j = kNone;
    do {
      passed_rows |= Mask(1) << i;
      const Mask others = paths.of(of_row, i) & cols;
      j = first_of(j == kNone ? others : Mask(others & ~(Mask(1) << j)));
      paths.set(next_col, i, j);
      if (passed_cols >> j & 1) {
        i = paths.of(next_row, j);
        break;
      }
      passed_cols |= Mask(1) << j;
      i = first_of(Mask(paths.of(paths.held, j) & rows & ~(Mask(1) << i)));
      paths.set(next_row, j, i);
    } while (!(passed_rows >> i & 1));
    const int32_t first = i;
    int64_t least = INT64_MAX;
    do {
      j = paths.of(next_col, i);
      least = min(least, paths.flow_of(i, j));
      i = paths.of(next_row, j);
    } while (i != first);
    do {
      j = paths.of(next_col, i);
      change(i, j, -least);
      i = paths.of(next_row, j);
      change(i, j, least);
    } while (i != first);
  }
  __device__ void change(int32_t i, int32_t j, int64_t by) {
    const int64_t flow = paths.flow_of(i, j) + by;
    __syncwarp();
    if (team.lane() == 0) paths.flow_of(i, j) = flow;
    __syncwarp();
    if (flow > 0) return;
    paths.set(of_row, i, Mask(paths.of(of_row, i) & ~(Mask(1) << j)));
    paths.set(paths.held, j, Mask(paths.of(paths.held, j) & ~(Mask(1) << i)));
  }

  // Sets the duals of rows and columns with mass, in units. Column duals are rounded down to
  // multiples of f.bit. Since all costs are such multiples, so are the bounds C_ij - C_ik of
  // differences v_j - v_k. Therefore rounding keeps the duals feasible.
  __device__ void set_prices() const {
    f.each_column([&](int a, int32_t j) { w.price[f.rows + j] = paths.v[a] & -f.bit; });
    team.sync_block();
    unroll<kOwn>([&](int a) {
      const int32_t i = f.col(a);
      if (i >= f.rows) return;
      const int32_t j = of_row[a] != 0 ? first_of(of_row[a]) : 0;
      w.price[i] = of_row[a] != 0 ? f.units(i, j) - w.price[f.rows + j] : 0;
    });
    team.sync_block();
  }

  // Whether the plan is optimal: it moves all mass, uses only tight pairs, and no reduced cost is
  // negative.
  __device__ bool is_proved() const {
    const int64_t* const price = w.price;
    bool wrong = false;
    unroll<kOwn>([&](int a) {
      const int32_t at = f.col(a);
      int64_t of_row_left = at < f.rows ? c.supply[at] : 0,
              of_col_left = at < f.cols ? c.demand[at] : 0;
      for (Mask left = of_row[a]; left != 0; left &= left - 1) {
        const int32_t j = first_of(left);
        const int64_t mass = paths.flow_of(at, j);
        wrong |= mass <= 0 || f.units(at, j) != price[at] + price[f.rows + j];
        of_row_left -= mass;
      }
      for (Mask left = paths.held[a]; left != 0; left &= left - 1) {
        of_col_left -= paths.flow_of(first_of(left), at);
      }
      wrong |= of_row_left != 0 || of_col_left != 0;
    });
    f.each_row([&](int32_t i) {
      f.each_cost(i, [&](int a, auto raw) {
        if (!f.is_wanted(a)) return;
        wrong |= c.finite_units(raw) < price[i] + price[f.rows + f.at[a]];
      });
    });
    return !__any_sync(kAllLanes, wrong);
  }

  // Writes the plan. The first thread gets its cost.
  __device__ double write_plan(double unit) const {
    const TransportProblem& p = c.p;
    int32_t first = 0;
    __int128 paid = 0;
    PlanCost real;
    unroll<kOwn>([&](int a) {
      const int32_t i = f.col(a), own = count_of(of_row[a]);
      int32_t end = own;
      for (int step = 1; step < kWarpSize; step *= 2) {
        const int32_t other = __shfl_sync(kAllLanes, end, max(team.lane() - step, 0));
        if (team.lane() >= step) end += other;
      }
      int32_t k = first + end - own;
      first += __shfl_sync(kAllLanes, end, kWarpSize - 1);
      for (Mask left = of_row[a]; left != 0; left &= left - 1, ++k) {
        const int32_t j = first_of(left);
        const int64_t mass = paths.flow_of(i, j);
        p.rows[k] = i;
        p.cols[k] = j;
        write_mass(p, k, mass, unit);
        if (f.whole) {
          paid += __int128(f.units(i, j)) * mass;
        } else {
          real.add(C::real(c.raw(i, j)), mass);
        }
      }
    });
    write_plan_end(team, p, first);
    if (f.whole) {
      const double cost = double(sum_of_warp(paid)), sign = c.p.maximize ? -1 : 1;
      return sign * ldexp(cost, ilogb(unit) - ilogb(fabs(c.scale)));
    }
    return sum_of_warp(real).value(unit);
  }
  __device__ static PlanCost sum_of_warp(const PlanCost& x) {
    PlanCost all;
    const auto add = [](CompensatedSum& to, const CompensatedSum& from, int lane) {
      to.add(__shfl_sync(kAllLanes, from.sum, lane));
      to.add(__shfl_sync(kAllLanes, from.error, lane));
    };
#pragma unroll 1
    for (int lane = 0; lane < kWarpSize; ++lane) {
      add(all.sum.small, x.sum.small, lane);
      add(all.sum.large, x.sum.large, lane);
    }
    return all;
  }
  __device__ static __int128 sum_of_warp(__int128 x) {
    const int64_t high = warp_sum(int64_t(x >> 64));
    const uint64_t low = uint64_t(x);
    const uint64_t carries = uint64_t(warp_sum(int64_t(low >> 32)));
    const uint64_t lowest = uint64_t(warp_sum(int64_t(low & UINT32_MAX)));
    return (__int128(high) << 64) + (__int128(carries) << 32) + __int128(lowest);
  }
};

// Reads the masses in whole units. Returns false if they are not balanced or not finite, or if a
// mass is too small for the units.
template <class C>
__device__ bool read_small_masses(Team team, const C& c, const Workspace& w, Masses& masses) {
  const MassReader reader = mass_reader(team, c.p, w);
  masses = reader.run();
  if (masses.status != kOptimal) return false;
  if (is_whole(c.p.mass_dtype)) return true;
  if (!c.p.moved) reader.balance(masses);
  return masses.status == kOptimal && !reader.are_coarse(masses.unit);
}

// Solves the problem. Returns false, without results, if the kernel with a team of blocks must
// solve it. This is so if costs are invalid, some pair is forbidden, levels of costs must be kept
// apart, there is no mass or no solution, sums may overflow, or masses are too small for the units.
template <int kOwn, class C>
__device__ bool solve_small(Team team, C& c, const Workspace& w) {
  CostSummary found = summarize_costs(team, c);
  if (found.invalid || found.forbids) return false;
  Masses masses;
  if (!read_small_masses(team, c, w, masses) || masses.total == 0) return false;
  const int64_t shorter = min(c.p.n, c.p.m);
  if (!C::kInteger && may_have_levels(found)) {
    // This kernel can go on only if all levels are needed and draw_near() can lower none of them.
    const double arcs = most_arcs(shorter);
    const int end = find_levels(team, c, w, arcs) + 1;
    if (end < team.s.levels.count || draws_near(team, end, arcs)) return false;
    set_map(team, c, end, false, arcs, &found);
  }
  if (!choose_unit(c, found, shorter)) return false;
  SmallProblem<C, kOwn> f(team, c, w);
  f.survey();
  SmallPaths<C, kOwn> paths(f, w.flow, w.rest);
  f.find_prices(masses.total, found.most * fabs(c.scale), paths.v);
  if (!paths.run()) return false;
  SmallFinish<C, kOwn> finish(paths);
  finish.make_forest();
  finish.set_prices();
  if (!finish.is_proved()) return false;
  const double most = write_duals(team, c, w, false);
  const double value = finish.write_plan(masses.unit);
  team.one([&] {
    c.p.counts[kBids] = paths.scans;
    c.p.counts[kPivots] = 0;
    write_value(c, masses, most, f.whole, value, 0, 0);
  });
  return true;
}

template <class Written, int kOwn>
__global__ void __launch_bounds__(kWarpSize, kOwn == 4 ? 16 : 24)
    small_transport_kernel(const __grid_constant__ TransportBatch batch) {
  Shared& shared = *reinterpret_cast<Shared*>(shared_memory);
  const int64_t k = blockIdx.x;
  if (threadIdx.x == 0) {
    shared.barriers = 0;
    shared.levels = CostLevels{};
    shared.problem = problem_at(batch.first, k);
    SmallMemory{batch.first.n, batch.first.m}.place(shared.workspace,
                                                    reinterpret_cast<int64_t*>(&shared + 1),
                                                    batch.workspace + k * batch.workspace_bytes);
  }
  const Team team(shared, 1, 0);
  team.sync_block();
  const Workspace& w = shared.workspace;
  TransportProblem& p = shared.problem;
  if constexpr (std::is_same_v<Written, Floats>) {
    if (p.row_points) {
      write_costs<FloatPoints>(team, p, w);
    } else if (p.cost_dtype != Dtype::kF32) {
      write_costs<NarrowFloats>(team, p, w);
    }
  } else if constexpr (std::is_same_v<Written, Doubles>) {
    if (p.row_points) write_costs<DoublePoints>(team, p, w);
  }
  Costs<InL1<Written>> c{p, w.supply, w.demand};
  if (!solve_small<kOwn>(team, c, w)) team.one([&] { *p.status = kLeft; });
}

template <class Written>
TransportKernel pick_small_transport_kernel(int64_t n, int64_t m) {
  const int64_t longer = n < m ? m : n;
  return longer <= kWarpSize       ? small_transport_kernel<Written, 1>
         : longer <= 2 * kWarpSize ? small_transport_kernel<Written, 2>
                                   : small_transport_kernel<Written, 4>;
}

}  // namespace jaxmatch::transport

#define JAXMATCH_INSTANCE(Written)                                                 \
  namespace jaxmatch::transport {                                                  \
  template TransportKernel pick_small_transport_kernel<Written>(int64_t, int64_t); \
  }                                                                                \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_TRANSPORT_SMALL_CUH_
