// What the columns hold in an auction: a segment of a pool each, which moves when it is full.
#ifndef JAXMATCH_CUDA_TRANSPORT_HOLDINGS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_HOLDINGS_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// One warp works on a column. What is held does not depend on the order in which threads run; its
// order in the segment does.
struct Holdings {
  const Workspace& w;
  Holding* pool;
  int32_t lane;

  static constexpr int32_t kLeastRoom = 4;

  __device__ Holdings(const Workspace& w, int which)
      : w(w), pool(w.pool[which]), lane(int32_t(threadIdx.x) % kWarpSize) {}

  // Finds a place for at least `wanted` holdings. Returns false if the pool is used up.
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

  // Adds a bid to holdings that are in the lanes, one in each. A row has one holding in a column.
  // Returns false if they are too many.
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

  // How much of the holding of this lane the column keeps: it prefers low levels, of equal ones low
  // rows.
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

  // The same for holdings in memory.
  __device__ void add(Segment& s, const Bid& bid, int32_t row) const {
    int32_t known = INT32_MAX;
    for (int32_t k = lane; k < s.count; k += kWarpSize) {
      if (pool[s.first + k].row == row) known = k;
    }
    known = __reduce_min_sync(kAllLanes, known);
    if (lane == 0) {
      if (known < s.count) {
        Holding& own = pool[s.first + known];
        own.mass += bid.mass;
        own.level = fminf(own.level, bid.level);
      } else {
        pool[s.first + s.count] = {bid.mass, bid.level, row};
      }
    }
    s.count += known >= s.count;
    __syncwarp();
  }
  // The place of the holding that leaves first.
  __device__ int32_t weakest(const Segment& s) const {
    uint64_t key = ~uint64_t(0);
    int32_t place = INT32_MAX;
    for (int32_t k = lane; k < s.count; k += kWarpSize) {
      const Holding& own = pool[s.first + k];
      const uint64_t here =
          ~(uint64_t(ordered_bits(own.level)) << 32 | uint64_t(uint32_t(own.row)));
      if (here >= key) continue;
      key = here;
      place = k;
    }
    return __reduce_min_sync(kAllLanes, key == warp_least(key) ? place : INT32_MAX);
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_HOLDINGS_CUH_
