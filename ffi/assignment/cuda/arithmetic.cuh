// Number types of the solver: float32 (Single) if it does not round, otherwise float64 (Real) or
// 128-bit integers (Huge). With Single, the solver checks each value against the range in which
// float32 is exact (kWatched).
#ifndef JAXMATCH_CUDA_ARITHMETIC_CUH_
#define JAXMATCH_CUDA_ARITHMETIC_CUH_

#include <cstdint>

#include "costs/cuda/stored.cuh"

namespace jaxmatch::assignment {

// The smaller of two numbers. If one is NaN, the other one.
__device__ inline float lesser(float a, float b) { return fminf(a, b); }
__device__ inline double lesser(double a, double b) { return fmin(a, b); }
__device__ inline int lesser(int a, int b) { return b < a ? b : a; }
__device__ inline __int128 lesser(__int128 a, __int128 b) { return b < a ? b : a; }

// Conversion of costs to keys, the numbers that the solver compares.
struct Scale {
  double factor;  // +-2^k, by which costs are multiplied
  float sign;
  float most;  // bound on the magnitude of exact keys; for Single only
};

// Keys in float32. Every cost must be a multiple of a common unit and at most 2^24 units. Then sums
// and differences of up to 2^24 units are exact, and larger ones are still 2^24 units or more after
// rounding.
//
// All decisions are exact as long as v, once changed, stays below 2^24 units, and u, path lengths
// and heights (see Search::relax()) stay below 2^23 units (`most`). The reason: if C_ij - v_j was
// rounded, it is at least 2^24 units. Then C_ij - v_j - height is at least 2^23 units and is never
// the minimum. The solver checks these bounds (kWatched); if one is violated, Real must solve the
// problem.
struct Single {
  using Key = float;
  static constexpr bool kWatched = true, kExact = true;
  static constexpr Key kInfinity = __builtin_huge_valf(), kForbidden = __builtin_huge_valf();
  static constexpr Key kFarDual = -__builtin_huge_valf();  // makes a column infinitely far
  // Distance of a settled column. As a NaN, it is neither less nor greater than any number.
  static constexpr Key kSettled = __builtin_nanf("");
  static constexpr bool kSettledIsFar = true;  // `length < kSettled` is always false
  __device__ static void settle(Key& dist, Key&) { dist = kSettled; }
  __device__ static bool is_settled(Key dist, Key) { return dist != dist; }

  template <class Costs>
  __device__ static Key read(typename Costs::Raw raw, const Scale& s) {
    return Costs::single(raw) * s.sign;
  }
  // read(raw) - v
  template <class Costs>
  __device__ static Key less(typename Costs::Raw raw, Key v, const Scale& s) {
    return __fmaf_rn(Costs::single(raw), s.sign, -v);
  }
  __device__ static Key from_real(double x, const Scale& s) { return float(x * s.factor); }
  __device__ static Key from_integer(int64_t x, const Scale& s) { return float(x) * s.sign; }
  __device__ static Key warp_min(Key x) {
    // Maps floats to integers that compare in the same order.
    const int32_t bits = __float_as_int(x);
    const int32_t least = __reduce_min_sync(kAllLanes, bits ^ ((bits >> 31) & INT32_MAX));
    return __int_as_float(least ^ ((least >> 31) & INT32_MAX));
  }
  // Like warp_min(), for distances, which are never negative.
  __device__ static Key warp_min_path(Key x) {
    return __int_as_float(__reduce_min_sync(kAllLanes, __float_as_int(x)));
  }
  __device__ static bool fits(Key x, const Scale& s) { return fabsf(x) < s.most; }
  __device__ static bool fits_dual(Key v, const Scale& s) { return fabsf(v) < 2 * s.most; }
};

struct Real {
  using Key = double;
  static constexpr bool kWatched = false, kExact = false;
  static constexpr Key kInfinity = __builtin_huge_val(), kForbidden = __builtin_huge_val();
  static constexpr Key kFarDual = -__builtin_huge_val();
  static constexpr Key kSettled = __builtin_nan("");
  static constexpr bool kSettledIsFar = true;
  __device__ static void settle(Key& dist, Key&) { dist = kSettled; }
  __device__ static bool is_settled(Key dist, Key) { return dist != dist; }

