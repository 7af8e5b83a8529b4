// Warm starts: the flow between cells of an earlier cut, with which the search begins.
//
// Every cell has arcs from the source and to the sink, so flow between cells need not be conserved:
// the excess of a cell makes up for it. After clipping to the capacities of the arcs, any numbers
// are a valid start, and the search ends with the same cut.
#ifndef JAXMATCH_GRID_CUT_CPU_WARM_H_
#define JAXMATCH_GRID_CUT_CPU_WARM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "grid_cut/cpu/rows.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// What the target jaxmatch_grid_cut_warm has besides GridCutOperands. A flow is the net flow in the
// directions k < connectivity / 2, [batch, connectivity / 2, cells], in units of 2^unit. It has 32
// bits if the capacities are int32, else 64 bits.
struct GridStarts {
  const void* given = nullptr;
  const int32_t* given_unit = nullptr;  // [batch]
  void* flow = nullptr;
  int32_t* unit = nullptr;  // [batch]
  bool reversed = false;    // the flows are those of the grid with all arcs reversed
};

template <class T>
using FlowInteger = std::conditional_t<std::is_same_v<T, int32_t>, int32_t, int64_t>;

// The flows of one problem: F is their type.
template <class F>
struct GridStart {
  const F* given = nullptr;
  int32_t given_unit = 0;
  F* flow = nullptr;
  int32_t* unit = nullptr;
  bool reversed = false;

  bool is_wanted() const { return flow != nullptr; }

  template <class I>
  void write(const I* found, int64_t count, int32_t in_unit) const {
    *unit = in_unit;
    for (int64_t i = 0; i < count; ++i) flow[i] = reversed ? F(-F(found[i])) : F(found[i]);
  }
  void write_nothing(int64_t count) const {
    *unit = 0;
    std::fill_n(flow, count, F{0});
  }
};
template <class T>
GridStart<FlowInteger<T>> start_of(const GridCutOperands& o, const GridStarts& s, int64_t b) {
  using F = FlowInteger<T>;
  if (s.flow == nullptr) return {};
  const int64_t each = o.shape.cells() * (o.connectivity / 2);
  return {static_cast<const F*>(s.given) + b * each, s.given_unit[b],
          static_cast<F*>(s.flow) + b * each, s.unit + b, s.reversed};
}

// Changes numbers in units of 2^from to units of 2^to, rounded towards zero. Numbers beyond 2^57
// may become any others beyond 2^57 of the same sign.
class UnitChange {
 public:
  UnitChange(int32_t from, int32_t to) {
    const int64_t shift = std::clamp<int64_t>(int64_t(from) - to, -63, 58);
    up_ = int(std::max<int64_t>(shift, 0));
    down_ = int(std::max<int64_t>(-shift, 0));
    most_ = kMost >> up_;
  }
  int64_t operator()(int64_t x) const {
    const int64_t size = std::min(x < 0 ? -std::max(x, -kMost) : x, kMost);
    const int64_t changed = size > most_ ? kMost : (size << up_) >> down_;
    return x < 0 ? -changed : changed;
  }
  // No flow of a start exceeds this, so that sums over the arcs of a cell fit in 64 bits.
  static constexpr int64_t kMost = int64_t{1} << 57;

 private:
  int up_, down_;
  int64_t most_;
};

// How a search begins. If `fits` is false, the excess of a cell does not fit, and the caller must
// restore excess and flow. `beyond` sums what was taken from positive excess that did not fit; such
// a cell has more excess left than all of its arcs can carry, so minimum cuts do not change.
struct Beginning {
  bool fits = true;
  uint64_t beyond = 0;
};

// Sets `flow`, which must be zero, to the given flow, clipped to the capacities, and subtracts it
// from the excess.
template <int kArcs, class I, class F>
Beginning begin_with(const GridStart<F>& start, const GridCapacities<I>& g, int32_t unit, I* excess,
                     I* flow) {
  constexpr int kHalf = kArcs / 2;
  constexpr int64_t kMostExcess = sizeof(I) == 4 ? INT32_MAX : int64_t{1} << 62;
  const int64_t n = g.shape.cells(), width = g.shape.width;
  const UnitChange change(start.given_unit, unit);
  const bool same = sizeof(F) == 4 && start.given_unit == unit;
  const int64_t sign = start.reversed ? -1 : 1;
  for (int k = 0; k < kHalf; ++k) {
    each_arc_row<kArcs>(g.shape, k, [&](int64_t first, int64_t offset, int64_t count) {
      const F* const from = start.given + k * n + first;
      I* const to = flow + k * n + first;
      const I* const there = g.template arc_at<kArcs>(first, first + offset, k);
      const I* const back = g.template arc_at<kArcs>(first + offset, first, opposite<kArcs>(k));
      for (int64_t i = 0; i < count; ++i) {
        const int64_t x = sign * (same ? int64_t(from[i]) : change(int64_t(from[i])));
        to[i] = I(std::max<int64_t>(std::min<int64_t>(x, there[i]), -int64_t(back[i])));
      }
    });
  }
  // What the arcs of a cell can carry from it, or to it.
  const auto carried = [&](int64_t i, int z, int y, int x, bool away) {
    int64_t sum = 0;
    for (int k = 0; k < kArcs; ++k) {
      const GridStep s = grid_step<kArcs>(k);
      if (!g.shape.holds(z + s.z, y + s.y, x + s.x)) continue;
      const int64_t j = i + g.shape.offset(s);
      const int64_t sent = k < kHalf ? flow[k * n + i] : -int64_t(flow[(k - kHalf) * n + j]);
      sum += away ? int64_t(g.template arc<kArcs>(i, j, k)) - sent
                  : int64_t(g.template arc<kArcs>(j, i, opposite<kArcs>(k))) + sent;
    }
    return sum;
  };
  Beginning begun;
  std::vector<int64_t> row(width);
  for (int64_t first = 0; first < n; first += width) {
    const int y = int(first / width % g.shape.height), z = int(first / width / g.shape.height);
    for (int64_t x = 0; x < width; ++x) {
      row[x] = int64_t(excess[first + x]);
      begun.fits &= sizeof(I) == 4 || (row[x] <= kMostExcess / 4 && row[x] >= -kMostExcess / 4);
    }
    if (!begun.fits) return begun;
    for (int k = 0; k < kHalf; ++k) {
      const GridStep s = grid_step<kArcs>(k);
      const I* const out = flow + k * n + first;  // zero where there is no neighbour
      for (int64_t x = 0; x < width; ++x) row[x] -= int64_t(out[x]);
      if (!g.shape.holds(z - s.z, y - s.y, 0)) continue;
      const int64_t begin = std::max<int64_t>(0, s.x), end = width + std::min<int64_t>(0, s.x);
      const I* const in = out - g.shape.offset(s);
      for (int64_t x = begin; x < end; ++x) row[x] += int64_t(in[x]);
    }
    for (int64_t x = 0; x < width; ++x) {
      if (sizeof(I) == 4 && (row[x] > kMostExcess || row[x] < -kMostExcess)) {
        begun.fits &= carried(first + x, z, y, int(x), row[x] > 0) < kMostExcess;
        begun.beyond += uint64_t(std::max<int64_t>(row[x] - kMostExcess, 0));
        row[x] = std::clamp(row[x], -kMostExcess, kMostExcess);
      }
      excess[first + x] = I(row[x]);
    }
    if (!begun.fits) return begun;
  }
  return begun;
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_WARM_H_
