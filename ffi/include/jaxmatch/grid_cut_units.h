// Floating-point capacities in fixed point: every solver computes with integers, so that flow is
// conserved exactly and nothing is pushed in ever smaller parts.
#ifndef JAXMATCH_GRID_CUT_UNITS_H_
#define JAXMATCH_GRID_CUT_UNITS_H_

#include <cmath>
#include <cstdint>

#include "jaxmatch/grid_cut_operands.h"

namespace jaxmatch {

// No flow over the grid may reach it: then int64 holds all sums.
constexpr int64_t kGridMostFlow = int64_t{1} << 59;

// The largest numbers of a problem. All are maxima, so that it does not matter who finds them in
// which order. Of the arcs that leave the grid nothing is known.
struct GridSurvey {
  double most_excess = 0, most_deficit = 0;  // that a cell can pass on or take in
  double most_finite = 0;                    // of all capacities
  double most_around = 0;                    // the larger of those, and all arcs of a cell
};

struct GridUnits {
  double bound;               // no flow exceeds it; whatever is larger counts as one unit more
  double scale, scale_again;  // to units, which are a power of two
  int64_t beyond;             // what the larger ones count as

  // What a cell can pass on is bounded by its arcs, so that the bound of all flow is a number even
  // beside infinite capacities, but where an infinite flow may be.
  JAXMATCH_GRID_FN static double flow_bound(const GridSurvey& s, int64_t cells, int arcs) {
    const double least = s.most_excess < s.most_deficit ? s.most_excess : s.most_deficit;
    if (least < double(INFINITY)) {
      const double bound = least * double(cells);
      if (bound < double(INFINITY)) return bound;
    }
    const double bound = s.most_finite * double(arcs + 2) * double(cells);
    return bound == 0 ? 1 : bound < double(INFINITY) ? bound : 1.7976931348623157e308;
  }
  // `most_around` with no arc above the bound; the result is below 2^bits units, even when each of
  // the arcs above the bound, 16 of them at most, counts as one unit more.
  JAXMATCH_GRID_FN static GridUnits of(double bound, double most_around, int bits) {
    int exponent = 0;
    frexp(most_around * (1 + 0x1p-25), &exponent);  // below 2^exponent
    exponent = exponent - bits < -1074 ? -1074 : exponent - bits;
    // In two steps: 2^1074 is no double.
    const int half = -exponent / 2;
    GridUnits units{bound, ldexp(1.0, half), ldexp(1.0, -exponent - half), 0};
    const double in_units = units.scaled(bound);
    units.beyond = in_units < double(int64_t{1} << 60) ? int64_t(in_units) + 1 : int64_t{1} << 60;
    return units;
  }

  JAXMATCH_GRID_FN double scaled(double x) const { return x * scale * scale_again; }
  JAXMATCH_GRID_FN int64_t capacity(double c) const {
    return c > bound ? beyond : int64_t(nearest(scaled(c)));
  }
  // What the source gives beyond what the sink takes. No cell can use more than its arcs carry,
  // which is below 2^bits units.
  JAXMATCH_GRID_FN int64_t excess(double source, double sink, int bits) const {
    const double most = double(int64_t{1} << bits);
    const double e = source == sink ? 0 : scaled(source - sink);
    return int64_t(nearest(e > most ? most : e < -most ? -most : e));
  }
  // Whether `capacity` and `excess` are exact.
  JAXMATCH_GRID_FN bool is_exact(double x, int bits) const {
    const double y = scaled(x);
    return x > bound || y > double(int64_t{1} << bits) || nearest(y) == y;
  }

 private:
  // The nearest integer, of ties the even one. Where the sum below would not be exact, x is whole.
  JAXMATCH_GRID_FN static double nearest(double x) {
    constexpr double kRound = 0x1.8p52;
    return x < 0x1p51 && x > -0x1p51 ? (x + kRound) - kRound : x;
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_GRID_CUT_UNITS_H_
