// Statistics of the costs of a small problem, and first prices. One warp works on the problem. Each
// lane has one or a few columns.
#ifndef JAXMATCH_CUDA_TRANSPORT_SMALL_PRICES_CUH_
#define JAXMATCH_CUDA_TRANSPORT_SMALL_PRICES_CUH_

#include <utility>

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// Calls f(0), ..., f(kCount - 1) with constants, so that arrays indexed by them stay in registers.
// The compiler would unroll a loop too late for that.
template <class F, int... kIndex>
__device__ void call_with(const F& f, std::integer_sequence<int, kIndex...>) {
  (f(kIndex), ...);
}
template <int kCount, class F>
__device__ void unroll(const F& f) {
  call_with(f, std::make_integer_sequence<int, kCount>());
}

// kOwn: the number of columns, and of rows, that a lane has. Consecutive ones are kWarpSize apart.
template <class C, int kOwn>
struct SmallProblem {
  Team team;
  const C& c;
  const Workspace& w;
  const int32_t rows, cols;
  bool whole = true;  // all costs are whole numbers of units
  int64_t bit = 1;    // all costs are multiples of this, in units
  // In normalised costs, see Costs::normal:
  float typical = 0;    // typical gap of a row's two least costs; 0 if unknown
  float spread = 0;     // greatest minus least cost
  uint32_t wanted = 0;  // bit a: this lane's column a has demand
  int32_t at[kOwn];     // this lane's column a; 0 if there is none

  __device__ SmallProblem(Team team, const C& c, const Workspace& w)
      : team(team), c(c), w(w), rows(int32_t(c.p.n)), cols(int32_t(c.p.m)) {
    unroll<kOwn>([&](int a) { at[a] = 0; });
    each_column([&](int a, int32_t j) {
      wanted |= uint32_t(c.demand[j] > 0) << a;
      at[a] = j;
    });
  }

  __device__ int32_t col(int a) const { return team.lane() + a * kWarpSize; }
  __device__ bool is_wanted(int a) const { return wanted >> a & 1; }
  // Calls f(a, column) for each column of this lane.
  template <class F>
  __device__ void each_column(const F& f) const {
    unroll<kOwn>([&](int a) {
      if (col(a) < cols) f(a, col(a));
    });
  }
  // Calls f(a, cost) for this lane's costs in row i. Costs of columns without mass may be anything.
  template <class F>
  __device__ void each_cost(int32_t i, const F& f) const {
    const auto row = c.row(i);
    typename C::Raw raw[kOwn];
    unroll<kOwn>([&](int a) { raw[a] = row.raw(at[a]); });
    unroll<kOwn>([&](int a) { f(a, raw[a]); });
  }
  __device__ int64_t units(int32_t i, int32_t j) const { return c.finite_units(c.raw(i, j)); }
  // All lanes call f(row) for each row with mass.
  template <class F>
  __device__ void each_row(const F& f) const {
#pragma unroll 1
    for (int32_t i = 0; i < rows; ++i) {
      if (c.supply[i] > 0) f(i);
    }
  }
  // Computes the statistics of the costs.
  __device__ void survey() {
    uint64_t bits = 0;
    float low = kFarFloat, high = -kFarFloat, logs = 0;
    int32_t counted = 0;
    bool rounded = false;
    each_row([&](int32_t i) {
      float least = kFarFloat, next = kFarFloat;
      each_column([&](int a, int32_t j) {
        if (!is_wanted(a)) return;
        const auto raw = c.raw(i, j);
        rounded |= !c.is_whole(raw);
        bits |= uint64_t(c.finite_units(raw));
        const float y = c.estimate(raw);
        next = fminf(next, fmaxf(least, y));
        least = fminf(least, y);
        high = fmaxf(high, y);
      });
      low = fminf(low, least);
      const uint32_t own = ordered_bits(least), best = __reduce_min_sync(kAllLanes, own);
      const int first = __ffs(int(__ballot_sync(kAllLanes, own == best))) - 1;
      const float other = team.lane() == first ? next : least;
      const float gap = from_ordered_bits(__reduce_min_sync(kAllLanes, ordered_bits(other))) -
                        from_ordered_bits(best);
      if (gap > 0 && gap < kFarFloat) {
        logs += log2f(gap);
        ++counted;
      }
    });
    whole = !__any_sync(kAllLanes, rounded);
    const uint64_t lowest = warp_least(bits == 0 ? ~uint64_t(0) : bits & (~bits + 1));
    bit = lowest < uint64_t(1) << 62 ? int64_t(lowest) : 1;
    spread = warp_most(high) + warp_most(-low);
    if (counted > 0) typical = exp2f(logs / float(counted));
  }

