// The threads of one block, which solve a transport problem together.
#ifndef JAXMATCH_CUDA_TRANSPORT_BLOCK_CUH_
#define JAXMATCH_CUDA_TRANSPORT_BLOCK_CUH_

#include "assignment/cuda/costs.cuh"
#include "assignment/cuda/group.cuh"
#include "transport/cuda/kernels.h"
#include "transport/cuda/workspace.h"

namespace jaxmatch::transport {

using assignment::from_ordered_bits, assignment::ordered_bits;
using assignment::kAllLanes, assignment::kWarpSize;

// bfloat16 and float16.
struct NarrowFloats : Floats {};

constexpr int kWarps = kThreads / kWarpSize;
constexpr int32_t kNone = -1;  // no row, column, node or holding
constexpr double kFar = __builtin_huge_val();
constexpr float kFarFloat = __builtin_huge_valf();

__device__ inline int64_t atomic_add(int64_t* at, int64_t x) {
  return int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)(x)));
}

// The two least reduced costs of a row, and the column of the first; on equal ones the first.
struct TwoLeast {
  float least = kFarFloat, next = kFarFloat;
  int32_t col = INT32_MAX;

  // Columns must come in order.
  __device__ void include(float x, int32_t j) {
    const bool better = x < least;
    next = fminf(next, better ? least : x);
    col = better ? j : col;
    least = better ? x : least;
  }
  // Of all lanes; every lane gets it.
  __device__ void merge() {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, least, step),
                  other_next = __shfl_xor_sync(kAllLanes, next, step);
      const int32_t at = __shfl_xor_sync(kAllLanes, col, step);
      const bool better = other < least || (other == least && at < col);
      next = fminf(fminf(next, other_next), better ? least : other);
      col = better ? at : col;
      least = better ? other : least;
    }
  }
};

// Words in shared memory.
struct Shared {
  TwoLeast part[kWarps];
  uint64_t slots[2][kWarps];
  uint64_t both[2];
  int32_t count[4];
  int64_t number[2];
  int32_t offer[kWarps][2];  // arcs: a row and a column
};

struct Block {
  Shared& s;
  const int thread;

  __device__ int lane() const { return thread % kWarpSize; }
  __device__ int warp() const { return thread / kWarpSize; }
  __device__ void sync() const { __barrier_sync_count(0, kThreads); }

  template <class F>
  __device__ void each(int64_t count, const F& f) const {
    for (int64_t k = thread; k < count; k += kThreads) f(k);
  }
  // f(k) by all lanes of one warp.
  template <class F>
  __device__ void each_by_warp(int64_t count, const F& f) const {
    for (int64_t k = warp(); k < count; k += kWarps) f(k);
  }
  template <class F>
  __device__ void one(const F& f) const {
    if (thread == 0) f();
  }

  // The least (key, then index) over all threads. Every thread gets it.
  __device__ void least(uint64_t& key, uint64_t& index) const {
    warp_least(key, index);
    if (lane() == 0) {
      s.slots[0][warp()] = key;
      s.slots[1][warp()] = index;
    }
    sync();
    key = s.slots[0][lane()];
    index = s.slots[1][lane()];
    warp_least(key, index);
    sync();
  }
  __device__ static void warp_least(uint64_t& key, uint64_t& index) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const uint64_t other = __shfl_xor_sync(kAllLanes, key, step),
                     at = __shfl_xor_sync(kAllLanes, index, step);
      if (other < key || (other == key && at < index)) {
        key = other;
        index = at;
      }
    }
  }
  __device__ double most(double x) const {
    uint64_t key = ~ordered_bits(x), index = 0;
    least(key, index);
    return from_ordered_bits(~key);
  }
  __device__ int64_t sum(int64_t x) const { return add(x); }
  __device__ double sum(double x) const { return add(x); }
  __device__ bool any(bool x) const { return add(int64_t(x)) != 0; }

 private:
  template <class T>
  __device__ T add(T x) const {
    T* const slots = reinterpret_cast<T*>(s.slots[0]);
    for (int step = kWarpSize / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
    if (lane() == 0) slots[warp()] = x;
    sync();
    x = slots[lane()];
    for (int step = kWarpSize / 2; step > 0; step /= 2) x += __shfl_xor_sync(kAllLanes, x, step);
    sync();
    return x;
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_BLOCK_CUH_
