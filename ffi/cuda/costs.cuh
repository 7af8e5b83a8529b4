// Costs as they are stored, and what a look at all of them finds out.
#ifndef JAXMATCH_CUDA_COSTS_CUH_
#define JAXMATCH_CUDA_COSTS_CUH_

#include <cuda_fp16.h>

#include <cstdint>

#include "group.cuh"
#include "jaxmatch/dtype.h"

namespace jaxmatch {

// What the costs of one problem are made of.
struct CostRange {
  double max_abs;     // over finite costs
  double lowest_bit;  // every finite cost is a multiple of it; 0 if all are zero
  bool invalid;       // NaN, or an infinity that does not forbid
};

// How costs of one kind are read. `Raw` is the word that the solver reads; `Range` accumulates the
// greatest magnitude, the negated lowest bit, and what is invalid, all as maxima.

// float32; bfloat16 and float16 are copied to it first.
struct Floats {
  using Raw = uint32_t;
  using Word = uint32_t;
  static constexpr bool kIntegral = false;

  __device__ static Raw load(const void* array, int64_t k, Dtype dtype) {
    if (dtype == Dtype::kF32) return static_cast<const uint32_t*>(array)[k];
    const uint16_t half = static_cast<const uint16_t*>(array)[k];
    return dtype == Dtype::kBF16 ? uint32_t(half) << 16
                                 : __float_as_uint(__half2float(__ushort_as_half(half)));
  }
  __device__ static float single(Raw raw) { return __uint_as_float(raw); }
  __device__ static double real(Raw raw) { return double(__uint_as_float(raw)); }

  struct Range {
    Word word[3] = {0, 0, 0};
  };
  __device__ static void look_at(Raw raw, bool maximize, Range& range) {
    const uint32_t magnitude = raw & 0x7fffffffu;
    const bool finite = magnitude < 0x7f800000u;
    if (finite) range.word[0] = max(range.word[0], magnitude);
    // x without its lowest bit, and the difference, which is exact. For a power of two a bit of the
    // exponent goes instead: the difference is then at least half of x, and result() rounds it down
    // to a power of two. A zero has no bit at all: the negated zero is no maximum.
    const float rest = __uint_as_float(magnitude & (magnitude - 1));
    const uint32_t lowest = __float_as_uint(__uint_as_float(magnitude) - rest);
    if (finite) range.word[1] = max(range.word[1], 0u - lowest);
    if (!finite) range.word[2] |= raw ^ (maximize ? 0xff800000u : 0x7f800000u);
  }
  __device__ static CostRange result(const Range& range) {
    uint32_t lowest = 0u - range.word[1];
    if (lowest & 0x7f800000u) lowest &= 0x7f800000u;
    const double bit = range.word[1] == 0 ? 0 : double(__uint_as_float(lowest));
    return {double(__uint_as_float(range.word[0])), bit, range.word[2] != 0};
  }
};

struct Integers {
  using Raw = uint32_t;
  using Word = uint32_t;
  static constexpr bool kIntegral = true;

  __device__ static Raw load(const void* array, int64_t k, Dtype) {
    return static_cast<const uint32_t*>(array)[k];
  }
  __device__ static float single(Raw raw) { return float(int32_t(raw)); }  // exact up to 2^24
  __device__ static double real(Raw raw) { return double(int32_t(raw)); }

  struct Range {
    Word word[1] = {0};
  };
  __device__ static void look_at(Raw raw, bool, Range& range) {
    range.word[0] = max(range.word[0], int32_t(raw) < 0 ? 0u - raw : raw);
  }
  __device__ static CostRange result(const Range& range) {
    return {double(range.word[0]), 1, false};
  }
};

struct Doubles {
  using Raw = uint64_t;
  using Word = uint64_t;
  static constexpr bool kIntegral = false;

  __device__ static Raw load(const void* array, int64_t k, Dtype) {
    return static_cast<const uint64_t*>(array)[k];
  }
  __device__ static double real(Raw raw) { return __longlong_as_double(int64_t(raw)); }

  struct Range {
    Word word[3] = {0, 0, 0};
  };
  __device__ static void look_at(Raw raw, bool maximize, Range& range) {
    constexpr uint64_t kInfinite = uint64_t(0x7ff) << 52;
    const uint64_t magnitude = raw & INT64_MAX;
    if (magnitude >= kInfinite) {
      range.word[2] |= raw ^ (maximize ? uint64_t(0xfff) << 52 : kInfinite);
      return;
    }
    range.word[0] = max(range.word[0], magnitude);
    const double rest = __longlong_as_double(int64_t(magnitude & (magnitude - 1)));
    const double bit = __longlong_as_double(int64_t(magnitude)) - rest;
    range.word[1] = max(range.word[1], 0 - uint64_t(__double_as_longlong(bit)));
  }
  __device__ static CostRange result(const Range& range) {
    constexpr uint64_t kExponent = uint64_t(0x7ff) << 52;
    uint64_t lowest = 0 - range.word[1];
    if (lowest & kExponent) lowest &= kExponent;
    const double bit = range.word[1] == 0 ? 0 : __longlong_as_double(int64_t(lowest));
    return {__longlong_as_double(int64_t(range.word[0])), bit, range.word[2] != 0};
  }
};

struct LongIntegers {
  using Raw = uint64_t;
  using Word = uint64_t;
  static constexpr bool kIntegral = true;

  __device__ static Raw load(const void* array, int64_t k, Dtype) {
    return static_cast<const uint64_t*>(array)[k];
  }
  __device__ static double real(Raw raw) { return double(int64_t(raw)); }
  __device__ static int64_t integer(Raw raw) { return int64_t(raw); }

  struct Range {
    Word word[1] = {0};
  };
  __device__ static void look_at(Raw raw, bool, Range& range) {
    range.word[0] = max(range.word[0], int64_t(raw) < 0 ? 0 - raw : raw);
  }
  __device__ static CostRange result(const Range& range) {
    return {double(range.word[0]), 1, false};
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_COSTS_CUH_
