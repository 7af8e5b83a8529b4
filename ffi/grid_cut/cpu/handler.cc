// The target jaxmatch_grid_cut on CPU: checks each problem, brings it into integers and solves it.
#include "common/handler.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <new>
#include <type_traits>

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
void SolveIntegers(const GridCapacities<T>& g, const GridResults<V>& out) {
  const int64_t n = g.shape.cells();
  // What goes through a cell from terminal to terminal, and what is left for the arcs.
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

// False: rounded, and nothing is written.
template <int kArcs, class I, class T, class V>
bool SolveFixedPoint(const GridCapacities<T>& g, const FixedPoint<kArcs, T>& numbers, int bits,
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
void Solve(const GridCapacities<T>& g, const GridResults<V>& out) {
  if (g.shape.cells() == 0) {
    *out.value = 0;
    *out.status = kOptimal;
  } else if (!AreValid<kArcs>(g)) {
    out.fail(g.shape.cells(), kInvalidCapacity);
  } else if constexpr (std::is_floating_point_v<T>) {
    // Few numbers that people write need more than 30 bits.
    const FixedPoint<kArcs, T> numbers(g);
    if (!SolveFixedPoint<kArcs, int32_t>(g, numbers, 30, out)) {
      SolveFixedPoint<kArcs, int64_t>(g, numbers, 59, out);
    }
  } else {
    SolveIntegers<kArcs>(g, out);
  }
}

template <class T, class V>
void SolveOne(const GridCutOperands& o, int64_t b) {
  const GridCapacities<T> g = grid_of<T>(o, b);
  const GridResults<V> out{static_cast<V*>(o.value) + b, o.side + b * o.shape.cells(),
                           o.status + b};
  switch (o.connectivity) {
    case 4:
      return Solve<4>(g, out);
    case 6:
      return Solve<6>(g, out);
    case 8:
      return Solve<8>(g, out);
  }
}

using SolveFunction = void (*)(const GridCutOperands&, int64_t);

SolveFunction FunctionFor(Dtype given, Dtype value) {
  if (given == Dtype::kS32 && value == Dtype::kS32) return SolveOne<int32_t, int32_t>;
  if (given == Dtype::kS32 && value == Dtype::kS64) return SolveOne<int32_t, int64_t>;
  if (given == Dtype::kS64 && value == Dtype::kS64) return SolveOne<int64_t, int64_t>;
  if (given == Dtype::kF32 && value == Dtype::kF32) return SolveOne<float, float>;
  if (given == Dtype::kF64 && value == Dtype::kF64) return SolveOne<double, double>;
  return nullptr;
}

ffi::Error GridCut(ffi::ThreadPool pool, ffi::AnyBuffer source, ffi::AnyBuffer sink,
                   ffi::AnyBuffer pairwise, ffi::Result<ffi::AnyBuffer> value,
                   ffi::Result<GridSides> side, ffi::Result<GridStatus> status,
                   ffi::Dictionary attributes) {
  const auto o = DecodeGridCut(source, sink, pairwise, value, side, status, attributes);
  if (!o.has_value()) return o.error();
  const SolveFunction solve = FunctionFor(o->dtype, o->value_dtype);
  if (solve == nullptr) {
    return ffi::Error::InvalidArgument("jaxmatch_grid_cut: dtypes of capacity and value");
  }
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

JAXMATCH_HANDLER(jaxmatch_grid_cut, jaxmatch::grid_cut::GridCut,
                 JAXMATCH_BIND_GRID_CUT(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()).Attrs());
