// The scales of an auction: where epsilon begins, how it falls, and when a scale ends.
#ifndef JAXMATCH_CUDA_TRANSPORT_SCHEDULE_CUH_
#define JAXMATCH_CUDA_TRANSPORT_SCHEDULE_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// The range of finite costs, which are normalised (Costs::normal). `spread`: the greatest cost
// minus the least. `scale`: nearly all rows have a cost that exceeds the least cost of all by at
// most this. `scale` may be far below `spread`.
struct CostRange {
  float spread, scale;

  __device__ bool has_tail() const { return scale < spread; }
};

// Finds CostRange::scale. If costs have a heavy tail, such as exp(3 N) for a normal N, nearly all
// rows have costs that differ by far less than the spread. An epsilon relative to the spread could
// not tell such costs apart. w.u has the least cost of each row.
__device__ inline float scale_of_rows(Team team, const TransportProblem& p, const Workspace& w,
                                      float least, float spread) {
  constexpr float kScales[] = {0x1p-14f, 0x1p-22f, 0x1p-30f, 0x1p-38f};
  constexpr int64_t kFewPart = 16;
  int64_t rows = 0;
  team.each(p.n, [&](int64_t i) { rows += w.supply[i] > 0; });
  rows = team.sum(rows);
  float scale = spread;
  for (const float part : kScales) {
    int64_t above = 0;
    team.each(p.n, [&](int64_t i) { above += w.supply[i] > 0 && w.u[i] - least > spread * part; });
    if (team.sum(above) * kFewPart > rows) break;
    scale = spread * part;
  }
  return scale;
}

template <class C>
__device__ CostRange range_of_costs(Team team, const C& c, const Workspace& w) {
  float least = kFarFloat, most = -kFarFloat;
  team.each_by_warp(c.p.n, [&](int64_t i) {
    if (c.supply[i] == 0) return;
    float own = kFarFloat;
    for (int64_t j = team.lane(); j < c.p.m; j += kWarpSize) {
      const float x = c.estimate(c.raw(i, j));
      if (c.demand[j] == 0 || !(x < kFarFloat)) continue;
      // Dummies often cost 0 in all rows, which says nothing about the scale of the others.
      if (c.p.moved && (i == c.p.n - 1 || j == c.p.m - 1)) continue;
      own = fminf(own, x);
      most = fmaxf(most, x);
    }
    own = -warp_most(-own);
    least = fminf(least, own);
    if (team.lane() == 0) w.u[i] = own;
  });
  least = float(-team.most(-least));
  const float spread = float(team.most(most)) - least;
  return {spread, scale_of_rows(team, c.p, w, least, spread)};
}

// The first epsilon, the factor that changes it after each scale (the rounds with one epsilon), and
// the last epsilon. Both epsilons are relative to CostRange::scale. If rows are many, a lower last
// epsilon saves more pivots of the simplex method. A scale ends when at most 1 / stop_part of the
// rows have free mass, or 1 / last_stop_part in the last scale.
struct Schedule {
  float first, factor, last;
  int32_t stop_part, last_stop_part;
};
__device__ inline Schedule schedule_for(int32_t rows, bool has_tail) {
  if (has_tail) return {0.125f, 0.2f, 0x1p-20f, 16, 64};
  return {1.0f / 128, 0.2f, 1.1f / float(rows), 16, 64};
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SCHEDULE_CUH_
