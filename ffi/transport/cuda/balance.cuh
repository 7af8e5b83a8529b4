// Reads masses in whole units, and scales float demands so that they sum to the supplies in each
// connected component of the graph of allowed pairs.
#ifndef JAXMATCH_CUDA_TRANSPORT_BALANCE_CUH_
#define JAXMATCH_CUDA_TRANSPORT_BALANCE_CUH_

#include "transport/cuda/masses.cuh"

namespace jaxmatch::transport {

#include "transport/balance.inc.h"

// Finds the connected components of the graph of allowed pairs between rows and columns with mass.
// In `parent`, the first node of a component represents it. Returns the number of components.
template <class C>
__device__ int64_t join_components(Team team, const C& c, const double* mass, int32_t* parent) {
  const int32_t n = int32_t(c.p.n), m = int32_t(c.p.m);
  const double sign = c.p.maximize ? -1 : 1;
  team.each(n + m, [&](int64_t x) { parent[x] = mass[x] > 0 ? int32_t(x) : kNone; });
  team.sync();
  team.each_by_warp(n, [&](int64_t i) {
    if (parent[i] == kNone) return;
    for (int32_t j = team.lane(); j < m; j += kWarpSize) {
      if (parent[n + j] == kNone || !(sign * C::real(c.raw(i, j)) < kFar)) continue;
      int32_t x = int32_t(i), y = n + j;
      for (;;) {
        x = find_component(parent, x);
        y = find_component(parent, y);
        if (x == y) break;
        const int32_t high = x > y ? x : y, low = x + y - high;
        // The swap fails if another thread has joined `high` to a node meanwhile. Then try again.
        if (atomicCAS(&parent[high], high, low) == high) break;
      }
    }
  });
  team.sync();
  int64_t count = 0;
  team.each(n + m, [&](int64_t x) { count += parent[x] == x; });
  return team.sum(count);
}

// Reads, checks and balances the masses. All threads call it. `forbids`: some pair is forbidden.
template <class C>
__device__ Masses read_masses(Team team, const C& c, const Workspace& w, bool forbids) {
  const TransportProblem& p = c.p;
  Masses& out = w.control->masses;
  const MassReader reader = mass_reader(team.alone(), p, w);
  const bool real = !is_whole(p.mass_dtype);
  if (team.rank == 0) {
    const Masses read = reader.run();
    team.one([&] { out = read; });
  }
  team.sync();
  Masses masses = out;
  team.sync();
  if (!real || masses.status != kOptimal) return masses;
  int32_t* const parent = w.scratch[0];
  const bool balances = !p.moved;
  const bool several = balances && forbids && join_components(team, c, w.real, parent) > 1;
  if (team.rank == 0) {
    if (several) {
      // One thread adds the masses in the order of nodes, because sums of floats depend on the
      // order.
      auto* const mass = reinterpret_cast<ComponentMass*>(w.pool[0]);
      const Balance balance{p.n, p.m, w.supply, w.demand, w.real, parent, mass};
      team.one([&] {
        balance.sum();
        const bool agrees = balance.agrees(tolerance(p.coarsest, p.n + p.m));
        out.rounded = (agrees && balance.spread()) || masses.rounded;
        out.status = agrees ? kOptimal : kInfeasible;
      });
      reader.team.sync();
      masses = out;
    } else if (balances) {
      reader.balance(masses);
    }
    masses.coarse = reader.are_coarse(masses.unit);
    team.one([&] { out = masses; });
  }
  team.sync();
  return out;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_BALANCE_CUH_
