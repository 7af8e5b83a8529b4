// The costs of a problem, as a minimisation in whole units. The unit is a power of two, to which
// float costs are rounded; integer costs have the unit 1.
#ifndef JAXMATCH_CUDA_TRANSPORT_COSTS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_COSTS_CUH_

#include "transport/cuda/cost_types.cuh"
#include "transport/cuda/team.cuh"

namespace jaxmatch::transport {

// Sums of costs along a path of the basis tree do not exceed this, in units.
constexpr double kMostOnPath = 0x1p61;

template <class T>
struct Costs {
  using Type = T;
  using Raw = typename Type::Raw;
  static constexpr bool kInteger = Type::kIntegral;
  static constexpr bool kComputed = RowOf<Type>::Row::kComputed;

  const TransportProblem& p;
  const int64_t *supply, *demand;  // rows and columns without mass are ignored
  double scale = 1;                // factor from costs to units; negative to maximise
  // Cost of a forbidden pair, in units: more than the cost of any cycle of allowed pairs. 0 for
  // integer costs, which cannot forbid a pair.
  int64_t forbidden = 0;
  float normal = 1;  // factor from costs to normalised costs, in [-1, 1]; negative to maximise
  double units_per_normal = 1;
  const CostMap* map = nullptr;  // null: no cost changes

  __device__ auto row(int64_t i) const { return typename RowOf<Type>::Row(p, i); }
  __device__ Raw raw(int64_t i, int64_t j) const { return row(i).raw(j); }
  // The normalised cost, rounded to float32, for estimates.
  __device__ float estimate(Raw x) const {
    if (!kInteger && map) return float(mapped(x) * fabs(double(normal)));
    return scaled(x, normal);
  }
  __device__ static float scaled(Raw x, float factor) {
    if constexpr (sizeof(Raw) == 4) return Type::single(x) * factor;
    return float(real(x) * double(factor));
  }
  __device__ static double real(Raw x) { return Type::real(x); }
  // The cost, negated if the problem maximises, and then changed by `map`.
  __device__ double mapped(Raw x) const {
    const double y = p.maximize ? -real(x) : real(x);
    return map ? map->of(y) : y;
  }
  __device__ int64_t units_of(Raw x) const {
    if constexpr (kInteger) {
      const int64_t y = sizeof(Raw) == 4 ? int64_t(int32_t(x)) : int64_t(x);
      return scale < 0 ? -y : y;
    } else {
      const double y = mapped(x) * fabs(scale);
      return y < __builtin_huge_val() ? as_integer(y) : forbidden;
    }
  }
  // The cost in units, for a finite cost and without a map.
  __device__ int64_t finite_units(Raw x) const {
    if constexpr (kInteger) {
      return units_of(x);
    } else if constexpr (sizeof(Raw) == 4) {
      return __float2ll_rn(Type::single(x) * normal * float(units_per_normal));
    } else {
      return as_integer(real(x) * scale);
    }
  }
  __device__ int64_t units(int64_t i, int64_t j) const { return units_of(raw(i, j)); }
  // Whether a cost is a whole number of units, or forbidden.
  __device__ bool is_whole(Raw cost) const {
    if constexpr (kInteger) return true;
    const double x = mapped(cost), y = x * fabs(scale);
    // A product that underflows to 0 only looks whole.
    return !(y < __builtin_huge_val()) || (double(as_integer(y)) == y && (y != 0 || x == 0));
  }
  // The given dual of a column, normalised as costs are.
  __device__ double given_price(int64_t j) const {
    return double(normal) * (p.result_dtype == Dtype::kF32
                                 ? double(static_cast<const float*>(p.start_dual)[j])
                                 : static_cast<const double*>(p.start_dual)[j]);
  }
  __device__ bool has_row(int64_t i) const { return !p.row_mask || p.row_mask[i]; }
  __device__ bool has_col(int64_t j) const { return !p.col_mask || p.col_mask[j]; }
};

// What summarize_costs() finds.
struct CostSummary {
  bool invalid = false;  // a cost is NaN, or infinite with the sign that does not forbid
  bool forbids = false;  // some pair is forbidden
  double most = 0;       // greatest magnitude of finite costs
  double least = kFar;   // least magnitude of nonzero costs
};

// Summarises all unmasked costs, including those of rows and columns without mass.
template <class C>
__device__ CostSummary summarize_costs(Team team, const C& c) {
  CostSummary own;
  const double sign = c.p.maximize ? -1 : 1, infinity = __builtin_huge_val();
  team.each_by_warp(c.p.n, [&](int64_t i) {
    if (!c.has_row(i)) return;
    for (int64_t j = team.lane(); j < c.p.m; j += kWarpSize) {
      if (!c.has_col(j)) continue;
      const double x = sign * C::real(c.raw(i, j)), size = fabs(x);
      own.invalid |= !(x > -infinity);
      own.forbids |= !(size < infinity);
      if (size < infinity) own.most = fmax(own.most, size);
      if (size > 0) own.least = fmin(own.least, size);
    }
  });
  return {team.any(own.invalid), team.any(own.forbids), team.most(own.most),
          -team.most(-own.least)};
}

// An upper bound on the number of arcs of a path or a cycle, plus a little room for rounding.
// `shorter`: the smaller of the number of rows and the number of columns.
__device__ inline double most_arcs(int64_t shorter) { return 2 * double(shorter) + 2; }

// Chooses the smallest unit for which a float cost has at most kMostFloatBits bits and sums along
// paths fit into 62 bits. Integer costs keep the unit 1; returns false if their sums do not fit.
template <class C>
__device__ bool choose_unit(C& c, const CostSummary& found, int64_t shorter) {
  const double arcs = most_arcs(shorter), sign = c.p.maximize ? -1 : 1;
  const int most = found.most > 0 ? ilogb(found.most) + 1 : 0;
  c.normal = float(sign * ldexp(1.0, max(-126, min(-most, 126))));
  if constexpr (C::kInteger) {
    c.scale = sign;
    c.units_per_normal = c.scale / double(c.normal);
    return found.most * arcs <= kMostOnPath;
  } else {
    // Every second arc of a path may be a forbidden pair, which costs more than any cycle of
    // allowed pairs.
    const double most_units = kMostOnPath / (found.forbids ? 2 * arcs * arcs : arcs);
    const int bits = min(ilogb(most_units), kMostFloatBits);
    c.scale = sign * ldexp(1.0, min(bits - most, 1000));
    c.units_per_normal = c.scale / double(c.normal);
    c.forbidden = int64_t(ldexp(arcs, bits));
    return true;
  }
}

// Whether all costs between rows and columns with mass are whole numbers of units.
template <class C>
__device__ bool are_whole(Team team, const C& c) {
  bool rounded = false;
  if constexpr (!C::kInteger) {
    team.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0) return;
      for (int64_t j = team.lane(); j < c.p.m; j += kWarpSize) {
        if (c.demand[j] > 0) rounded |= !c.is_whole(c.raw(i, j));
      }
    });
  }
  return !team.any(rounded);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_COSTS_CUH_
