// The target jaxmatch_min_cost_flow on the CPU.
#include <atomic>
#include <cstdint>
#include <new>
#include <type_traits>

#include "common/cpu/host_arena.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "min_cost_flow/cpu/solve.h"
#include "min_cost_flow/operands.h"

namespace jaxmatch::min_cost_flow {
namespace {

template <class T>
const T* at(const void* array, int64_t step) {
  return array == nullptr ? nullptr : static_cast<const T*>(array) + step;
}

template <class M, class C, class V>
void solve_problem(const Operands& o, int64_t b, HostArena& memory) {
  memory.reset();
  const int64_t edges = b * o.edges, nodes = b * o.nodes;
  const Given<M, C> given{o.nodes,
                          o.edges,
                          o.senders + b * o.ends_step,
                          o.receivers + b * o.ends_step,
                          at<M>(o.capacity, edges),
                          at<M>(o.lower, edges),
                          at<M>(o.supply, nodes),
                          at<M>(o.start_flow, edges),
                          at<C>(o.cost, edges)};
  const Results<M, V> out{static_cast<M*>(o.flow) + edges,
                          static_cast<V*>(o.value) + b,
                          static_cast<V*>(o.potential) + nodes,
                          static_cast<V*>(o.gap) + b,
                          o.source_side + nodes,
                          o.cycle + edges,
                          o.status + b};
  Problem<M, C, V>(given, o.method, o.forgiven, memory, out).solve();
}

// Returns false if memory runs out.
template <class M, class C, class V>
bool solve_all(const Operands& o, ffi::ThreadPool& pool) {
  std::atomic<bool> out_of_memory{false};
  const double item_ns = 2000 + 500 * (double(o.nodes) + o.edges);
  for_each_range(pool, o.batch, item_ns, [&](int64_t first, int64_t last) {
    try {
      HostArena memory;
      for (int64_t b = first; b < last; ++b) solve_problem<M, C, V>(o, b, memory);
    } catch (const std::bad_alloc&) {
      out_of_memory = true;
    }
  });
  return !out_of_memory;
}

// Calls f with a number of this type.
template <class F>
bool with_type(Dtype dtype, const F& f) {
  switch (dtype) {
    case Dtype::kS32:
      return f(int32_t{0});
    case Dtype::kS64:
      return f(int64_t{0});
    case Dtype::kF32:
      return f(float{0});
    default:
      return f(double{0});
  }
}

bool solve_any(const Operands& o, ffi::ThreadPool& pool) {
  return with_type(o.mass_dtype, [&](auto mass) {
    return with_type(o.cost_dtype, [&](auto cost) {
      using M = decltype(mass);
      using C = decltype(cost);
      const bool is_long = size_of(o.value_dtype) == 8;
      if constexpr (std::is_integral_v<M> && std::is_integral_v<C>) {
        return is_long ? solve_all<M, C, int64_t>(o, pool) : solve_all<M, C, int32_t>(o, pool);
      } else {
        return is_long ? solve_all<M, C, double>(o, pool) : solve_all<M, C, float>(o, pool);
      }
    });
  });
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
  if (!solve_any(*o, pool)) {
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
