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

  // Sorts the arcs by row, then by column. Returns the number of arcs.
  __device__ int32_t sort() const {
    team.sync();
    const int32_t arcs = count();
    constexpr int32_t kFew = 256;  // arcs that sort_bitonic() sorts as fast
    if (arcs <= kFew || !sort_by_counting(arcs)) sort_bitonic(arcs);
    return arcs;
  }

 private:
  __device__ void sort_bitonic(int32_t arcs) const {
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
  }

  // An arc while the arcs are sorted. Unused arcs, with the key ~0, come last, as if they were in
  // one more row.
  struct alignas(16) Arc {
    uint64_t key;
    int64_t mass;
  };
  __device__ int32_t bucket_of(uint64_t key) const {
    return min(uint32_t(key >> 32), uint32_t(team.s.problem.n));
  }
  // Sorts the arcs by row with a counting sort, then the arcs of each row by insertion. Returns
  // false, and changes nothing, if a row has too many arcs for that.
  __device__ bool sort_by_counting(int32_t arcs) const {
    constexpr int32_t kMostOfRow = 64;
    if (arcs > w.holdings) return false;
    const int32_t buckets = int32_t(team.s.problem.n) + 1;
    int32_t* const end = w.scratch[3];  // counts of arcs by row, then first places, then ends
    Arc* const sorted = reinterpret_cast<Arc*>(w.pool[0]);
    team.each(buckets, [&](int64_t i) { end[i] = 0; });
    team.sync();
    team.each(arcs, [&](int64_t k) { atomicAdd(&end[bucket_of(w.key[k])], 1); });
    team.sync();
    bool many = false;
    team.each(buckets - 1, [&](int64_t i) { many |= end[i] > kMostOfRow; });
    if (team.any(many)) return false;
    sum_before(end, buckets);
    team.each(arcs, [&](int64_t k) {
      const int32_t at = atomicAdd(&end[bucket_of(w.key[k])], 1);
      sorted[at] = {w.key[k], w.mass[k]};
    });
    team.sync();
    team.each(buckets, [&](int64_t i) {
      const int32_t first = i > 0 ? end[i - 1] : 0, last = end[i];
      for (int32_t k = first; k < last; ++k) {
        const Arc own = sorted[k];
        int32_t at = k;
        if (i < buckets - 1) {
          for (; at > first && w.key[at - 1] > own.key; --at) {
            w.key[at] = w.key[at - 1];
            w.mass[at] = w.mass[at - 1];
          }
        }
        w.key[at] = own.key;
        w.mass[at] = own.mass;
      }
    });
    team.sync();
    return true;
  }
  // Replaces each number by the sum of the numbers before it.
  __device__ void sum_before(int32_t* x, int32_t count) const {
    const int32_t part = (count + team.block_threads() - 1) / team.block_threads(),
                  first = int32_t(threadIdx.x) * part;
    const int32_t last = min(first + part, count), lane = team.lane();
    int32_t own = 0;
    for (int32_t k = first; k < last; ++k) own += x[k];
    const auto scanned = [&](int32_t y) {
      for (int step = 1; step < kWarpSize; step *= 2) {
        const int32_t other = __shfl_sync(kAllLanes, y, lane >= step ? lane - step : 0);
        if (lane >= step) y += other;
      }
      return y;
    };
    const int32_t of_warp = scanned(own);
    if (lane == kWarpSize - 1) team.s.slots[0][team.warp_of_block()] = uint64_t(of_warp);
    team.sync_block();
    const int32_t ends = scanned(lane < team.block_warps() ? int32_t(team.s.slots[0][lane]) : 0);
    const int32_t mine = team.warp_of_block();
    const int32_t before_warp = __shfl_sync(kAllLanes, ends, mine > 0 ? mine - 1 : 0);
    int32_t before = of_warp - own + (mine > 0 ? before_warp : 0);
    for (int32_t k = first; k < last; ++k) {
      const int32_t here = x[k];
      x[k] = before;
      before += here;
    }
    team.sync();
  }
};

// Lists the masses that columns hold. Then gives the free mass of each row to its columns with
// room, those of least reduced cost first, and lists it. Uses forbidden pairs only if no allowed
// column has room. `turned`: rows hold mass of columns instead (few_columns.cuh), and the segments
// belong to rows.
template <class C>
__device__ void list_plan(const Plan& plan, const C& c, const Holding* pool, bool turned) {
  Team team = plan.team;
  const Workspace& w = plan.w;
  plan.clear();
  team.each_by_warp(turned ? c.p.n : c.p.m, [&](int64_t j) {
    const Segment s = w.segment[j];
    for (int32_t k = team.lane(); k < s.count; k += kWarpSize) {
      const Holding& own = pool[s.first + k];
      if (own.mass == 0) continue;
      plan.append(turned ? int32_t(j) : own.row, turned ? own.row : int32_t(j), own.mass);
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
