// Platform primitives, which let the CPU and the GPU share the source of the large solvers: relaxed
// loads and stores, atomics, and the lanes that process a row together.
#ifndef JAXMATCH_LARGE_DEVICE_API_H_
#define JAXMATCH_LARGE_DEVICE_API_H_

#include <cstdint>

#include "common/host_device.h"

#if defined(__CUDACC__)
// The compiler allocates registers for a JAXMATCH_NOINLINE function separately. Passes over all
// costs are such functions. They take the problem by reference and copy it for the inner loop.
#define JAXMATCH_NOINLINE __device__ __noinline__
#define JAXMATCH_INLINE __device__
#define JAXMATCH_UNROLL _Pragma("unroll")
#define JAXMATCH_NO_UNROLL _Pragma("unroll 1")
#else
#include "common/cpu/instruction_set.h"
#define JAXMATCH_NOINLINE
#define JAXMATCH_UNROLL
#define JAXMATCH_NO_UNROLL
#endif

namespace jaxmatch::assignment::large {

#if defined(__CUDACC__)

// Relaxed loads and stores bypass the L1 cache, so they see values that other multiprocessors have
// stored during the kernel.
template <class T>
__device__ inline T load_relaxed(const T* at) {
  return __ldcg(at);
}
template <class T>
__device__ inline void store_relaxed(T* at, T x) {
  __stcg(at, x);
}
__device__ inline void atomic_min(int32_t* at, int32_t x) { atomicMin(at, x); }
__device__ inline void atomic_min(int64_t* at, int64_t x) {
  atomicMin(reinterpret_cast<long long*>(at), (long long)x);
}
__device__ inline void atomic_min(uint64_t* at, uint64_t x) {
  atomicMin(reinterpret_cast<unsigned long long*>(at), (unsigned long long)x);
}
__device__ inline void atomic_max(int64_t* at, int64_t x) {
  atomicMax(reinterpret_cast<long long*>(at), (long long)x);
}
__device__ inline int32_t atomic_add(int32_t* at, int32_t by = 1) { return atomicAdd(at, by); }
__device__ inline int bit_count(uint32_t x) { return __popc(x); }

// Returns x[at] of an array in registers.
template <class T>
__device__ inline T pick(const T (&x)[1], int) {
  return x[0];
}
template <class T, int N>
__device__ inline T pick(const T (&x)[N], int at) {
  static_assert(N % 2 == 0, "halves down to one");
  T half[N / 2];
#pragma unroll
  for (int k = 0; k < N / 2; ++k) half[k] = at & 1 ? x[2 * k + 1] : x[2 * k];
  return pick(half, at >> 1);
}

// The lanes of a warp.
struct Lanes {
  int lane;
  static constexpr int kCount = 32;

  __device__ static int32_t min(int32_t x) { return __reduce_min_sync(0xffffffffu, x); }
  __device__ static int64_t min(int64_t x) {
    const int32_t high = int32_t(x >> 32), least = __reduce_min_sync(0xffffffffu, high);
    const uint32_t low = __reduce_min_sync(0xffffffffu, high == least ? uint32_t(x) : 0xffffffffu);
    return int64_t(least) << 32 | low;
  }
  __device__ static double min_real(double x) {
    // As integers, the bits of negative doubles compare in reverse order.
    const auto to_ordered = [](int64_t bits) { return bits < 0 ? bits ^ INT64_MAX : bits; };
    return __longlong_as_double(to_ordered(min(to_ordered(__double_as_longlong(x)))));
  }
  __device__ static int sum(int x) { return __reduce_add_sync(0xffffffffu, x); }
  // The bitwise or over all lanes.
  __device__ static uint32_t bit_or(uint32_t x) { return __reduce_or_sync(0xffffffffu, x); }
  // The number of lower lanes with x set.
  __device__ int rank(bool x) const {
    return __popc(__ballot_sync(0xffffffffu, x) & ((1u << lane) - 1));
  }
};

#else

template <class T>
inline T load_relaxed(const T* at) {
  T x;
  __atomic_load(at, &x, __ATOMIC_RELAXED);
  return x;
}
template <class T>
inline void store_relaxed(T* at, T x) {
  __atomic_store(at, &x, __ATOMIC_RELAXED);
}
template <class T>
inline void atomic_min(T* at, T x) {
  T old = load_relaxed(at);
  while (x < old &&
         !__atomic_compare_exchange_n(at, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
template <class T>
inline void atomic_max(T* at, T x) {
  T old = load_relaxed(at);
  while (x > old &&
         !__atomic_compare_exchange_n(at, &old, x, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
}
inline int32_t atomic_add(int32_t* at, int32_t by = 1) {
  return __atomic_fetch_add(at, by, __ATOMIC_RELAXED);
}
inline int bit_count(uint32_t x) { return __builtin_popcount(x); }

// One thread processes a row alone.
struct Lanes {
  int lane = 0;
  static constexpr int kCount = 1;

  template <class T>
  static T min(T x) {
    return x;
  }
  static double min_real(double x) { return x; }
  static int sum(int x) { return x; }
  static uint32_t bit_or(uint32_t x) { return x; }
  static int rank(bool) { return 0; }
};

#endif

template <class T>
JAXMATCH_DEVICE constexpr T lesser(T a, T b) {
  return b < a ? b : a;
}
template <class T>
JAXMATCH_DEVICE constexpr T greater(T a, T b) {
  return a < b ? b : a;
}

// Calls f(index, bits) for the words first, first + step, ... of a row. Several loads are in flight
// together.
template <class F>
JAXMATCH_DEVICE void for_each_word(const uint32_t* row, int64_t words, int64_t first, int64_t step,
                                   F f) {
  constexpr int kAtOnce = 4;
  for (int64_t w = first; w < words; w += kAtOnce * step) {
    uint32_t bits[kAtOnce];
    JAXMATCH_UNROLL
    for (int a = 0; a < kAtOnce; ++a)
      bits[a] = w + a * step < words ? load_relaxed(row + w + a * step) : 0;
    JAXMATCH_UNROLL
    for (int a = 0; a < kAtOnce; ++a) f(w + a * step, bits[a]);
  }
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_DEVICE_API_H_
