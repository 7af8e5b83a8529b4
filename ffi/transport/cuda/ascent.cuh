// Prices of few columns by ascent of a smoothed dual: each pass reads all costs once, divides each
// row among the columns by softmax at a temperature, and raises the prices of columns that get
// less than they want. The temperature falls. Prices are float32: they affect the time, not the
// result.
#ifndef JAXMATCH_CUDA_TRANSPORT_ASCENT_CUH_
#define JAXMATCH_CUDA_TRANSPORT_ASCENT_CUH_

#include "transport/cuda/few_columns.cuh"

namespace jaxmatch::transport {

template <class C>
struct Ascent {
  const FewColumns<C> f;
  const Team team;
  FewColumnsState& s;
  int32_t turn = 0;  // of the sums

  __device__ explicit Ascent(const FewColumns<C>& f) : f(f), team(f.team), s(*f.team.s.few()) {}

  __device__ uint32_t* load(int32_t of_turn) const {
    return f.w.load + of_turn % kLoadsInTurn * f.cols;
  }

  // Begins with the prices of a warm start, if there are any.
  __device__ void run(bool warm) {
    constexpr int kScales = 14, kWarmScale = 9;
    constexpr float kFirst = 32, kMostOfSpread = 1.0f / 8, kLast = 0.25f;
    f.each_own_column([&](int32_t k) {
      s.v[k] = f.wanted(k) == 0 ? -kFarFloat : warm && !f.turned ? f.w.v[k] : 0;
      s.wants[k] = float(double(f.wanted(k)) * (double(f.kWhole) / double(f.total)));
      s.load[k] = 0;
      if (team.rank == 0) load(0)[k] = load(1)[k] = 0;
    });
    team.sync();
    if (!(f.spread > 0) || !(f.spread < kFarFloat)) return;
    const float typical = f.typical > 0 ? f.typical : f.spread;
    const float first = fminf(typical * kFirst, f.spread * kMostOfSpread);
    const float last = fminf(typical * kLast * float(f.cols) / float(f.rows), first / 2);
    const float factor = exp2f(log2f(last / first) / float(kScales - 1));
    float epsilon = first;
    for (int scale = 0; scale < kScales; ++scale, epsilon *= factor) {
      if (warm && !f.turned && scale < kWarmScale) continue;
      for (int k = 0; k < passes(); ++k) pass(epsilon);
    }
  }

 private:
  // Of a scale. Each pass of a large problem saves searches that take far longer.
  __device__ int passes() const {
    const int64_t pairs = int64_t(f.rows) * f.cols;
    return pairs >= 1 << 20 ? 24 : pairs >= 1 << 16 ? 8 : 6;
  }
  __device__ void pass(float epsilon) {
    constexpr float kMostChange = 4;  // a power of two
    add_loads(f, s, 1.4426950409f / epsilon);
    team.sync_block();
    const bool alone = team.blocks == 1;
    if (!alone) {
      f.each_own_column([&](int32_t k) {
        if (s.load[k] > 0) atomicAdd(load(turn) + k, s.load[k]);
        s.load[k] = 0;
        if (team.rank == 0) load(turn + 1)[k] = 0;
      });
      team.sync();
    }
    f.each_own_column([&](int32_t k) {
      const float has = float(alone ? s.load[k] : load(turn)[k]);
      s.load[k] = 0;
      if (!(s.v[k] > -kFarFloat)) return;
      const float change = log2f(s.wants[k] / fmaxf(has, 0.5f));
      s.v[k] += 0.6931471806f * epsilon * fminf(fmaxf(change, -kMostChange), kMostChange);
    });
    ++turn;
    team.sync_block();
  }

  // Takes copies that stay in registers.
  __device__ static void add_loads(const FewColumns<C> f, FewColumnsState& s, float inverse) {
    const Team team = f.team;
    constexpr int kAtOnce = C::kComputed ? 1 : sizeof(typename C::Raw) == 4 ? 4 : 2;  // rows
    const int32_t own = team.lane() / f.width, step = team.block_warps() * f.groups,
                  last = f.last_row();
    float v[kColumnsOfLane];
    uint32_t sum[kColumnsOfLane] = {};
    f.each_column([&](int a, int32_t k) { v[a] = k < f.cols ? s.v[k] : -kFarFloat; });
    const FewCosts<C> costs(f.costs);
    const float* const parts = &f.part(0);
    const int32_t cols = f.cols;
    for (int32_t i = f.first_row() + team.warp_of_block() * f.groups + own; i - own < last;
         i += kAtOnce * step) {
      typename C::Raw raw[kAtOnce][kColumnsOfLane];
      float part[kAtOnce];
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const int32_t row = i + b * step;
        part[b] = row < last ? parts[row] : 0;
        f.each_column([&](int a, int32_t k) {
          raw[b][a] = row < last && k < cols ? costs.raw(row, k) : typename C::Raw{};
        });
      }
      keep_loads_together();
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        float z[kColumnsOfLane], most = -kFarFloat, all = 0;
        f.each_column([&](int a, int32_t) {
          // A column that nothing is wanted of may have any cost, NaN too.
          z[a] = v[a] > -kFarFloat ? v[a] - costs.c.estimate(raw[b][a]) : -kFarFloat;
          most = fmaxf(most, z[a]);
        });
        most = f.of_group(most, [](float x, float y) { return fmaxf(x, y); });
        const bool exists = part[b] > 0 && most > -kFarFloat;
        f.each_column([&](int a, int32_t) {
          z[a] = exists ? exp2f((z[a] - most) * inverse) : 0;
          all += z[a];
        });
        all = f.of_group(all, [](float x, float y) { return x + y; });
        const float scaled = exists ? part[b] / all : 0;
        f.each_column([&](int a, int32_t) { sum[a] += __float2uint_rn(z[a] * scaled); });
      }
    }
    f.each_column([&](int a, int32_t k) {
      uint32_t x = sum[a];
      for (int wide = f.width; wide < kWarpSize; wide *= 2) {
        x += __shfl_xor_sync(kAllLanes, x, wide);
      }
      if (own == 0 && k < f.cols && x > 0) atomicAdd(&s.load[k], x);
    });
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_ASCENT_CUH_
