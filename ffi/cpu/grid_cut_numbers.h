// From the given capacities to what the search computes with, and from its cut back to a value.
#ifndef JAXMATCH_CPU_GRID_CUT_NUMBERS_H_
#define JAXMATCH_CPU_GRID_CUT_NUMBERS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "grid_cut_search.h"
#include "jaxmatch/grid_cut_operands.h"
#include "jaxmatch/grid_cut_units.h"

namespace jaxmatch {

// f(first cell, offset to the neighbours, count) for each part of a row that has neighbours in
// direction k.
template <int kArcs, class F>
void EachArcRow(const GridShape& s, int k, const F& f) {
  const GridStep step = grid_step<kArcs>(k);
  const int first = step.x < 0 ? 1 : 0;
  const int count = s.width - std::abs(step.x);
  if (count <= 0) return;
  for (int z = 0; z < s.depth; ++z) {
    for (int y = 0; y < s.height; ++y) {
      if (!s.holds(z + step.z, y + step.y, first + step.x)) continue;
      f((int64_t(z) * s.height + y) * s.width + first, s.offset(step), count);
    }
  }
}

// Capacities that are negative or NaN, but for arcs that leave the grid.
template <int kArcs, class T>
bool AreValid(const GridCapacities<T>& g) {
  const int64_t n = g.shape.cells();
  const auto bad = [](const T* at, int64_t count) {
    bool any = false;
    for (int64_t i = 0; i < count; ++i) any |= !(at[i] >= 0);
    return any;
  };
  bool any = bad(g.source, n) || bad(g.sink, n);
  for (int k = 0; k < (g.symmetric ? kArcs / 2 : kArcs) && !any; ++k) {
    EachArcRow<kArcs>(g.shape, k, [&](int64_t first, int64_t, int64_t count) {
      any |= bad(g.pairwise + k * n + first, count);
    });
  }
  return !any;
}

template <int kArcs, class T>
class FixedPoint {
 public:
  // T is a float. All capacities are valid.
  explicit FixedPoint(const GridCapacities<T>& g) : g_(g), n_(g.shape.cells()) { survey(); }

  // In I, with unit capacities of fewer than `bits` bits around each cell. False: they are rounded.
  template <class I>
  bool convert(int bits, GridArray<I>& excess, GridArray<I>& pairwise) const {
    const GridUnits units = GridUnits::of(bound_, survey_.most_around, bits);
    bool exact = true;
    for (int64_t i = 0; i < n_; ++i) {
      const double s = double(g_.source[i]), t = double(g_.sink[i]);
      excess[i] = I(units.excess(s, t, bits));
      exact &= s == t || units.is_exact(std::abs(s - t), bits);
    }
    if (sizeof(I) < 8 && !exact) return false;
    const double scale = units.scaled(1);
    const double bound = bound_;
    for (int k = 0; k < given(); ++k) {
      EachArcRow<kArcs>(g_.shape, k, [&](int64_t first, int64_t, int64_t count) {
        const T* const from = g_.pairwise + k * n_ + first;
        I* const to = &pairwise[k * n_ + first];
        if (sizeof(I) < 8 && scale < INFINITY) {
          // Below 2^30: adding and taking away this number rounds to the nearest integer, and the
          // loop becomes vector instructions.
          constexpr double kRound = 0x1.8p52;
          const I beyond = I(units.beyond);
          bool rounded = false;
          for (int64_t i = 0; i < count; ++i) {
            const double c = double(from[i]) > bound ? 0 : double(from[i]) * scale;
            const double whole = (c + kRound) - kRound;
            rounded |= whole != c;
            to[i] = double(from[i]) > bound ? beyond : I(whole);
          }
          exact &= !rounded;
        } else {
          for (int64_t i = 0; i < count; ++i) {
            to[i] = I(units.capacity(double(from[i])));
            exact &= units.is_exact(double(from[i]), bits);
          }
        }
      });
      if (sizeof(I) < 8 && !exact) return false;
    }
    return exact;
  }

  // The capacity of the cut in the given numbers, row by row.
  template <class IsSource>
  double cut(const IsSource& is_source) const {
    double total = 0;
    for (int64_t first = 0; first < n_; first += g_.shape.width) {
      double row = 0;
      for (int64_t i = first; i < first + g_.shape.width; ++i) {
        row += double(is_source(i) ? g_.sink[i] : g_.source[i]);
      }
      total += row;
    }
    for (int k = 0; k < kArcs; ++k) {
      EachArcRow<kArcs>(g_.shape, k, [&](int64_t first, int64_t offset, int64_t count) {
        double row = 0;
        for (int64_t i = first; i < first + count; ++i) {
          if (is_source(i) && !is_source(i + offset)) {
            row += double(g_.template arc<kArcs>(i, i + offset, k));
          }
        }
        total += row;
      });
    }
    return total;
  }

 private:
  int given() const { return g_.symmetric ? kArcs / 2 : kArcs; }

  void survey() {
    double most_arc = 0;
    look([](double c) { return c; }, &most_arc);
    bound_ = GridUnits::flow_bound(survey_, n_, kArcs);
    if (most_arc > bound_ || survey_.most_around > 2 * kArcs * bound_) {
      // Huge arcs must not make the unit coarse.
      survey_.most_around = 0;
      look([&](double c) { return std::min(c, bound_); }, nullptr);
    }
    survey_.most_around = std::max(survey_.most_around, std::numeric_limits<double>::min());
  }
  template <class Clamp>
  void look(const Clamp& clamp, double* most_arc) {
    auto out = GridArray<double>::zeros(n_), in = GridArray<double>::zeros(n_);
    for (int k = 0; k < kArcs; ++k) {
      EachArcRow<kArcs>(g_.shape, k, [&](int64_t first, int64_t offset, int64_t count) {
        for (int64_t i = first; i < first + count; ++i) {
          const double c = clamp(double(g_.template arc<kArcs>(i, i + offset, k)));
          out[i] += c;
          in[i + offset] += c;
          if (most_arc) {
            *most_arc = std::max(*most_arc, c);
            if (c < INFINITY) survey_.most_finite = std::max(survey_.most_finite, c);
          }
        }
      });
    }
    for (int64_t i = 0; i < n_; ++i) {
      const double s = double(g_.source[i]), t = double(g_.sink[i]);
      const double e = s == t ? 0 : s - t;
      const double excess = std::min(std::max(e, 0.0), out[i]);
      const double deficit = std::min(std::max(-e, 0.0), in[i]);
      survey_.most_excess = std::max(survey_.most_excess, excess);
      survey_.most_deficit = std::max(survey_.most_deficit, deficit);
      survey_.most_around = std::max(survey_.most_around, excess + deficit + out[i] + in[i]);
      if (s < INFINITY) survey_.most_finite = std::max(survey_.most_finite, s);
      if (t < INFINITY) survey_.most_finite = std::max(survey_.most_finite, t);
    }
  }

  const GridCapacities<T> g_;
  const int64_t n_;
  GridSurvey survey_;
  double bound_ = 0;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_GRID_CUT_NUMBERS_H_
