// Converts floating-point capacities to integers for the search, and sums the capacity of a cut.
#ifndef JAXMATCH_GRID_CUT_CPU_CONVERT_H_
#define JAXMATCH_GRID_CUT_CPU_CONVERT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "grid_cut/cpu/ibfs.h"
#include "grid_cut/cpu/rows.h"
#include "grid_cut/fixed_point.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// True if no capacity is negative or NaN. Arcs that leave the grid are ignored.
template <int kArcs, class T>
bool are_valid(const GridCapacities<T>& g) {
  const int64_t n = g.shape.cells();
  const auto bad = [](const T* at, int64_t count) {
    bool any = false;
    for (int64_t i = 0; i < count; ++i) any |= !(at[i] >= 0);
    return any;
  };
  bool any = bad(g.source, n) || bad(g.sink, n);
  for (int k = 0; k < (g.symmetric ? kArcs / 2 : kArcs) && !any; ++k) {
    each_arc_row<kArcs>(g.shape, k, [&](int64_t first, int64_t, int64_t count) {
      any |= bad(g.pairwise + k * n + first, count);
    });
  }
  return !any;
}

template <int kArcs, class T>
class FixedPoint {
 public:
  // T is a floating-point type, and all capacities must be valid. `known`: the capacity of a cut
  // that an earlier solve has found, or infinity.
  FixedPoint(const GridCapacities<T>& g, double known) : g_(g), n_(g.shape.cells()) {
    survey(known);
  }
  // `cut` is the capacity of the minimum cut that was found. Returns true if these units were fine
  // enough for it.
  bool are_fine(double cut) const {
    return grid_cut::are_fine(survey_.most_around, around_exponent_, cut);
  }

  // A unit is 2^unit(bits); `bits` as in convert().
  int32_t unit(int bits) const {
    return GridUnits::of(bound_, survey_.most_around, around_exponent_, bits).exponent();
  }

  // Converts all capacities to whole units of type I. At each cell, the sum of the excess and of
  // all arcs is below 2^bits units. Returns false if I is narrower than 64 bits and a number would
  // be rounded.
  template <class I>
  bool convert(int bits, I* excess, I* pairwise) const {
    constexpr bool kMustBeExact = sizeof(I) < sizeof(int64_t);
    const GridUnits units = GridUnits::of(bound_, survey_.most_around, around_exponent_, bits);
    bool exact = true;
    for (int64_t first = 0; first < n_; first += kBlock) {
      for (int64_t i = first; i < std::min(n_, first + kBlock); ++i) {
        const double s = double(g_.source[i]), t = double(g_.sink[i]);
        if constexpr (kMustBeExact) {
          double whole;
          exact &= units.exact_excess(s, t, &whole);
          excess[i] = I(whole);
        } else {
          excess[i] = I(units.excess(s, t));
        }
      }
      if (kMustBeExact && !exact) return false;
    }
    for (int k = 0; k < given(); ++k) {
      each_arc_row<kArcs>(g_.shape, k, [&](int64_t first, int64_t, int64_t count) {
        if (kMustBeExact && !exact) return;
        const T* const from = g_.pairwise + k * n_ + first;
        I* const to = pairwise + k * n_ + first;
        if constexpr (kMustBeExact) {
          // x is below 2^30, so adding and subtracting this number rounds x to the nearest integer.
          constexpr double kRound = 0x1.8p52;
          const I beyond = I(std::min<int64_t>(units.beyond(), INT32_MAX));
          int inexact = 0;
          for (int64_t i = 0; i < count; ++i) {
            const bool large = units.is_beyond(double(from[i]));
            const double x = large ? 0 : units.scaled(double(from[i]));
            const double whole = (x + kRound) - kRound;
            inexact |= whole != x;
            to[i] = large ? beyond : I(whole);
          }
          exact &= inexact == 0;
        } else {
          for (int64_t i = 0; i < count; ++i) to[i] = I(units.capacity(double(from[i])));
        }
      });
    }
    return exact || !kMustBeExact;
  }

  // The capacity of the cut, as the sum of given capacities, row by row. Returns no value if all
  // capacities in the cut are finite but their sum exceeds the range of T.
  template <class IsSource>
  std::optional<double> cut(const IsSource& is_source) const {
    double total = 0, most = 0;
    const auto take = [&](double capacity) {
      most = std::max(most, capacity);
      return capacity;
    };
    for (int64_t first = 0; first < n_; first += g_.shape.width) {
      double row = 0;
      for (int64_t i = first; i < first + g_.shape.width; ++i) {
        row += take(double(is_source(i) ? g_.sink[i] : g_.source[i]));
      }
      total += row;
    }
    for (int k = 0; k < kArcs; ++k) {
      each_arc_row<kArcs>(g_.shape, k, [&](int64_t first, int64_t offset, int64_t count) {
        double row = 0;
        for (int64_t i = first; i < first + count; ++i) {
          if (is_source(i) && !is_source(i + offset)) {
            row += take(double(g_.template arc<kArcs>(i, i + offset, k)));
          }
        }
        total += row;
      });
    }
    if (std::isinf(T(total)) && most < double(INFINITY)) return std::nullopt;
    return total;
  }

