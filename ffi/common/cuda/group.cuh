// The threads that work on one problem: one warp, or the first warps of a block.
#ifndef JAXMATCH_CUDA_GROUP_CUH_
#define JAXMATCH_CUDA_GROUP_CUH_

#include <cstdint>

#include "common/cuda/warp.cuh"

namespace jaxmatch {

extern __shared__ __align__(16) char shared_memory[];

#if defined(__CUDACC__)
// The lesser of two numbers, or NaN if either is NaN.
__device__ inline float min_or_nan(float a, float b) {
  float least;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(least) : "f"(a), "f"(b));
  return least;
}

__device__ inline void prefetch_to_l1(const void* at) {
  asm volatile("prefetch.L1 [%0];" ::"l"(at));
}

// The block's barrier number `id`, for `count` threads. Returns the number of threads with `x` set.
__device__ inline unsigned barrier_popc(unsigned id, unsigned count, bool x) {
  unsigned set;
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %1, 0; barrier.red.popc.u32 %0, %2, %3, p; }"
               : "=r"(set)
               : "r"(unsigned(x)), "r"(id), "r"(count)
               : "memory");
  return set;
}
#endif

// Conversions of floats to unsigned integers that have the same order, and back.
__device__ inline uint32_t ordered_bits(float x) {
  const uint32_t bits = __float_as_uint(x);
  return bits ^ (bits >> 31 ? ~0u : 1u << 31);
}
__device__ inline float from_ordered_bits(uint32_t x) {
  return __uint_as_float(x ^ (x >> 31 ? 1u << 31 : ~0u));
}
__device__ inline uint64_t ordered_bits(double x) {
  const int64_t bits = __double_as_longlong(x);
  return uint64_t(bits ^ ((bits >> 63) | INT64_MIN));
}
__device__ inline double from_ordered_bits(uint64_t x) {
  return __longlong_as_double(int64_t(x ^ (x >> 63 ? uint64_t(1) << 63 : ~uint64_t(0))));
}

// Atomic minima, which return the previous value.
__device__ inline uint32_t atomic_min(uint32_t* at, uint32_t x) {
  return atomicMin(reinterpret_cast<unsigned*>(at), unsigned(x));
}
__device__ inline uint64_t atomic_min(uint64_t* at, uint64_t x) {
  using Word = unsigned long long;
  return uint64_t(atomicMin(reinterpret_cast<Word*>(at), Word(x)));
}

template <bool kOneWarp>
struct Group {
  int thread, size;
  int barrier = 1;

  __device__ int lane() const { return kOneWarp ? thread : thread % kWarpSize; }
  __device__ int warp() const { return kOneWarp ? 0 : thread / kWarpSize; }
  __device__ int warps() const { return kOneWarp ? 1 : size / kWarpSize; }

  // A barrier of the warps of this group only. The other warps of the block may have exited, or
  // they may wait at a barrier with another number than `barrier`.
  __device__ void sync() const {
    if (kOneWarp || size == kWarpSize) {
      __syncwarp();
    } else {
      __barrier_sync_count(barrier, size);
    }
  }

  // Like sync(), but returns the number of warps with `x` set. `x` is the same in all lanes of a
  // warp.
  __device__ int sync_and_count(bool x) const {
    if (kOneWarp || size == kWarpSize) {
      __syncwarp();
      return x;
    }
    return int(barrier_popc(barrier, size, x)) / kWarpSize;
  }

  // Replaces each of N numbers by its maximum over the group. `slots` is shared memory of N *
  // kWarpSize words.
  template <int N, class Word>
  __device__ void all_max(Word (&x)[N], Word* slots) const {
    warp_max(x);
    if constexpr (!kOneWarp) {
      sync();
#pragma unroll
      for (int k = 0; k < N; ++k) {
        if (lane() == 0) slots[k * kWarpSize + warp()] = x[k];
      }
      sync();
#pragma unroll
      for (int k = 0; k < N; ++k) x[k] = lane() < warps() ? slots[k * kWarpSize + lane()] : Word(0);
      warp_max(x);
    }
  }

  template <int N>
  __device__ static void warp_max(uint32_t (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) x[k] = __reduce_max_sync(kAllLanes, x[k]);
  }

  template <int N>
  __device__ static void warp_max(uint64_t (&x)[N]) {
#pragma unroll
    for (int k = 0; k < N; ++k) {
      const uint32_t high = uint32_t(x[k] >> 32);
      const uint32_t most = __reduce_max_sync(kAllLanes, high);
      const uint32_t low = __reduce_max_sync(kAllLanes, high == most ? uint32_t(x[k]) : 0u);
      x[k] = uint64_t(most) << 32 | low;
    }
  }
};

// N numbers that are loaded at once.
template <class T, int N>
struct alignas(N * sizeof(T) >= 16 ? 16 : N * sizeof(T)) Pack {
  T x[N];
};

// All lanes call it between several loads and the first use of their results. Without it the
// compiler may save registers by waiting for each load before it issues the next.
__device__ inline void keep_loads_together() { __syncwarp(); }

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GROUP_CUH_
