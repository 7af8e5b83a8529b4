// The target jaxmatch_min_cost_flow on the CPU.
#include <atomic>
#include <cstdint>
#include <new>

#include "common/cpu/host_arena.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "min_cost_flow/cpu/cost_scaling.h"
#include "min_cost_flow/one_lane.h"
#include "min_cost_flow/operands.h"
#include "min_cost_flow/solve.h"

namespace jaxmatch::min_cost_flow {
namespace {

// Where most edges carry one unit, pivots of the network simplex method rarely move flow, and large
// networks are faster by scaling: sooner if paths are long because few nodes have a supply.
bool scales(Method method, const Arcs<int64_t>& g) {
  constexpr int32_t kLeast = 1200, kLeastOfSupplies = 10000;  // nodes
  if (method != Method::kAuto) return method == Method::kCostScaling;
  if (g.nodes < kLeast) return false;
  int32_t narrow = 0, supplies = 0;
  for (int32_t e = 0; e < g.arcs; ++e) narrow += g.capacity[e] <= 1;
  for (int32_t u = 0; u < g.nodes; ++u) supplies += g.supply[u] != 0;
  return 2 * int64_t(narrow) > g.arcs && (g.nodes >= kLeastOfSupplies || 2 * supplies < g.nodes);
}

// Scales costs. Where that gives up, the network simplex method decides.
Problem<OneLane>::Next solve_by_scaling(Problem<OneLane>& p, const MassUnits& masses,
                                        const Arcs<int64_t>& g) {
  using Long = Problem<OneLane>::Long;
  HostArena& memory = p.lanes().memory();
  CostScaling engine(g, memory);
  const auto start = p.read_start(masses, g);
  if (!engine.solve(start.flow, start.price)) return p.by_simplex(masses);
  int64_t* const flow = memory.take<int64_t>(g.arcs);
  engine.write_flow(flow);
  if (p.costs().is_coarse_exact() && engine.is_exact()) {
    p.write(masses, flow, engine.price(), false);
    return Problem<OneLane>::Next::kDone;
  }
  const Arcs<Long> fine = p.arcs<Long>(masses);
  Long* const price = memory.take<Long>(g.nodes);
  const int finer = p.costs().exponent(false) - p.costs().exponent(true);
  if (engine.prove(fine, finer, price, memory)) {
    p.write(masses, flow, price, true);
    return Problem<OneLane>::Next::kDone;
  }
  NetworkSimplex<Long, OneLane> exact(fine, p.lanes());
  exact.begin_at(flow, price);
  const Outcome found = exact.solve();
  return p.finish(masses, fine, exact, found, true);
}

void solve_problem(const Operands& o, int64_t b, HostArena& memory) {
  memory.reset();
  OneLane lane(memory);
  Problem<OneLane> problem(o.given(b), o.forgiven, lane, o.results(b));
  problem.solve([&](Problem<OneLane>& p, const MassUnits& masses) {
    const Arcs<int64_t> coarse = p.arcs<int64_t>(masses);
    return scales(o.method, coarse) ? solve_by_scaling(p, masses, coarse) : p.by_simplex(masses);
  });
}

// Returns false if memory runs out.
bool solve_all(const Operands& o, ffi::ThreadPool& pool) {
  std::atomic<bool> out_of_memory{false};
  const double item_ns = 2000 + 500 * (double(o.nodes) + o.edges);
  for_each_range(pool, o.batch, item_ns, [&](int64_t first, int64_t last) {
    try {
      HostArena memory;
      for (int64_t b = first; b < last; ++b) solve_problem(o, b, memory);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  });
  return !out_of_memory;
}

ffi::Error MinCostFlow(ffi::ThreadPool pool, Ends senders, Ends receivers, ffi::AnyBuffer capacity,
                       ffi::AnyBuffer lower, ffi::AnyBuffer cost, ffi::AnyBuffer supply,
                       ffi::AnyBuffer start_flow, ffi::AnyBuffer start_potential,
                       ffi::Result<ffi::AnyBuffer> flow, ffi::Result<ffi::AnyBuffer> value,
                       ffi::Result<ffi::AnyBuffer> potential, ffi::Result<ffi::AnyBuffer> gap,
                       ffi::Result<Flags> source_side, ffi::Result<Flags> cycle,
                       ffi::Result<Ends> status, ffi::Dictionary attributes) {
  const auto o =
      decode(senders, receivers, capacity, lower, cost, supply, start_flow, start_potential, flow,
             value, potential, gap, source_side, cycle, status, attributes);
  if (!o.has_value()) return o.error();
  if (!solve_all(*o, pool)) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_min_cost_flow: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::min_cost_flow

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_min_cost_flow, jaxmatch::min_cost_flow::MinCostFlow,
    JAXMATCH_BIND_MIN_COST_FLOW(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()).Attrs());
