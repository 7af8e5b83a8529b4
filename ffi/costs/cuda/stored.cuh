// The types of costs that a matrix may hold: how a cost is loaded, and how a scan of all costs
// determines their range.
#ifndef JAXMATCH_COSTS_CUDA_STORED_CUH_
#define JAXMATCH_COSTS_CUDA_STORED_CUH_

#include <cstdint>

#include "common/cuda/group.cuh"
#include "common/dtype.h"
#include "common/float16.h"

namespace jaxmatch {

// Range of the costs of one problem.
struct CostRange {
  double max_abs;      // greatest magnitude of a finite cost
  double lowest_bit;   // a power of two that divides all finite costs; 0 if all floats are 0
  bool invalid;        // a cost is NaN or -inf (+inf when maximising)
  uint64_t magnitude;  // max_abs of integers, not rounded to a double; 0 for floats
};

__device__ inline CostRange merge(CostRange a, const CostRange& b) {
  a.invalid |= b.invalid;
  a.max_abs = fmax(a.max_abs, b.max_abs);
  if (b.lowest_bit > 0 && (a.lowest_bit == 0 || b.lowest_bit < a.lowest_bit)) {
    a.lowest_bit = b.lowest_bit;
  }
  return a;
}

// Each struct below describes one type of costs. `Raw` holds the bits of one loaded cost. `Range`
// accumulates three words over all costs: the greatest magnitude, the negated lowest bit, and a
// word that is not 0 if a cost is invalid. Threads combine all three by maxima. `Guess` finds the
// range faster, but may fail; the caller then uses `Range`.

// float32 costs. load() converts bfloat16 and float16 to float32.
struct Floats {
  using Raw = uint32_t;
  using Word = uint32_t;
  static constexpr bool kIntegral = false;

  __device__ static Raw load(const void* array, int64_t k, Dtype dtype) {
    if (dtype == Dtype::kF32) return static_cast<const uint32_t*>(array)[k];
    return __float_as_uint(dtype == Dtype::kBF16
                               ? jaxmatch::single(static_cast<const BFloat16*>(array)[k])
                               : jaxmatch::single(static_cast<const Float16*>(array)[k]));
  }
  __device__ static float single(Raw raw) { return __uint_as_float(raw); }
  __device__ static double real(Raw raw) { return double(__uint_as_float(raw)); }

  struct Range {
    Word word[3] = {0, 0, 0};

    __device__ void begin(Raw) {}
    __device__ bool gives_up() const { return false; }
    __device__ void include(Raw raw, bool maximize) {
      const uint32_t magnitude = raw & 0x7fffffffu;
      const bool finite = magnitude < 0x7f800000u;
      if (finite) word[0] = max(word[0], magnitude);
      // Clearing the lowest set bit of `magnitude` clears the lowest bit of the number x that it
      // encodes. The difference to x is exact, and is this bit. If x is a power of two, its
      // mantissa has no bits, so a bit of the exponent is cleared instead. The difference is then
      // at least half of x, and lowest_bit() rounds it down to x or x / 2. Zero has no bits; its
      // negated lowest bit is 0, which does not change the maximum.
      const float rest = __uint_as_float(magnitude & (magnitude - 1));
      const uint32_t lowest = __float_as_uint(__uint_as_float(magnitude) - rest);
      if (finite) word[1] = max(word[1], 0u - lowest);
      if (!finite) word[2] |= raw ^ (maximize ? 0xff800000u : 0x7f800000u);
    }
    __device__ float lowest_bit() const {
      uint32_t lowest = 0u - word[1];
      if (lowest & 0x7f800000u) lowest &= 0x7f800000u;
      return __uint_as_float(lowest);
    }
    __device__ CostRange result() const {
      return {double(__uint_as_float(word[0])), double(lowest_bit()), word[2] != 0, 0};
    }
    template <class G>
    __device__ bool combine(const G& group, Word* slots, CostRange& found) {
      group.all_max(word, slots);
      found = result();
      return true;
    }
  };

