// Solves one problem on the CPU: checks it, converts it to integers and finds the cut.
#ifndef JAXMATCH_GRID_CUT_CPU_SOLVE_H_
#define JAXMATCH_GRID_CUT_CPU_SOLVE_H_

#include <algorithm>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

#include "common/status.h"
#include "grid_cut/cpu/convert.h"
#include "grid_cut/cpu/ibfs.h"
#include "grid_cut/cpu/warm.h"
#include "grid_cut/fixed_point.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

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

// Finds a minimum cut with capacities in whole units of type I, and writes its sides. Returns false
// and writes nothing if I is narrower than 64 bits and a number would be rounded.
template <int kArcs, class I, class T>
bool find_sides(const GridCapacities<T>& g, const FixedPoint<kArcs, T>& numbers, int bits,
                const GridStart<int64_t>& start, bool* side) {
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
  const auto neighbours = neighbours_in<kArcs>(g.shape, memory);
  Search search(fixed, neighbours, excess, memory);
  const int32_t unit = start.is_wanted() ? numbers.unit(bits) : 0;
  // The sum of excess and arcs of a cell is below 2^bits, so the excess fits.
  if (start.is_wanted()) begin_with<kArcs>(start, fixed, unit, excess, search.flow());
  search.run();
  search.write_sides(0, n, side);
  if (start.is_wanted()) start.write(search.flow(), n * (kArcs / 2), unit);
  return true;
}

// Sums over all cells. `direct` sums the flows that pass from the source through a single cell to
// the sink.
struct GridSums {
  __int128 source = 0, sink = 0, direct = 0;
};

// Also sets `excess` to the source capacity minus the sink capacity of each cell.
template <class T>
GridSums sum_and_subtract(const GridCapacities<T>& g, T* excess) {
  const int64_t n = g.shape.cells();
  GridSums sums;
  constexpr int64_t kBlock = int64_t{1} << 20;  // int64 holds the sum of 2^20 numbers of 32 bits
  for (int64_t first = 0; first < n; first += kBlock) {
    using Sum = std::conditional_t<sizeof(T) == 4, int64_t, __int128>;
    Sum s = 0, t = 0, both = 0;
    for (int64_t i = first; i < std::min(n, first + kBlock); ++i) {
      s += g.source[i];
      t += g.sink[i];
      both += std::min(g.source[i], g.sink[i]);
      excess[i] = g.source[i] - g.sink[i];
    }
    sums.source += s;
    sums.sink += t;
    sums.direct += both;
  }
  return sums;
}

// Finds a minimum cut of floating-point capacities in fixed point. Writes its sides and returns its
// capacity, or no value if the capacity exceeds the range of T. Most inputs are exact with 30 bits,
// so 32-bit numbers are tried first.
template <int kArcs, class T>
std::optional<double> cut_floats(const GridCapacities<T>& g, const GridStart<int64_t>& start,
                                 bool* side) {
  double known = std::numeric_limits<double>::infinity();
  while (true) {
    const FixedPoint<kArcs, T> numbers(g, known);
    if (!find_sides<kArcs, int32_t>(g, numbers, 30, start, side)) {
      find_sides<kArcs, int64_t>(g, numbers, 59, start, side);
    }
    const auto cut = numbers.cut([&](int64_t i) { return side[i]; });
    if (!cut || numbers.are_fine(*cut)) return cut;
    known = *cut;
  }
}

// Clips integer capacities that exceed every possible flow, so that sums cannot overflow.
template <int kArcs>
class ClippedIntegers {
 public:
  // Clips `excess` in place, and the arcs in a copy, pairwise(). Returns false if the flow might be
  // 2^59 or more.
  bool clip(const GridCapacities<int64_t>& g, int64_t* excess) {
    const int64_t n = g.shape.cells(), arcs = n * (g.symmetric ? kArcs / 2 : kArcs);
    std::vector<double> gives(n), takes(n), real(arcs);
    for (int64_t i = 0; i < n; ++i) {
      gives[i] = double(std::max<int64_t>(excess[i], 0));
      takes[i] = double(std::max<int64_t>(-excess[i], 0));
    }
    std::copy_n(g.pairwise, arcs, real.begin());
    const GridCapacities<double> doubles{g.shape, g.symmetric, gives.data(), takes.data(),
                                         real.data()};
    const auto side = std::make_unique<bool[]>(n);
    const auto cut = cut_floats<kArcs>(doubles, {}, side.get());
    // An upper bound on the flow, even though the numbers were rounded.
    const double bound = cut.value_or(double(grid_most_flow(kArcs))) * (1 + 0x1p-20) + 1;
    if (bound >= double(grid_most_flow(kArcs))) return false;
    const int64_t most = int64_t(bound) + 1;
    for (int64_t i = 0; i < n; ++i) excess[i] = std::clamp(excess[i], -most, most);
    pairwise_.resize(arcs);
    for (int64_t i = 0; i < arcs; ++i) pairwise_[i] = std::min(g.pairwise[i], most);
    return true;
  }
  const int64_t* pairwise() const { return pairwise_.data(); }

