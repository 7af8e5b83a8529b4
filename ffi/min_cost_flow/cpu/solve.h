// Solves one network: reads it in units, runs an engine, and writes results or a witness.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_SOLVE_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_SOLVE_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/status.h"
#include "min_cost_flow/cpu/arcs.h"
#include "min_cost_flow/cpu/cost_units.h"
#include "min_cost_flow/cpu/finish.h"
#include "min_cost_flow/cpu/mass_units.h"
#include "min_cost_flow/cpu/network_simplex.h"
#include "min_cost_flow/cpu/numbers.h"

namespace jaxmatch::min_cost_flow {

template <class M, class C, class V>
class Problem {
 public:
  Problem(const Given<M, C>& given, double forgiven, HostArena& memory, const Results<M, V>& out)
      : given_(given), forgiven_(forgiven), memory_(memory), out_(out) {}

  void solve() {
    if (!has_ends()) return write_failure(given_, kInvalidGraph, out_);
    if (const Status status = costs_.choose(given_); status != kOptimal) {
      return write_failure(given_, status, out_);
    }
    if (solve_in_units(false)) return;
    memory_.reset();
    solve_in_units(true);
  }

 private:
  using Long = __int128;

  bool has_ends() const {
    const auto is_node = [&](int32_t u) { return u >= 0 && u < given_.nodes; };
    bool found = true;
    for (int32_t e = 0; e < given_.edges; ++e) {
      found &= is_node(given_.senders[e]) && is_node(given_.receivers[e]);
    }
    return found;
  }

  // Returns false if the flow has no limit, but some limits counted as none: `keep_all` keeps them.
  bool solve_in_units(bool keep_all) {
    MassUnits masses;
    const Status status = MassReader<M, C>(given_, keep_all, forgiven_, memory_).read(masses);
    if (status != kOptimal) {
      write_failure(given_, status, out_);
      if (status == kUnbalanced) *out_.gap = V(masses.difference);
      return true;
    }
    const Arcs<int64_t> coarse = arcs<int64_t>(masses);
    NetworkSimplex<int64_t> engine(coarse, memory_);
    Outcome found = engine.solve();
    if (costs_.is_coarse_exact()) return finish(masses, coarse, engine, found, false);
    const Arcs<Long> fine = arcs<Long>(masses);
    NetworkSimplex<Long> exact(fine, engine, memory_);
    found = exact.solve();
    return finish(masses, fine, exact, found, true);
  }

  template <class P>
  Arcs<P> arcs(const MassUnits& masses) {
    P* const cost = memory_.take<P>(given_.edges);
    for (int32_t e = 0; e < given_.edges; ++e) {
      cost[e] = given_.is_forbidden(e) ? P(0) : costs_.template units<P>(given_.cost[e]);
    }
    return {given_.nodes, given_.edges, given_.senders, given_.receivers,
            cost,         masses.range, masses.supply};
  }

  template <class P>
  bool finish(const MassUnits& masses, const Arcs<P>& g, NetworkSimplex<P>& engine, Outcome found,
              bool fine) {
    bool* const is_low = memory_.take<bool>(g.nodes);
    int64_t* const flow = memory_.take<int64_t>(g.arcs);
    if (found == Outcome::kUnbounded) {
      if (write_if_infeasible(masses)) return true;
      if (masses.has_set_apart) return false;
      write_failure(given_, kUnbounded, out_);
      engine.for_cycle([&](int32_t e) { out_.cycle[e] = true; });
      return true;
    }
    engine.write_flow(flow);
    level_prices(g, flow, engine.artificial(), engine.price_of_root(), engine.price(), is_low);
    if (engine.left() > masses.forgiven) {
      write_failure(given_, kInfeasible, out_);
      std::copy_n(is_low, g.nodes, out_.source_side);
      return true;
    }
    const Status status =
        write_optimum(given_, masses, flow, engine.price(), costs_.exponent(fine), out_);
    if (status != kOptimal) write_failure(given_, status, out_);
    return true;
  }

  // Solves the problem without costs.
  bool write_if_infeasible(const MassUnits& masses) {
    Arcs<int64_t> g = arcs<int64_t>(masses);
    g.cost = memory_.take<int64_t>(g.arcs, 0);
    NetworkSimplex<int64_t> engine(g, memory_);
    engine.solve();
    if (engine.left() <= masses.forgiven) return false;
    finish(masses, g, engine, Outcome::kInfeasible, false);
    return true;
  }

  const Given<M, C> given_;
  const double forgiven_;
  HostArena& memory_;
  const Results<M, V> out_;
  CostUnits<C> costs_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_SOLVE_H_