  // Guesses `unit`, the lowest bit of all costs, from a few costs, and checks that every cost is a
  // multiple of it. Fails if a cost is not a multiple, or is not finite.
  struct Guess {
    float unit = 0, magic = 0, most = 0;
    bool fails = false;

    // All lanes of a warp call it, each with one of the few costs.
    __device__ void begin(Raw raw) {
      const uint32_t magnitude = raw & 0x7fffffffu;
      const float x = __uint_as_float(magnitude),
                  rest = __uint_as_float(magnitude & (magnitude - 1));
      // The lowest bit of x: x itself for a power of two, and 0 for zero.
      const float lowest = magnitude & 0x7fffffu ? x - rest : x;
      unit = __uint_as_float(0u - __reduce_max_sync(kAllLanes, 0u - __float_as_uint(lowest)));
      magic = unit * 0x1p23f;
    }
    __device__ bool gives_up() const { return fails; }
    __device__ void include(Raw raw, bool) {
      // A float32 of 2^23 units or more has no bit below the unit, so only smaller numbers are
      // tested. Adding `magic`, which is 2^23 units, rounds a smaller number to whole units.
      const float x = fabsf(__uint_as_float(raw)), small = min_or_nan(x, magic);
      fails = fails || !((small + magic) - magic == small);
      most = fmaxf(most, x);
    }
    template <class G>
    __device__ bool combine(const G& group, Word* slots, CostRange& found) const {
      const bool stop = fails || !(magic < __builtin_huge_valf() && unit > 0);
      Word word[3] = {__float_as_uint(most), ~__float_as_uint(unit), stop};
      group.all_max(word, slots);
      // Warps may have guessed different units. All units are powers of two, so all costs are
      // multiples of the least unit.
      found = {double(__uint_as_float(word[0])), double(__uint_as_float(~word[1])), false, 0};
      return word[2] == 0 && word[0] < 0x7f800000u;
    }
  };
};

template <class Word>
struct IntegerRange {
  Word word[1] = {0};

  __device__ void begin(Word) {}
  __device__ bool gives_up() const { return false; }
  __device__ void include(Word raw, bool) {
    const bool negative = raw >> (8 * sizeof(Word) - 1);
    word[0] = max(word[0], negative ? Word(0) - raw : raw);
  }
  __device__ CostRange result() const { return {double(word[0]), 1, false, word[0]}; }
  template <class G>
  __device__ bool combine(const G& group, Word* slots, CostRange& found) {
    group.all_max(word, slots);
    found = result();
    return true;
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

  using Range = IntegerRange<Word>;
  using Guess = Range;
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

    __device__ void begin(Raw) {}
    __device__ bool gives_up() const { return false; }
    __device__ void include(Raw raw, bool maximize) {
      constexpr uint64_t kInfinite = uint64_t(0x7ff) << 52;
      const uint64_t magnitude = raw & INT64_MAX;
      if (magnitude >= kInfinite) {
        word[2] |= raw ^ (maximize ? uint64_t(0xfff) << 52 : kInfinite);
        return;
      }
      word[0] = max(word[0], magnitude);
      const double rest = __longlong_as_double(int64_t(magnitude & (magnitude - 1)));
      const double bit = __longlong_as_double(int64_t(magnitude)) - rest;
      word[1] = max(word[1], 0 - uint64_t(__double_as_longlong(bit)));
    }
    __device__ double lowest_bit() const {
      constexpr uint64_t kExponent = uint64_t(0x7ff) << 52;
      uint64_t lowest = 0 - word[1];
      if (lowest & kExponent) lowest &= kExponent;
      return __longlong_as_double(int64_t(lowest));
    }
    __device__ CostRange result() const {
      return {__longlong_as_double(int64_t(word[0])), lowest_bit(), word[2] != 0, 0};
    }
    template <class G>
    __device__ bool combine(const G& group, Word* slots, CostRange& found) {
      group.all_max(word, slots);
      found = result();
      return true;
    }
  };
  using Guess = Range;
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

  using Range = IntegerRange<Word>;
  using Guess = Range;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_COSTS_CUDA_STORED_CUH_
