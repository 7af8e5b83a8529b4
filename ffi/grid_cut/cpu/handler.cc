// The target jaxmatch_grid_cut on the CPU: checks each problem, converts it to integers and solves
// it.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>

#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "common/status.h"
#include "grid_cut/cpu/convert.h"
#include "grid_cut/cpu/ibfs.h"
#include "grid_cut/fixed_point.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {
namespace {

template <class V>
struct GridResults {
  V* value;
  bool* side;
  int32_t* status;

  void fail(int64_t cells, Status why) const {
    std::fill_n(side, cells, false);
    *value = std::numeric_limits<V>::has_quiet_NaN ? std::numeric_limits<V>::quiet_NaN() : V(-1);
    *status = why;
  }
};

template <int kArcs, class T, class V>
void solve_integers(const GridCapacities<T>& g, const GridResults<V>& out) {
  const int64_t n = g.shape.cells();
  // `direct` sums the flow that goes straight from terminal to terminal; the excess is the rest.
  using Search = GridSearch<kArcs, T>;
  GridMemory memory(GridMemory::bytes_for<T>(n) + Search::bytes(n));
  T* const excess = memory.take<T>(n);
  __int128 direct = 0, source = 0, sink = 0;
  constexpr int64_t kBlock = int64_t{1} << 20;  // 2^20 numbers of 32 bits fit int64
  for (int64_t first = 0; first < n; first += kBlock) {
    using Sum = std::conditional_t<sizeof(T) == 4, int64_t, __int128>;
    Sum s = 0, t = 0, both = 0;
    for (int64_t i = first; i < std::min(n, first + kBlock); ++i) {
      s += g.source[i];
      t += g.sink[i];
      both += std::min(g.source[i], g.sink[i]);
      excess[i] = g.source[i] - g.sink[i];
    }
    source += s;
    sink += t;
    direct += both;
  }
  if (std::min(source, sink) >= kGridMostFlow) return out.fail(n, kOverflow);
  Search search(g, excess, memory);
  search.run();
  const int64_t value = int64_t(direct) + int64_t(search.flow_value());
  if (value > int64_t(std::numeric_limits<V>::max())) return out.fail(n, kOverflow);
  for (int64_t i = 0; i < n; ++i) out.side[i] = search.on_source_side(i);
  *out.value = V(value);
  *out.status = kOptimal;
}

// False if a number would be rounded; nothing is written then.
template <int kArcs, class I, class T, class V>
bool solve_fixed_point(const GridCapacities<T>& g, const FixedPoint<kArcs, T>& numbers, int bits,
                       const GridResults<V>& out) {
  const int64_t n = g.shape.cells();
  using Search = GridSearch<kArcs, I>;
  const int64_t arcs = n * (g.symmetric ? kArcs / 2 : kArcs);
  GridMemory memory(GridMemory::bytes_for<I>(n) + GridMemory::bytes_for<I>(arcs) +
                    Search::bytes(n));
  I* const excess = memory.take<I>(n);
  I* const pairwise = memory.take<I>(arcs);
  const bool exact = numbers.convert(bits, excess, pairwise);
  if (sizeof(I) < sizeof(int64_t) && !exact) return false;
  const GridCapacities<I> fixed{g.shape, g.symmetric, nullptr, nullptr, pairwise};
  Search search(fixed, excess, memory);
  search.run();
  for (int64_t i = 0; i < n; ++i) out.side[i] = search.on_source_side(i);
  const auto value = numbers.cut([&](int64_t i) { return out.side[i]; });
  if (value) {
    *out.value = *value;
    *out.status = kOptimal;
  } else {
    out.fail(n, kOverflow);
  }
  return true;
}

template <int kArcs, class T, class V>
void solve_connected(const GridCapacities<T>& g, const GridResults<V>& out) {
  if (g.shape.cells() == 0) {
    *out.value = 0;
    *out.status = kOptimal;
  } else if (!are_valid<kArcs>(g)) {
    out.fail(g.shape.cells(), kInvalidCapacity);
  } else if constexpr (std::is_floating_point_v<T>) {
    // Most inputs need at most 30 bits.
    const FixedPoint<kArcs, T> numbers(g);
    if (!solve_fixed_point<kArcs, int32_t>(g, numbers, 30, out)) {
      solve_fixed_point<kArcs, int64_t>(g, numbers, 59, out);
    }
  } else {
    solve_integers<kArcs>(g, out);
  }
}

template <class T, class V>
void solve_one(const GridCutOperands& o, int64_t b) {
  const GridCapacities<T> g = grid_of<T>(o, b);
  const GridResults<V> out{static_cast<V*>(o.value) + b, o.side + b * o.shape.cells(),
                           o.status + b};
  switch (o.connectivity) {
    case 4:
      return solve_connected<4>(g, out);
    case 6:
      return solve_connected<6>(g, out);
    case 8:
      return solve_connected<8>(g, out);
  }
}

using SolveFunction = void (*)(const GridCutOperands&, int64_t);

SolveFunction function_for(Dtype given, Dtype value) {
  switch (given) {
    case Dtype::kS32:
      return value == Dtype::kS64 ? solve_one<int32_t, int64_t> : solve_one<int32_t, int32_t>;
    case Dtype::kS64:
      return solve_one<int64_t, int64_t>;
    case Dtype::kF32:
      return solve_one<float, float>;
    default:
      return solve_one<double, double>;
  }
}

ffi::Error GridCut(ffi::ThreadPool pool, ffi::AnyBuffer source, ffi::AnyBuffer sink,
                   ffi::AnyBuffer pairwise, ffi::Result<ffi::AnyBuffer> value,
                   ffi::Result<GridSides> side, ffi::Result<GridStatus> status,
                   ffi::Dictionary attributes) {
  const auto o = decode_grid_cut(source, sink, pairwise, value, side, status, attributes);
  if (!o.has_value()) return o.error();
  const SolveFunction solve = function_for(o->dtype, o->value_dtype);
  std::atomic<bool> out_of_memory{false};
  for_each_range(pool, o->batch, 500 + 20 * double(o->shape.cells()),
                 [&](int64_t first, int64_t last) {
                   for (int64_t b = first; b < last; ++b) {
                     try {
                       solve(*o, b);
                     } catch (const std::bad_alloc&) {
                       out_of_memory = true;
                     }
                   }
                 });
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_grid_cut: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::grid_cut

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_grid_cut, jaxmatch::grid_cut::GridCut,
    JAXMATCH_BIND_GRID_CUT(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()).Attrs());
