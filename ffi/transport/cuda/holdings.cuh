// The holdings of columns in an auction: masses of rows that columns hold. Each column has a
// segment of a common pool. A full segment is moved to a larger place in the pool.
#ifndef JAXMATCH_CUDA_TRANSPORT_HOLDINGS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_HOLDINGS_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// One warp works on a column. The order of threads affects the order of holdings in a segment, but
// not which holdings the column has.
struct Holdings {
  const Workspace& w;
  Holding* pool;
  int32_t lane;

  static constexpr int32_t kLeastRoom = 4;

  __device__ Holdings(const Workspace& w, int which)
      : w(w), pool(w.pool[which]), lane(int32_t(threadIdx.x) % kWarpSize) {}

  // Gives `s` a new place, with room for at least `wanted` holdings, but does not copy the holdings
  // there. Returns false if the pool is full.
  __device__ bool reserve(Segment& s, int32_t wanted) const {
    const int32_t more = wanted + wanted / 2, room = more > kLeastRoom ? more : kLeastRoom;
    int32_t at = 0;
    if (lane == 0) {
      at = atomicAdd(&w.control->used, room);
      if (int64_t(at) + room > w.holdings) {
        atomicAdd(&w.control->used, -room);
        at = kNone;
      }
    }
    at = __shfl_sync(kAllLanes, at, 0);
    if (at == kNone) return false;
    s.first = at;
    s.room = room;
    return true;
  }

  // Adds a bid of `row` to the holdings of a column. Each lane has at most one holding, in `own`.
  // If the row already has a holding, the mass of this holding grows instead. Returns false if
  // there are more holdings than lanes.
  __device__ bool add(Holding& own, int32_t& count, const Bid& bid, int32_t row) const {
    const unsigned known = __ballot_sync(kAllLanes, lane < count && own.row == row);
    if (known == 0 && count == kWarpSize) return false;
    if (known >> lane & 1) {
      own.mass += bid.mass;
      own.level = fminf(own.level, bid.level);
    } else if (known == 0 && lane == count) {
      own = {bid.mass, bid.level, row};
    }
    count += known == 0;
    return true;
  }

  // How much of this lane's holding the column keeps. The column prefers low levels, and among
  // equal levels low rows.
  __device__ int64_t kept(const Holding& own, int32_t count, int64_t demand) const {
    int64_t before = 0;
    for (int32_t k = 0; k < count; ++k) {
      const int64_t mass = __shfl_sync(kAllLanes, own.mass, k);
      const float level = __shfl_sync(kAllLanes, own.level, k);
      const int32_t row = __shfl_sync(kAllLanes, own.row, k);
      if (level < own.level || (level == own.level && row < own.row)) before += mass;
    }
    const int64_t left = demand > before ? demand - before : 0;
    return lane < count ? left < own.mass ? left : own.mass : 0;
  }

  // trim() drops holdings in decreasing order of this key: (level, row).
  __device__ static uint64_t key_of(const Holding& own) {
    return uint64_t(ordered_bits(own.level)) << 32 | uint64_t(uint32_t(own.row));
  }
  // Drops mass from the segment until only `demand` of the mass `held` remains. Calls f(row, mass)
  // in one lane for each holding that loses mass. Returns the greatest level that remains.
  template <class F>
  __device__ float trim(Segment& s, int64_t held, int64_t demand, const F& f) const {
    constexpr int32_t kFew = 8;
    for (int32_t k = 0; held > demand && k < kFew; ++k) held -= drop_last(s, held - demand, f);
    if (held > demand) drop_from(s, find_threshold(s, demand), demand, f);
    return pool[s.first + last(s)].level;
  }

 private:
  // The index of the holding with the greatest key.
  __device__ int32_t last(const Segment& s) const {
    uint64_t key = ~uint64_t(0);
    int32_t place = INT32_MAX;
    for (int32_t k = lane; k < s.count; k += kWarpSize) {
      const uint64_t here = ~key_of(pool[s.first + k]);
      if (here >= key) continue;
      key = here;
      place = k;
    }
    return __reduce_min_sync(kAllLanes, key == warp_least(key) ? place : INT32_MAX);
  }
  // Drops at most the mass `over` from the holding with the greatest key. Returns the mass dropped.
  template <class F>
  __device__ int64_t drop_last(Segment& s, int64_t over, const F& f) const {
    const int32_t place = s.first + last(s);
    const Holding own = pool[place];
    const int64_t mass = over < own.mass ? over : own.mass;
    s.count -= mass == own.mass;
    const Holding moved = pool[s.first + s.count];
    __syncwarp();
    if (lane == 0) {
      f(own.row, mass);
      pool[place] = mass == own.mass ? moved : Holding{own.mass - mass, own.level, own.row};
    }
    __syncwarp();
    return mass;
  }
  // The key at which the mass, summed in the order of keys, first exceeds `demand`. It is found bit
  // by bit: it is the greatest number such that holdings with lower keys have at most `demand` mass
  // in all.
  __device__ uint64_t find_threshold(const Segment& s, int64_t demand) const {
    uint64_t least = ~uint64_t(0), most = 0;
    for (int32_t k = lane; k < s.count; k += kWarpSize) {
      const uint64_t here = key_of(pool[s.first + k]);
      least = here < least ? here : least;
      most = here > most ? here : most;
    }
    least = warp_least(least);
    most = ~warp_least(~most);
    uint64_t bit = uint64_t(1) << 63, at = 0;
    for (; bit != 0 && ((least ^ most) & bit) == 0; bit /= 2) at |= least & bit;
    for (; bit != 0; bit /= 2) {
      int64_t before = 0;
      for (int32_t k = lane; k < s.count; k += kWarpSize) {
        const Holding& own = pool[s.first + k];
        before += key_of(own) < (at | bit) ? own.mass : 0;
      }
      if (warp_sum(before) <= demand) at |= bit;
    }
    return at;
  }
  // Keeps the holdings with keys below `threshold`. The holding with the key `threshold` keeps the
  // rest of `demand`. Drops all other holdings.
  template <class F>
  __device__ void drop_from(Segment& s, uint64_t threshold, int64_t demand, const F& f) const {
    int64_t before = 0;
    for (int32_t k = lane; k < s.count; k += kWarpSize) {
      const Holding& own = pool[s.first + k];
      before += key_of(own) < threshold ? own.mass : 0;
    }
    const int64_t left = demand - warp_sum(before);
    int32_t count = 0;
    for (int32_t first = 0; first < s.count; first += kWarpSize) {
      const bool exists = first + lane < s.count;
      const Holding own = exists ? pool[s.first + first + lane] : Holding{0, 0, 0};
      __syncwarp();
      const uint64_t key = key_of(own);
      int64_t mass = key < threshold ? own.mass : 0;
      if (key == threshold) mass = left < own.mass ? left : own.mass;
      const bool stays = exists && mass > 0;
      const unsigned lanes = __ballot_sync(kAllLanes, stays);
      const int32_t place = s.first + count + __popc(lanes & lanes_below(lane));
      if (stays) pool[place] = {mass, own.level, own.row};
      if (exists && mass < own.mass) f(own.row, own.mass - mass);
      count += __popc(lanes);
      __syncwarp();
    }
    s.count = count;
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_HOLDINGS_CUH_