 private:
  std::vector<int64_t> pairwise_;
};

// The sum of all excess of cells that have some, modulo 2^64.
template <class T>
uint64_t sum_of_excess(const T* excess, int64_t n) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += uint64_t(int64_t(std::max(excess[i], T{0})));
  return sum;
}

// Begins the search with an earlier flow. Returns what it sends from the cells with excess, modulo
// 2^64; 0 and a cold start if a number would not fit.
template <int kArcs, class T, class Search>
uint64_t warm_up(const GridStart<T>& start, const GridCapacities<T>& g, T* excess, Search& search) {
  const int64_t n = g.shape.cells();
  const std::vector<T> before(excess, excess + n);
  const Beginning begun = begin_with<kArcs>(start, g, 0, excess, search.flow());
  if (begun.fits) {
    return sum_of_excess(before.data(), n) - sum_of_excess(excess, n) - begun.beyond;
  }
  std::copy_n(before.begin(), n, excess);
  std::fill_n(search.flow(), n * (kArcs / 2), T{0});
  return 0;
}

template <int kArcs, class T, class V>
void solve_integers(GridCapacities<T> g, const GridStart<T>& start, const GridResults<V>& out) {
  const int64_t n = g.shape.cells();
  using Search = GridSearch<kArcs, T>;
  GridMemory memory(GridMemory::bytes_for<T>(n) + Search::bytes(n));
  T* const excess = memory.take<T>(n);
  const GridSums sums = sum_and_subtract(g, excess);
  ClippedIntegers<kArcs> clipped;
  if constexpr (sizeof(T) == 8) {
    const int64_t arcs = n * (g.symmetric ? kArcs / 2 : kArcs);
    const auto large = [&] { return *std::max_element(g.pairwise, g.pairwise + arcs); };
    if (std::min(sums.source, sums.sink) >= grid_most_flow(kArcs) ||
        large() >= grid_most_flow(kArcs)) {
      if (!clipped.clip(g, excess)) return out.fail(n, kOverflow);
      g.pairwise = clipped.pairwise();
    }
  }
  const auto neighbours = neighbours_in<kArcs>(g.shape, memory);
  Search search(g, neighbours, excess, memory);
  // No flow of the whole grid reaches 2^63, so it is known if it is known modulo 2^64.
  const uint64_t sent = start.is_wanted() ? warm_up<kArcs>(start, g, excess, search) : 0;
  search.run();
  const __int128 value = sums.direct + __int128(sent + search.flow_value());
  if (value > __int128(std::numeric_limits<V>::max())) return out.fail(n, kOverflow);
  search.write_sides(0, n, out.side);
  if (start.is_wanted()) start.write(search.flow(), n * (kArcs / 2), 0);
  *out.value = V(value);
  *out.status = kOptimal;
}

template <int kArcs, class T, class V>
void solve_connected(const GridCapacities<T>& g, const GridStart<FlowInteger<T>>& start,
                     const GridResults<V>& out) {
  if (g.shape.cells() == 0) {
    *out.value = 0;
    *out.status = kOptimal;
  } else if (!are_valid<kArcs>(g)) {
    out.fail(g.shape.cells(), kInvalidCapacity);
  } else if constexpr (std::is_floating_point_v<T>) {
    const auto value = cut_floats<kArcs>(g, start, out.side);
    if (!value) return out.fail(g.shape.cells(), kOverflow);
    *out.value = V(*value);
    *out.status = kOptimal;
  } else {
    solve_integers<kArcs>(g, start, out);
  }
}

// Solves problem b of a batch.
template <int kArcs, class T, class V>
void solve_problem(const GridCutOperands& o, const GridStarts& starts, int64_t b) {
  const GridResults<V> out{static_cast<V*>(o.value) + b, o.side + b * o.shape.cells(),
                           o.status + b};
  const auto start = start_of<T>(o, starts, b);
  solve_connected<kArcs>(grid_of<T>(o, b), start, out);
  if (start.is_wanted() && *out.status != kOptimal) {
    start.write_nothing(o.shape.cells() * (kArcs / 2));
  }
}
// The same for 18 and 26 neighbours; defined in many.cc.
template <class T, class V>
void solve_many(const GridCutOperands& o, const GridStarts& starts, int64_t b);

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_SOLVE_H_