 private:
  int given() const { return g_.symmetric ? kArcs / 2 : kArcs; }

  static constexpr int64_t kBlock = 4096;

  void survey(double known) {
    survey_pass([](double c) { return c; }, [](double e) { return e; });
    bound_ = GridBound::of(survey_, n_, kArcs);
    if (known < double(INFINITY)) {
      bound_ = GridBound::of_cut(known);
    } else if (!bound_.must_clip(as_number(most_arc_), survey_.most_around)) {
      return;
    }
    survey_ = {};
    around_exponent_ = bound_.exponent;
    survey_pass([&](double c) { return bound_.clip(c); },
                [&](double e) { return bound_.clip_both(e); });
  }
  // Computes survey_ in one pass over all capacities, with `clip` applied to arcs and `scale` to
  // excesses.
  template <class Clip, class Scale>
  void survey_pass(const Clip& clip, const Scale& scale) {
    const int64_t width = g_.shape.width;
    std::vector<double> out(width), in(width);
    for (int z = 0; z < g_.shape.depth; ++z) {
      for (int y = 0; y < g_.shape.height; ++y) {
        const int64_t row = (int64_t(z) * g_.shape.height + y) * width;
        std::fill(out.begin(), out.end(), 0);
        std::fill(in.begin(), in.end(), 0);
        for (int k = 0; k < kArcs; ++k) {
          const GridStep s = grid_step<kArcs>(k);
          if (!g_.shape.holds(z + s.z, y + s.y, 0)) continue;
          const int64_t first = std::max(0, -s.x), last = width - std::max<int>(0, s.x);
          const int64_t other = row + g_.shape.offset(s);
          const T* const away = arcs(k, row, other);
          const T* const back = arcs(opposite<kArcs>(k), other, row);
          for (int64_t x = first; x < last; ++x) {
            out[x] += clip(double(away[x]));
            in[x] += clip(double(back[x]));
          }
          find_most(away + first, last - first);
        }
        survey_row(row, out.data(), in.data(), scale);
      }
    }
    survey_.most_finite = std::max(survey_.most_finite, double(as_number(most_finite_)));
  }
  // Non-negative floats are ordered like their bits, and maxima of integers compile to vector
  // instructions.
  using Bits = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  static T as_number(Bits bits) {
    T x;
    std::memcpy(&x, &bits, sizeof x);
    return x;
  }
  void find_most(const T* at, int64_t count) {
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    Bits infinity, most = most_arc_, most_finite = most_finite_;
    std::memcpy(&infinity, &kInfinity, sizeof infinity);
    for (int64_t i = 0; i < count; ++i) {
      Bits x;
      std::memcpy(&x, at + i, sizeof x);
      most = x > most ? x : most;
      x = x < infinity ? x : 0;
      most_finite = x > most_finite ? x : most_finite;
    }
    most_arc_ = most;
    most_finite_ = most_finite;
  }
  // The capacities, by column, of the arcs in direction k from one row of cells to another. The
  // rows begin at the cells `row` and `other`.
  const T* arcs(int k, int64_t row, int64_t other) const {
    const bool mirrored = g_.symmetric && k >= kArcs / 2;
    return g_.pairwise + (mirrored ? (k - kArcs / 2) * n_ + other : k * n_ + row);
  }
  template <class Scale>
  void survey_row(int64_t row, const double* out, const double* in, const Scale& scale) {
    GridSurvey most = survey_;
    for (int64_t x = 0; x < g_.shape.width; ++x) {
      const double s = double(g_.source[row + x]), t = double(g_.sink[row + x]);
      const double e = scale(s == t ? 0 : s - t);
      const double excess = std::min(std::max(e, 0.0), out[x]);
      const double deficit = std::min(std::max(-e, 0.0), in[x]);
      most.most_excess = std::max(most.most_excess, excess);
      most.most_deficit = std::max(most.most_deficit, deficit);
      most.most_around = std::max(most.most_around, excess + deficit + out[x] + in[x]);
      most.most_finite = std::max(most.most_finite, s < INFINITY ? s : 0);
      most.most_finite = std::max(most.most_finite, t < INFINITY ? t : 0);
    }
    survey_ = most;
  }

  const GridCapacities<T> g_;
  const int64_t n_;
  GridSurvey survey_;
  Bits most_arc_ = 0, most_finite_ = 0;
  GridBound bound_;
  int around_exponent_ = 0;  // survey_.most_around is in units of 2^around_exponent_
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_CONVERT_H_