  // Finds the prices of this lane's columns: those of a warm start or, if there are none, by ascent
  // of a smoothed dual as in ascent.cuh. Prices affect only the time. They are between -2 * `most`
  // and 0, where `most` is the greatest cost in units.
  __device__ void find_prices(int64_t total, double most, int64_t (&price)[kOwn]) const {
    float v[kOwn] = {}, high = -kFarFloat;
    if (!take_given(v)) ascend(total, v);
    unroll<kOwn>([&](int a) {
      if (is_wanted(a)) high = fmaxf(high, v[a]);
    });
    high = warp_most(high);
    unroll<kOwn>([&](int a) {
      const double x = (double(v[a]) - double(high)) * c.units_per_normal;
      price[a] = is_wanted(a) ? int64_t(rint(fmin(fmax(x, -2 * most), 0.0))) : 0;
    });
  }

 private:
  __device__ bool take_given(float (&v)[kOwn]) const {
    if (!c.p.start_dual) return false;
    bool usable = true;
    each_column([&](int a, int32_t j) {
      const double x = c.given_price(j);
      if (is_wanted(a)) usable &= fabs(x) < 0x1p20;
      v[a] = float(x);
    });
    return !__any_sync(kAllLanes, !usable);
  }

  // Runs the ascent. A pass takes as long as one or two searches for a path.
  __device__ void ascend(int64_t total, float (&v)[kOwn]) const {
    const int passes = 6 + max(rows, cols) / 4;
    constexpr float kFirst = 256, kMostOfSpread = 1.0f / 8, kLast = 0.25f;
    unroll<kOwn>([&](int a) { v[a] = 0; });
    if (!(spread > 0) || !(spread < kFarFloat)) return;
    const double whole_mass = 1 / double(total);
    float wants[kOwn];
    each_column([&](int a, int32_t j) { wants[a] = float(double(c.demand[j]) * whole_mass); });
    team.each(rows, [&](int64_t i) { w.shadow[i] = float(double(c.supply[i]) * whole_mass); });
    team.sync_block();
    const float middle = typical > 0 ? typical : spread;
    const float first = fminf(middle * kFirst, spread * kMostOfSpread);
    const float last = fminf(middle * kLast * float(cols) / float(rows), first / 2);
    const float factor = exp2f(log2f(last / first) / float(passes - 1));
    float epsilon = first;
    for (int k = 0; k < passes; ++k, epsilon *= factor) pass(epsilon, wants, v);
  }
  // Divides the mass of each row among the columns by softmax at the temperature `epsilon`. Then
  // changes the price of each column according to the ratio of its demand to the mass that it got.
  __device__ void pass(float epsilon, const float (&wants)[kOwn], float (&v)[kOwn]) const {
    constexpr float kMostChange = 4, kWhole = 0x1p24f;
    const float inverse = 1.4426950409f / epsilon;
    const float factor = c.normal * inverse;
    float sum[kOwn], price[kOwn];
    unroll<kOwn>([&](int a) {
      sum[a] = 0;
      price[a] = v[a] * inverse;
    });
#pragma unroll 4
    for (int32_t i = 0; i < rows; ++i) {
      if (!(w.shadow[i] > 0)) continue;  // costs of a row without mass may be anything
      float z[kOwn], most = -kFarFloat, all = 0;
      each_cost(i, [&](int a, auto raw) {
        // The cost of a column without demand is ignored. It may be NaN.
        z[a] = is_wanted(a) ? price[a] - C::scaled(raw, factor) : -kFarFloat;
        most = fmaxf(most, z[a]);
      });
      most = warp_most(most);
      unroll<kOwn>([&](int a) { all += z[a] = exp2f(z[a] - most); });
      const float parts = float(__reduce_add_sync(kAllLanes, __float2uint_rn(all * kWhole)));
      const float scaled = w.shadow[i] * __fdividef(kWhole, parts);
      unroll<kOwn>([&](int a) { sum[a] += z[a] * scaled; });
    }
    each_column([&](int a, int32_t) {
      if (!is_wanted(a)) return;
      const float change = log2f(wants[a] / fmaxf(sum[a], wants[a] * 0x1p-5f));
      v[a] += 0.6931471806f * epsilon * fminf(fmaxf(change, -kMostChange), kMostChange);
    });
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SMALL_PRICES_CUH_
