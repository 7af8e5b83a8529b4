// Solves one network: reads it in units, runs an engine, and writes results or a witness.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_SOLVE_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_SOLVE_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/status.h"
#include "min_cost_flow/cpu/arcs.h"
#include "min_cost_flow/cpu/cost_scaling.h"
#include "min_cost_flow/cpu/cost_units.h"
#include "min_cost_flow/cpu/finish.h"
#include "min_cost_flow/cpu/mass_units.h"
#include "min_cost_flow/cpu/network_simplex.h"
#include "min_cost_flow/cpu/numbers.h"
#include "min_cost_flow/operands.h"

namespace jaxmatch::min_cost_flow {

template <class M, class C, class V>
class Problem {
 public:
  Problem(const Given<M, C>& given, Method method, double forgiven, HostArena& memory,
          const Results<M, V>& out)
      : given_(given), method_(method), forgiven_(forgiven), memory_(memory), out_(out) {}

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
  static constexpr int32_t kLeastScaled = 200;  // nodes

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
    if (scales(coarse) && solve_by_scaling(masses, coarse)) return true;
    NetworkSimplex<int64_t> engine(coarse, memory_);
    Outcome found = engine.solve();
    if (costs_.is_coarse_exact()) return finish(masses, coarse, engine, found, false);
    const Arcs<Long> fine = arcs<Long>(masses);
    NetworkSimplex<Long> exact(fine, engine, memory_);
    found = exact.solve();
    return finish(masses, fine, exact, found, true);
  }

  // Where most edges carry one unit, pivots of the network simplex method rarely move flow.
  bool scales(const Arcs<int64_t>& g) const {
    if (method_ != Method::kAuto) return method_ == Method::kCostScaling;
    int32_t narrow = 0;
    for (int32_t e = 0; e < g.arcs; ++e) narrow += g.capacity[e] <= 1;
    return g.nodes >= kLeastScaled && 2 * int64_t(narrow) > g.arcs;
  }

  // Returns false if there is nothing to write: the network simplex method decides.
  bool solve_by_scaling(const MassUnits& masses, const Arcs<int64_t>& g) {
    CostScaling engine(g, memory_);
    if (!engine.solve()) return false;
    int64_t* const flow = memory_.take<int64_t>(g.arcs);
    engine.write_flow(flow);
    if (costs_.is_coarse_exact() && engine.is_exact()) {
      write(masses, flow, engine.price(), false);
      return true;
    }
    const Arcs<Long> fine = arcs<Long>(masses);
    Long* const price = memory_.take<Long>(g.nodes);
    if (engine.prove(fine, costs_.exponent(false) - costs_.exponent(true), price, memory_)) {
      write(masses, flow, price, true);
      return true;
    }
    NetworkSimplex<Long> exact(fine, flow, price, memory_);
    const Outcome found = exact.solve();
    return finish(masses, fine, exact, found, true);
  }

  template <class P>
  void write(const MassUnits& masses, const int64_t* flow, const P* price, bool fine) {
    const Status status = write_optimum(given_, masses, flow, price, costs_.exponent(fine), out_);
    if (status != kOptimal) write_failure(given_, status, out_);
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
    write(masses, flow, engine.price(), fine);
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
  const Method method_;
  const double forgiven_;
  HostArena& memory_;
  const Results<M, V> out_;
  CostUnits<C> costs_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_SOLVE_H_
