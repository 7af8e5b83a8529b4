// The arcs of a plan as a sorted list.
#ifndef JAXMATCH_CUDA_TRANSPORT_PLAN_CUH_
#define JAXMATCH_CUDA_TRANSPORT_PLAN_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

struct Plan {
  Team team;
  const Workspace& w;

  __device__ int32_t& count() const { return w.control->arcs; }
  __device__ void clear() const {
    team.one([&] { count() = 0; });
    team.sync();
  }
  __device__ void append(int32_t i, int32_t j, int64_t mass) const {
    const int32_t at = atomicAdd(&count(), 1);
    w.key[at] = uint64_t(uint32_t(i)) << 32 | uint32_t(j);
    w.mass[at] = mass;
  }

  // By row, then by column (a bitonic sort). Returns the number of arcs.
  __device__ int32_t sort() const {
    team.sync();
    const int32_t arcs = count();
    int32_t size = 1;
    while (size < arcs) size *= 2;
    team.each(size, [&](int64_t k) {
      if (k >= arcs) w.key[k] = ~uint64_t(0);
    });
    team.sync();
    for (int32_t run = 2; run <= size; run *= 2) {
      for (int32_t step = run / 2; step > 0; step /= 2) {
        team.each(size, [&](int64_t k) {
          const int64_t other = k ^ step;
          if (other < k) return;
          const bool rises = (k & run) == 0;
          if ((w.key[k] > w.key[other]) != rises) return;
          const uint64_t key = w.key[k];
          const int64_t mass = w.mass[k];
          w.key[k] = w.key[other];
          w.mass[k] = w.mass[other];
          w.key[other] = key;
          w.mass[other] = mass;
        });
        team.sync();
      }
    }
    return arcs;
  }
};

// Lists what columns hold after an auction, and gives the free mass of each row to its best columns
// with room, or to forbidden ones if need be.
template <class C>
__device__ void list_plan(const Plan& plan, const C& c, const Holding* pool) {
  Team team = plan.team;
  const Workspace& w = plan.w;
  plan.clear();
  team.each_by_warp(c.p.m, [&](int64_t j) {
    const Segment s = w.segment[j];
    for (int32_t k = team.lane(); k < s.count; k += kWarpSize) {
      const Holding& own = pool[s.first + k];
      plan.append(own.row, int32_t(j), own.mass);
    }
  });
  for (;;) {
    uint64_t row = ~uint64_t(0), none = 0;
    team.each(c.p.n, [&](int64_t i) {
      if (w.rest[i] > 0 && uint64_t(i) < row) row = uint64_t(i);
    });
    team.least(row, none);
    if (row == ~uint64_t(0)) return;
    const int32_t i = int32_t(row);
    while (w.rest[i] > 0) {
      uint64_t key = ~uint64_t(0), col = ~uint64_t(0);
      team.each(c.p.m, [&](int64_t j) {
        if (w.held[j] >= c.demand[j]) return;
        const uint64_t x = ordered_bits(c.estimate(c.raw(i, j)) - w.v[j]);
        if (x < key || col == ~uint64_t(0)) {
          key = x;
          col = uint64_t(j);
        }
      });
      team.least(key, col);
      team.one([&] {
        const int64_t room = c.demand[col] - w.held[col],
                      mass = w.rest[i] < room ? w.rest[i] : room;
        w.rest[i] -= mass;
        w.held[col] += mass;
        plan.append(i, int32_t(col), mass);
      });
      team.sync();
    }
  }
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_PLAN_CUH_
