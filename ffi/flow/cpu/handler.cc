// The target jaxmatch_flow on the CPU: checks each network, solves it, writes flow and cut.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <optional>
#include <type_traits>

#include "common/cpu/host_arena.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/parallel_for.h"
#include "common/cpu/thread_pool.h"
#include "common/status.h"
#include "flow/cpu/auto.h"
#include "flow/cpu/check_network.h"
#include "flow/cpu/finish.h"
#include "flow/cpu/fixed_point.h"
#include "flow/cpu/ibfs.h"
#include "flow/cpu/pseudoflow.h"
#include "flow/cpu/return_excess.h"
#include "flow/cpu/setup.h"
#include "flow/cpu/stencil_flow.h"
#include "flow/cpu/warm.h"
#include "flow/operands.h"

namespace jaxmatch::flow {
namespace {

template <class T>
void solve_residual(FlowMethod method, const Residual<T>& g, HostArena& memory) {
  switch (method) {
    case FlowMethod::kAugment:
      return Ibfs<T>(g, memory).solve();
    case FlowMethod::kPseudoflow:
      return Pseudoflow<T>(g, memory).run();
    case FlowMethod::kAuto:
    case FlowMethod::kThreadCentric:
    case FlowMethod::kTwoLevel:
      return solve_auto<T>(g, memory);
  }
}

// Solves the problem in these units. If they are fine enough for the cut found, writes the results
// and returns no value. Otherwise returns the capacity of the cut, a bound that allows finer units
// in the next solve.
template <class T, class C, class V>
std::optional<double> solve_in(FlowMethod method, const FlowNetworkCsr& g, const C* capacity,
                               const FixedPoint<C>& units, int32_t source, int32_t sink,
                               bool keeps_terminals, const C* given, const Spread& spread,
                               HostArena& memory, const FlowResults<C, V>& out) {
  const auto p = set_up_flow<T>(g, capacity, units, source, sink, keeps_terminals, spread, memory);
  if (given != nullptr) WarmStart<T>(p, memory).begin_with(given, capacity, units);
  solve_residual(method, p.residual, memory);
  find_source_side(p, memory, out.source_side);
  double cut = 0;
  if constexpr (std::is_floating_point_v<C>) {
    cut = cut_capacity(g, capacity, out.source_side, memory);
    // If the flow is infinite, the source side contains the sink and is not a cut.
    if (!out.source_side[sink] && !units.is_fine(cut)) return cut;
  }
  ExcessReturn<T>(p, memory).run();
  write_results(p, capacity, units, cut, spread, out);
  return std::nullopt;
}

// `is_sound`: the result of checking the network, if it has been checked already. `all_given`: the
// flows of warm starts, [batch, edges], or null.
template <class C, class V>
void solve_problem(const FlowOperands& o, const void* all_given, int64_t b,
                   std::optional<bool> is_sound, const Spread& spread, HostArena& memory) {
  memory.reset();
  const FlowNetworkCsr g = o.network(b);
  const C* const capacity = o.capacity<C>(b);
  const FlowResults<C, V> out = o.results<C, V>(b);
  const C* const given =
      all_given == nullptr ? nullptr : static_cast<const C*>(all_given) + b * int64_t(g.edges);
  const int32_t source = o.sources[b], sink = o.sinks[b];
  const bool has_ends = source >= 0 && source < g.nodes && sink >= 0 && sink < g.nodes;
  if constexpr (std::is_same_v<C, int32_t>) {
    if (given == nullptr && o.method == FlowMethod::kAuto && is_sound.value_or(true) && has_ends &&
        source != sink && solve_by_stencil(g, capacity, source, sink, spread, memory, out)) {
      return;
    }
    memory.reset();
  }
  if (!is_sound) is_sound = is_sound_network(g, spread, memory);
  if (!*is_sound || !has_ends || source == sink || !heads_rise(g, source) || !heads_rise(g, sink)) {
    return write_nothing(g, out, kInvalidGraph);
  }
  std::optional<double> known = std::numeric_limits<double>::infinity();
  while (known) {
    FixedPoint<C> units;
    const Status status = units.choose(g, capacity, source, sink, *known);
    if (status != kOptimal) return write_nothing(g, out, status);
    const FlowSums sums = sum_units(g, capacity, units, source, sink);
    const auto solve = [&](auto zero) {
      return solve_in<decltype(zero)>(o.method, g, capacity, units, source, sink,
                                      !sums.fit_terminals(), given, spread, memory, out);
    };
    known = sums.fit_int32() ? solve(int32_t{0}) : solve(int64_t{0});
    memory.reset();
  }
}

// Returns false if memory runs out.
template <class C, class V>
bool solve_all(const FlowOperands& o, const void* given, ffi::ThreadPool& pool) try {
  if (o.batch == 0) return true;
  const Spread over_all(&pool), in_place(nullptr);
  if (o.batch == 1) {
    ExactFloats mode;
    HostArena memory;
    solve_problem<C, V>(o, given, 0, std::nullopt, over_all, memory);
    return true;
  }
  std::optional<bool> is_sound;
  if (o.shares_network()) {
    HostArena memory;
    is_sound = is_sound_network(o.network(0), over_all, memory);
  }
  std::atomic<bool> out_of_memory{false};
  const double size = double(o.first.nodes) + o.first.arcs;
  for_each_range(pool, o.batch, 1000 + 20 * size, [&](int64_t first, int64_t last) {
    try {
      HostArena memory;
      for (int64_t b = first; b < last; ++b) {
        solve_problem<C, V>(o, given, b, is_sound, in_place, memory);
      }
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  });
  return !out_of_memory;
} catch (const std::bad_alloc&) {
  return false;
}

bool solve_any(const FlowOperands& o, const void* given, ffi::ThreadPool& pool) {
  switch (o.capacity_dtype) {
    case Dtype::kS32:
      return o.value_dtype == Dtype::kS32 ? solve_all<int32_t, int32_t>(o, given, pool)
                                          : solve_all<int32_t, int64_t>(o, given, pool);
    case Dtype::kS64:
      return solve_all<int64_t, int64_t>(o, given, pool);
    case Dtype::kF32:
      return solve_all<float, float>(o, given, pool);
    default:
      return solve_all<double, double>(o, given, pool);
  }
}

ffi::Error Flow(ffi::ThreadPool pool, NetworkArray arc_ptr, NetworkArray arc_head,
                NetworkArray reverse_arc, NetworkArray edge_ptr, NetworkArray arc_edge,
                ffi::AnyBuffer capacity, NetworkArray source, NetworkArray sink,
                ffi::RemainingArgs start, ffi::Result<ffi::AnyBuffer> value,
                ffi::Result<ffi::AnyBuffer> flow, ffi::Result<FlowFlags> source_side,
                ffi::Result<NetworkArray> status, ffi::Dictionary attributes) {
  const auto o = decode_flow(arc_ptr, arc_head, reverse_arc, edge_ptr, arc_edge, capacity, source,
                             sink, value, flow, source_side, status, attributes);
  if (!o.has_value()) return o.error();
  const void* given = nullptr;
  if (start.size() > 0) {  // the flow of a warm start
    const auto flows = start.get<ffi::AnyBuffer>(0);
    if (!flows.has_value()) return flows.error();
    if (flows->element_type() != capacity.element_type() ||
        flows->element_count() != capacity.element_count()) {
      return ffi::Error::InvalidArgument("jaxmatch_flow: the arrays do not belong together");
    }
    given = flows->untyped_data();
  }
  if (!solve_any(*o, given, pool)) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_flow: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::flow

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_flow, jaxmatch::flow::Flow,
    JAXMATCH_BIND_FLOW(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()).Attrs());
