// The costs of one large problem as integers: fixed-point multiples of a common unit.
//
// Integer costs stay unchanged. Floating-point costs become multiples of a power of two. The
// conversion is exact if the set bits of all costs span at most 50 binary places. Otherwise low
// bits are rounded (the reported gap covers the error), and outliers are clamped to the greatest
// representable value. Clamping only lowers costs, so an optimum that uses no clamped cost is
// optimal for the unclamped costs, too. If the optimum uses a clamped cost, the solve restarts with
// a coarser unit. Except for the bids of an auction, all decisions use exact integers.
#ifndef JAXMATCH_LARGE_QUANTIZED_COSTS_H_
#define JAXMATCH_LARGE_QUANTIZED_COSTS_H_

#include <cmath>
#include <cstring>

#include "assignment/large/device_api.h"
#include "common/float16.h"

namespace jaxmatch::assignment::large {

constexpr int kVectorColumns = 32;  // neighbouring columns that a thread loads together
constexpr int kQuantBits = 50;
constexpr double kMostKey = 0x1p50;

#if defined(__CUDACC__)
__device__ inline uint64_t bits_of(double x) { return uint64_t(__double_as_longlong(x)); }
__device__ inline double real_of(uint64_t bits) { return __longlong_as_double((long long)bits); }
__device__ inline int trailing_zeros(uint64_t x) { return __ffsll((long long)x) - 1; }
#else
inline uint64_t bits_of(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}
inline double real_of(uint64_t bits) {
  double x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
inline int trailing_zeros(uint64_t x) { return __builtin_ctzll(x); }
#endif

JAXMATCH_DEVICE inline double infinity() { return real_of(uint64_t{0x7ff} << 52); }

// Converts a cost to float.
JAXMATCH_DEVICE inline float single(float x) { return x; }
JAXMATCH_DEVICE inline double single(double x) { return x; }  // doubles stay doubles

JAXMATCH_DEVICE inline double widen(int32_t x) { return double(x); }
JAXMATCH_DEVICE inline double widen(float x) { return double(x); }
JAXMATCH_DEVICE inline double widen(double x) { return x; }
JAXMATCH_DEVICE inline double widen(BFloat16 x) { return double(single(x)); }
JAXMATCH_DEVICE inline double widen(Float16 x) { return double(single(x)); }

JAXMATCH_DEVICE inline bool is_finite(int32_t) { return true; }
template <class T>
JAXMATCH_DEVICE inline bool is_finite(T x) {
  return fabs(single(x)) < __builtin_huge_valf();
}

// ordered() maps costs so that the least result is the best cost; to maximise, it reverses their
// order. real_of_ordered() maps back to doubles, negated to maximise.
JAXMATCH_DEVICE inline int32_t ordered(int32_t x, bool maximize) { return maximize ? ~x : x; }
template <class T>
JAXMATCH_DEVICE inline auto ordered(T x, bool maximize) {
  return maximize ? -single(x) : single(x);
}
template <class Ordered>
JAXMATCH_DEVICE inline Ordered worst() {
  return Ordered(infinity());
}
template <>
JAXMATCH_DEVICE inline int32_t worst<int32_t>() {
  return INT32_MAX;
}
JAXMATCH_DEVICE inline double real_of_ordered(int32_t x, bool maximize) {
  return double(x) + (maximize ? 1 : 0);
}
template <class T>
JAXMATCH_DEVICE inline double real_of_ordered(T x, bool) {
  return double(x);
}

template <class T>
struct Integral {
  static constexpr bool value = false;
};
template <>
struct Integral<int32_t> {
  static constexpr bool value = true;
};

// Range of the costs. Ranges are merged by taking the maximum of each member. The members are bits
// of a double, or of a float if all costs fit a float.
template <class Bits, class Real>
struct RangeOf {
  Bits most = 0;     // the greatest magnitude
  Bits lowest = 0;   // the least value of any cost's lowest set bit, as negated bits; 0: none
  Bits invalid = 0;  // nonzero: some cost is NaN, or an infinity of the wrong sign

  JAXMATCH_DEVICE static Real as_real(Bits bits) {
    Real x;
    memcpy(&x, &bits, sizeof x);
    return x;
  }
  JAXMATCH_DEVICE static Bits as_bits(Real x) {
    Bits bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
  }
  JAXMATCH_DEVICE void include(Real x, bool maximize) {
    const Bits infinite = as_bits(Real(__builtin_huge_val())), sign = ~(~Bits{0} >> 1);
    const Bits bits = as_bits(x), magnitude = bits & ~sign;
    const bool finite = magnitude < infinite;
    // `magnitude & (magnitude - 1)` is |x| without its lowest set bit. The difference of the two
    // numbers is exactly the value of that bit. For a power of two, whose mantissa has no set bit,
    // the expression clears a bit of the exponent instead, and the difference is at least half of
    // x.
    const Bits low = as_bits(as_real(magnitude) - as_real(magnitude & (magnitude - 1)));
    if (finite) most = greater(most, magnitude);
    if (finite) lowest = greater(lowest, Bits(0 - low));
    if (!finite) invalid |= bits ^ (infinite | (maximize ? sign : Bits{0}));
  }
};

template <class T>
struct RangeFor {
  using Type = RangeOf<uint32_t, float>;
};
template <>
struct RangeFor<double> {
  using Type = RangeOf<uint64_t, double>;
};

// The range of all costs, merged over threads.
struct QuantRange {
  int64_t most = 0;            // bits of the greatest magnitude, as a double
  int64_t lowest = INT64_MAX;  // bits of the smallest lowest set bit; may be up to halved
  int32_t invalid = 0;         // -1: some cost is invalid

  template <class Bits, class Real>
  JAXMATCH_DEVICE static QuantRange of(const RangeOf<Bits, Real>& r) {
    using Range = RangeOf<Bits, Real>;
    QuantRange g;
    g.most = int64_t(bits_of(double(Range::as_real(r.most))));
    if (r.lowest) g.lowest = int64_t(bits_of(double(Range::as_real(Bits(0 - r.lowest)))));
    g.invalid = r.invalid ? -1 : 0;
    return g;
  }
};

// The element type of the costs. Costs are numbers of type T in memory, unless point_costs.h
// specialises this.
template <class T>
struct ElementOf {
  using Type = T;
  static constexpr bool is_computed = false;
};

// Converts costs to integers.
template <class Element>
struct Quantizer {
  double factor = 1;  // a power of two, negative to maximise
  double boost = 1;   // another power of two if doubles are tiny; else 1

  JAXMATCH_DEVICE static double whole(double x) {
    if (Integral<Element>::value) return x;
    return (lesser(x, kMostKey) + 0x1.8p52) - 0x1.8p52;
  }
  // The quantised cost: an integer, at most kMostKey; +inf if forbidden.
  JAXMATCH_DEVICE double key_of(Element cost) const { return key_of(cost, widen(cost)); }
  JAXMATCH_DEVICE double key_of_real(double real) const { return key_of(real, real); }
  // The cost in units, neither rounded nor clamped.
  JAXMATCH_DEVICE double real_key_of(Element cost) const {
    const double x = widen(cost) * factor;
    return sizeof(Element) == sizeof(double) ? x * boost : x;
  }

 private:
  template <class Cost>
  JAXMATCH_DEVICE double key_of(Cost cost, double real) const {
    double x = real * factor;
    if (sizeof(Element) == sizeof(double)) x *= boost;
    if (Integral<Element>::value) return x;
    // A finite cost that overflows to +inf in these units is clamped, not forbidden.
    return is_finite(cost) ? whole(x) : infinity();
  }
};

// Quantised costs, read in place. Each side has a stride, so that the columns of the matrix may be
// the canonical rows without a transposed copy.
template <class T>
struct QuantizedCosts : Quantizer<T> {
  const T* at = nullptr;
  int64_t row_stride = 0, col_stride = 1;

  QuantizedCosts() = default;
  QuantizedCosts(const void* costs, int64_t cols)
      : at(static_cast<const T*>(costs)), row_stride(cols) {}

  JAXMATCH_DEVICE T raw(int64_t i, int64_t j) const { return at[i * row_stride + j * col_stride]; }
  // Loads the costs of several rows and columns.
  template <int kRows, int kCols, class ColumnOf>
  JAXMATCH_DEVICE void load(const int64_t (&i)[kRows], const ColumnOf& column_of,
                            T (&cost)[kRows][kCols]) const {
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const T* const row = at + i[r] * row_stride;
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) cost[r][a] = row[column_of(a) * col_stride];
    }
  }
  // Loads the exact costs. The specialisation for points only estimates them.
  JAXMATCH_INLINE void estimate_row(int64_t i, int64_t first, int count, T* cost) const {
    load_row(i, first, count, cost);
  }
  // Loads the costs of neighbouring columns.
  JAXMATCH_INLINE void load_row(int64_t i, int64_t first, int count, T* cost) const {
    const T* const from = at + i * row_stride + first * col_stride;
    if (col_stride == 1) {
      for (int a = 0; a < count; ++a) cost[a] = from[a];
    } else {
      for (int a = 0; a < count; ++a) cost[a] = from[a * col_stride];
    }
  }
  // True if four neighbouring costs can be loaded at once, starting at a column that is a multiple
  // of four.
  JAXMATCH_DEVICE bool has_packs() const {
    return col_stride == 1 && row_stride % 4 == 0 && reinterpret_cast<uintptr_t>(at) % 16 == 0;
  }
  JAXMATCH_DEVICE void load_pack(int64_t i, int64_t j, T (&cost)[4]) const {
    struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Pack {
      T x[4];
    };
    const Pack pack = *reinterpret_cast<const Pack*>(at + i * row_stride + j);
    JAXMATCH_UNROLL
    for (int k = 0; k < 4; ++k) cost[k] = pack.x[k];
  }
  JAXMATCH_DEVICE double real(int64_t i, int64_t j) const { return widen(raw(i, j)); }
  JAXMATCH_DEVICE void flip() {
    const int64_t stride = row_stride;
    row_stride = col_stride;
    col_stride = stride;
  }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_QUANTIZED_COSTS_H_
