// Levels of costs (common/cost_levels.inc.h): a cost of a higher level, such as 1e9 for pairs to
// avoid, outweighs any exchange of lower costs. A problem is solved without its higher levels if it
// is feasible without them.
#ifndef JAXMATCH_CUDA_TRANSPORT_LEVELS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_LEVELS_CUH_

#include "common/compensated_sum.h"
#include "transport/cuda/plan.cuh"
#include "transport/cuda/tree.cuh"

namespace jaxmatch::transport {

#include "transport/plan_cost.inc.h"

// Whether the range of the costs is large enough for several levels.
__device__ inline bool may_have_levels(const CostSummary& found) {
  return found.most > 0 && exponent_of(found.most) - exponent_of(found.least) > kNearExponents;
}

// Calls f(x) for all finite costs x between rows and columns with mass. x is negated if the problem
// maximises. After the costs of a row, all lanes of its warp call end().
template <class C, class F, class End>
__device__ void each_used_cost(Team team, const C& c, const F& f, const End& end) {
  const double sign = c.p.maximize ? -1 : 1;
  team.each_by_warp(c.p.n, [&](int64_t i) {
    if (c.supply[i] == 0) return;
    for (int64_t j = team.lane(); j < c.p.m; j += kWarpSize) {
      if (c.demand[j] == 0) continue;
      const double x = sign * C::real(c.raw(i, j));
      if (x < kFar) f(x);
    }
    end();
  });
}

// Finds where the levels begin, and sets `from` of each level in each block's shared memory.
template <class C>
__device__ void split_levels(Team team, const C& c, const Workspace& w, double outweighs) {
  Shared& s = team.s;
  constexpr int kBoth = 2 * kExponentWords;
  team.each(kBoth, [&](int64_t k) { w.control->exponents[k] = 0; });
  for (int k = int(threadIdx.x); k < kBoth; k += team.block_threads()) s.exponents[k] = 0;
  team.sync();
  const auto see = [&](uint32_t* words, int e) {
    const uint32_t bit = 1u << (e % 32);
    if (!(words[e / 32] & bit)) atomicOr(&words[e / 32], bit);
  };
  each_used_cost(
      team, c,
      [&](double x) {
        if (x == 0) return;
        see(s.exponents, exponent_of(x));
        if (x < 0) see(s.exponents + kExponentWords, exponent_of(x));
      },
      [] {});
  team.sync_block();
  for (int k = int(threadIdx.x); k < kBoth; k += team.block_threads()) {
    if (s.exponents[k] != 0) atomicOr(&w.control->exponents[k], s.exponents[k]);
  }
  team.sync();
  if (threadIdx.x == 0) {
    Exponents all, wanted;
    const uint32_t* const words = w.control->exponents;
    for (int k = 0; k < kExponentWords; ++k) {
      all.word[k / 2] |= uint64_t(words[k]) << (k % 2 * 32);
      wanted.word[k / 2] |= uint64_t(words[kExponentWords + k]) << (k % 2 * 32);
    }
    s.levels.split(all, wanted.most(), outweighs);
  }
  team.sync_block();
}

// Finds the levels of the costs. Returns the highest level that every plan needs: some row has no
// cost in a lower level. `outweighs`: see CostLevels::split().
template <class C>
__device__ int find_levels(Team team, const C& c, const Workspace& w, double outweighs) {
  split_levels(team, c, w, outweighs);
  CostLevels& levels = team.s.levels;
  if (levels.count == 1) return 0;
  for (int k = 0; k < levels.count; ++k) {
    CostLevel own;
    each_used_cost(
        team, c,
        [&](double x) {
          if (levels.of(x) == k) own.add(fabs(x));
        },
        [] {});
    const double least = -team.most(-own.least), most = team.most(own.most);
    if (threadIdx.x == 0) {
      levels.level[k].least = least;
      levels.level[k].most = most;
    }
    team.sync_block();
  }
  int needed = 0;
  double least = kFar;
  each_used_cost(
      team, c, [&](double x) { least = fmin(least, x); },
      [&] {
        for (int step = kWarpSize / 2; step > 0; step /= 2) {
          least = fmin(least, __shfl_xor_sync(kAllLanes, least, step));
        }
        if (least < kFar) needed = max(needed, levels.of(least));
        least = kFar;
      });
  return int(team.most(double(needed)));
}

// Whether draw_near() can lower the costs of a level below `end`.
__device__ inline bool draws_near(Team team, int end, double outweighs) {
  const CostLevels& levels = team.s.levels;
  double most;
  return levels.count > 1 && end > 1 && draw_near(levels, end, outweighs, &most).draws_near();
}

// Sets the map so that it forbids the costs of level `end` and above. `near`: draw_near() also
// lowers the costs of levels below `end`, where it can. Updates `found` for the changed costs.
template <class C>
__device__ void set_map(Team team, C& c, int end, bool near, double outweighs, CostSummary* found) {
  Shared& s = team.s;
  if (s.levels.count == 1) return;
  if (threadIdx.x == 0) {
    double most;
    s.map = near ? draw_near(s.levels, end, outweighs, &most) : forbid_from(s.levels, end);
    s.most = near ? most : s.levels.level[end - 1].most;
  }
  team.sync_block();
  if (s.most > 0) found->most = s.most;
  found->forbids |= end < s.levels.count;
  c.map = s.map.changes() ? &s.map : nullptr;
}

// Lists the arcs of the basis that have mass, sorted. Returns their number. One block calls it.
template <class C>
__device__ int32_t list_basis(const Tree<C>& t) {
  const Workspace& w = t.w;
  const Plan plan{t.team, w};
  plan.clear();
  t.team.each(t.nodes, [&](int64_t x) {
    if (w.flow[x] == 0) return;
    const int32_t y = t.above[x], row = t.is_row(int32_t(x)) ? int32_t(x) : y;
    plan.append(row, int32_t(x) + y - row - t.rows, w.flow[x]);
  });
  return plan.sort();
}

// Saves the plan of the basis. Returns its number of arcs. One block calls it.
template <class C>
__device__ int32_t save_plan(const Tree<C>& t) {
  const Workspace& w = t.w;
  const int32_t count = list_basis(t);
  t.team.each(count, [&](int64_t k) {
    w.saved_key[k] = w.key[k];
    w.saved_mass[k] = w.mass[k];
  });
  t.team.sync();
  return count;
}

// Lists the arcs of the basis, or the `saved` arcs of the saved plan if that costs less. Sets
// `excess` to the difference of the two costs, or to 0 if the basis is listed. Returns the number
// of arcs. One block calls it.
template <class C>
__device__ int32_t list_better(const Tree<C>& t, int32_t saved, double unit, double* excess) {
  const Workspace& w = t.w;
  const int32_t count = list_basis(t);
  *excess = 0;
  if (saved == 0) return count;
  double more = 0;
  if (threadIdx.x == 0) {
    const double sign = t.c.p.maximize ? -1 : 1;
    PlanCost sum;
    const auto add = [&](uint64_t key, double by, int64_t mass) {
      sum.add(by * C::real(t.c.raw(int64_t(key >> 32), int64_t(uint32_t(key)))), mass);
    };
    for (int32_t k = 0; k < count; ++k) add(w.key[k], sign, w.mass[k]);
    for (int32_t k = 0; k < saved; ++k) add(w.saved_key[k], -sign, w.saved_mass[k]);
    more = sum.value(unit);
  }
  more = t.team.most(more);
  if (!(more > 0)) return count;
  t.team.each(saved, [&](int64_t k) {
    w.key[k] = w.saved_key[k];
    w.mass[k] = w.saved_mass[k];
  });
  t.team.sync();
  *excess = more;
  return saved;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_LEVELS_CUH_