  template <class Costs>
  __device__ static Key read(typename Costs::Raw raw, const Scale& s) {
    return Costs::real(raw) * s.factor;
  }
  template <class Costs>
  __device__ static Key less(typename Costs::Raw raw, Key v, const Scale& s) {
    return __fma_rn(Costs::real(raw), s.factor, -v);
  }
  __device__ static Key from_real(double x, const Scale& s) { return x * s.factor; }
  __device__ static Key from_integer(int64_t x, const Scale& s) { return double(x) * s.factor; }
  // Reduces the high halves, then the low halves of the lanes that attain the minimum.
  __device__ static int64_t warp_min_bits(int64_t bits) {
    const int32_t high = int32_t(bits >> 32);
    const int32_t least = __reduce_min_sync(kAllLanes, high);
    const uint32_t low =
        __reduce_min_sync(kAllLanes, high == least ? uint32_t(bits) : ~uint32_t(0));
    return int64_t(uint64_t(uint32_t(least)) << 32 | low);
  }
  __device__ static Key warp_min(Key x) {
    // Maps doubles to integers that compare in the same order.
    const int64_t bits = __double_as_longlong(x);
    const int64_t least = warp_min_bits(bits ^ ((bits >> 63) & INT64_MAX));
    return __longlong_as_double(least ^ ((least >> 63) & INT64_MAX));
  }
  // Like warp_min(), for distances. Only rounding makes distances negative, and then their order
  // does not matter.
  __device__ static Key warp_min_path(Key x) {
    return __longlong_as_double(warp_min_bits(__double_as_longlong(x)));
  }
  __device__ static bool fits(Key, const Scale&) { return true; }
  __device__ static bool fits_dual(Key, const Scale&) { return true; }
};

// 128-bit integers, for int64 costs whose sums doubles would round.
struct Huge {
  using Key = __int128;
  static constexpr bool kWatched = false, kExact = true;
  static constexpr Key kInfinity = Key(1) << 120, kForbidden = Key(1) << 122;
  static constexpr Key kFarDual = -(Key(1) << 124);
  static constexpr Key kSettled = Key(1) << 123;
  static constexpr bool kSettledIsFar = false;
  __device__ static void settle(Key& dist, Key& v) {
    dist = kSettled;
    v = kFarDual;
  }
  __device__ static bool is_settled(Key, Key v) { return v == kFarDual; }

  template <class Costs>
  __device__ static Key read(typename Costs::Raw raw, const Scale& s) {
    return s.sign < 0 ? -Key(Costs::integer(raw)) : Key(Costs::integer(raw));
  }
  template <class Costs>
  __device__ static Key less(typename Costs::Raw raw, Key v, const Scale& s) {
    return read<Costs>(raw, s) - v;
  }
  __device__ static Key from_real(double x, const Scale& s) {
    if (fabs(x) < 0x1p63) return from_integer(int64_t(x), s);
    return (x < 0) == (s.sign < 0) ? kForbidden : -kForbidden;
  }
  __device__ static Key from_integer(int64_t x, const Scale& s) {
    return s.sign < 0 ? -Key(x) : Key(x);
  }
  __device__ static Key warp_min(Key x) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const uint64_t low = __shfl_xor_sync(kAllLanes, uint64_t(x), step);
      const int64_t high = __shfl_xor_sync(kAllLanes, int64_t(x >> 64), step);
      const Key other = Key(high) << 64 | low;
      x = other < x ? other : x;
    }
    return x;
  }
  __device__ static Key warp_min_path(Key x) { return warp_min(x); }
  __device__ static bool fits(Key, const Scale&) { return true; }
  __device__ static bool fits_dual(Key, const Scale&) { return true; }
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ARITHMETIC_CUH_
