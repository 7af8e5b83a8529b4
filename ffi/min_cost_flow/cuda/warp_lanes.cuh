// A warp that solves a network together.
#ifndef JAXMATCH_MIN_COST_FLOW_CUDA_WARP_LANES_CUH_
#define JAXMATCH_MIN_COST_FLOW_CUDA_WARP_LANES_CUH_

#include <cstdint>
#include <cstring>

#include "common/cuda/warp.cuh"
#include "common/device_arena.h"

namespace jaxmatch::min_cost_flow {

// The number that another lane has; T has whole words.
template <class T>
__device__ T from_lane(T x, int lane) {
  constexpr int kWords = (sizeof(T) + 3) / 4;
  uint32_t word[kWords] = {};
  memcpy(word, &x, sizeof x);
  for (int w = 0; w < kWords; ++w) word[w] = __shfl_sync(kAllLanes, word[w], lane);
  memcpy(&x, word, sizeof x);
  return x;
}

// As OneLane, for all threads of a warp.
class WarpLanes {
 public:
  static constexpr bool kAlone = false;

  // `hot` is shared memory of so many bytes.
  __device__ WarpLanes(DeviceArena cold, DeviceArena hot, int64_t hot_bytes)
      : cold_(cold), hot_(hot), hot_bytes_(hot_bytes), lane_(int(threadIdx.x) % kWarpSize) {}

  template <class F>
  __device__ void each(int32_t count, const F& f) const {
    for (int32_t i = lane_; i < count; i += kWarpSize) f(i);
    __syncwarp();
  }
  __device__ bool leads() const { return lane_ == 0; }
  __device__ void sync() const { __syncwarp(); }
  template <class T>
  __device__ T from_leader(T x) const {
    __syncwarp();
    return from_lane(x, 0);
  }
  template <class T>
  __device__ T sum(T x) const {
    for (int apart = 1; apart < kWarpSize; apart *= 2) x += from_lane(x, lane_ ^ apart);
    return x;
  }
  template <class T>
  __device__ T max(T x) const {
    for (int apart = 1; apart < kWarpSize; apart *= 2) {
      const T other = from_lane(x, lane_ ^ apart);
      x = other > x ? other : x;
    }
    return x;
  }
  __device__ bool any(bool x) const { return __any_sync(kAllLanes, x); }
  template <class P>
  __device__ int32_t best(P key, int32_t number) const {
    for (int apart = 1; apart < kWarpSize; apart *= 2) {
      const P other = from_lane(key, lane_ ^ apart);
      const int32_t its = __shfl_xor_sync(kAllLanes, number, apart);
      if (other < key || (other == key && its > number)) {
        key = other;
        number = its;
      }
    }
    __syncwarp();
    return number;
  }
  template <class T>
  __device__ T* take(int64_t count) {
    return cold_.take<T>(count);
  }
  template <class T>
  __device__ T* take_hot(int64_t count) {
    DeviceArena with = hot_;
    T* const taken = with.take<T>(count);
    if (with.used > hot_bytes_) return cold_.take<T>(count);
    hot_ = with;
    return taken;
  }
  __device__ void restart() {
    cold_.used = 0;
    hot_.used = 0;
    __syncwarp();
  }
  __device__ void poll() const {}

 private:
  DeviceArena cold_, hot_;
  const int64_t hot_bytes_;
  const int lane_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CUDA_WARP_LANES_CUH_
