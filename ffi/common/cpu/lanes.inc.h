// The vector operations that the solvers use, for one instruction set.
//
// Each `Lanes` type computes in its number type Acc. Acc is double, or __int128 in a single lane
// for 64-bit integers whose sums a double would round. Loads convert costs exactly. A load of fewer
// than kWidth costs fills the other lanes with zeros.
//
// Solvers include this file once per instruction set, inside that set's namespace (see
// assignment/cpu/problem.h).

inline double widen(BFloat16 x) { return single(x); }
inline double widen(Float16 x) { return single(x); }
inline double widen(float x) { return x; }
inline double widen(double x) { return x; }
inline int64_t widen(int32_t x) { return x; }
inline int64_t widen(int64_t x) { return x; }

#if defined(JAXMATCH_AVX512) || defined(JAXMATCH_AVX2)
inline double least_of_four(__m256d a) {
  const __m128d two = _mm_min_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_min_sd(two, _mm_unpackhi_pd(two, two)));
}
// The two least of eight numbers, which are given as pairs with first[k] <= second[k].
inline void least_two_of_four(__m256d first, __m256d second, double* least, double* next) {
  const __m128d f0 = _mm256_castpd256_pd128(first), f1 = _mm256_extractf128_pd(first, 1);
  const __m128d s0 = _mm256_castpd256_pd128(second), s1 = _mm256_extractf128_pd(second, 1);
  const __m128d f = _mm_min_pd(f0, f1), s = _mm_min_pd(_mm_min_pd(s0, s1), _mm_max_pd(f0, f1));
  const __m128d f_high = _mm_unpackhi_pd(f, f), s_high = _mm_unpackhi_pd(s, s);
  *least = _mm_cvtsd_f64(_mm_min_sd(f, f_high));
  *next = _mm_cvtsd_f64(_mm_min_sd(_mm_min_sd(s, s_high), _mm_max_sd(f, f_high)));
}
#endif

// A single lane, for any processor and any Acc with + - * <.
template <class AccType>
struct ScalarLanes {
  using Acc = AccType;
  using Reg = AccType;
  using Mask = bool;
  static constexpr int kWidth = 1;
  static Reg splat(Acc x) { return x; }
  static Reg load(const Acc* p) { return *p; }
  static void store(Acc* p, Reg x) { *p = x; }
  // Stores x as a cost, rounded to the type of costs.
  template <class Elem>
  static void store_cost(Elem* p, Reg x) {
    *p = Elem(x);
  }
  template <class Elem>
  static Reg load_cost(const Elem* p) {
    return Acc(widen(*p));
  }
  template <class Elem>
  static Reg load_cost(const Elem* p, int count) {
    return count ? Acc(widen(*p)) : Acc(0);
  }
  static Reg add(Reg a, Reg b) { return a + b; }
  static Reg sub(Reg a, Reg b) { return a - b; }
  static Reg mul(Reg a, Reg b) { return a * b; }
  static Reg sqrt(Reg a) { return __builtin_sqrt(a); }
  static Reg scale_sub(Reg c, Reg scale, Reg v) { return c * scale - v; }
  static Reg min(Reg a, Reg b) { return b < a ? b : a; }
  static Reg max(Reg a, Reg b) { return a < b ? b : a; }
  static Reg abs(Reg a) { return a < 0 ? -a : a; }
  static Mask less(Reg a, Reg b) { return a < b; }
  static Mask equal(Reg a, Reg b) { return a == b; }
  static Reg select(Mask mask, Reg yes, Reg no) { return mask ? yes : no; }
  static unsigned bits(Mask mask) { return mask; }
  static Reg lane_numbers() { return 0; }
  static Acc least(Reg a) { return a; }
  static void least_two(Reg first, Reg second, Acc* least, Acc* next) {
    *least = first;
    *next = second;
  }
};

#if defined(JAXMATCH_AVX512)

struct Avx512Lanes {
  using Acc = double;
  using Reg = __m512d;
  using Mask = __mmask8;
  static constexpr int kWidth = 8;
  static __mmask8 first(int count) { return __mmask8((1u << count) - 1); }
  static Reg splat(double x) { return _mm512_set1_pd(x); }
  static Reg load(const double* p) { return _mm512_loadu_pd(p); }
  static void store(double* p, Reg x) { _mm512_storeu_pd(p, x); }
  static void store_cost(double* p, Reg x) { store(p, x); }
  static void store_cost(float* p, Reg x) { _mm256_storeu_ps(p, _mm512_cvtpd_ps(x)); }
  static Reg load_cost(const double* p) { return load(p); }
  static Reg load_cost(const float* p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
  static Reg load_cost(const int32_t* p) {
    return _mm512_cvtepi32_pd(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Reg load_cost(const int64_t* p) { return _mm512_cvtepi64_pd(_mm512_loadu_si512(p)); }
  static Reg load_cost(const Float16* p) { return from_f16(_mm_loadu_epi16(p)); }
  static Reg load_cost(const BFloat16* p) { return from_bf16(_mm_loadu_epi16(p)); }
  static Reg load_cost(const double* p, int n) { return _mm512_maskz_loadu_pd(first(n), p); }
  static Reg load_cost(const float* p, int n) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(first(n), p));
  }
  static Reg load_cost(const int32_t* p, int n) {
    return _mm512_cvtepi32_pd(_mm256_maskz_loadu_epi32(first(n), p));
  }
  static Reg load_cost(const int64_t* p, int n) {
    return _mm512_cvtepi64_pd(_mm512_maskz_loadu_epi64(first(n), p));
  }
  static Reg load_cost(const Float16* p, int n) {
    return from_f16(_mm_maskz_loadu_epi16(first(n), p));
  }
  static Reg load_cost(const BFloat16* p, int n) {
    return from_bf16(_mm_maskz_loadu_epi16(first(n), p));
  }
  static Reg from_f16(__m128i x) { return _mm512_cvtps_pd(_mm256_cvtph_ps(x)); }
  static Reg from_bf16(__m128i x) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16)));
  }
  static Reg add(Reg a, Reg b) { return _mm512_add_pd(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_pd(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_pd(a, b); }
  static Reg sqrt(Reg a) { return _mm512_sqrt_pd(a); }
  static Reg scale_sub(Reg c, Reg scale, Reg v) { return _mm512_fmsub_pd(c, scale, v); }
  static Reg min(Reg a, Reg b) { return _mm512_min_pd(a, b); }
  static Reg max(Reg a, Reg b) { return _mm512_max_pd(a, b); }
  static Reg abs(Reg a) { return _mm512_abs_pd(a); }
  static Mask less(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
  static Mask equal(Reg a, Reg b) { return _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ); }
  static Reg select(Mask mask, Reg yes, Reg no) { return _mm512_mask_blend_pd(mask, no, yes); }
  static unsigned bits(Mask mask) { return mask; }
  static Reg lane_numbers() { return _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7); }
  static __m256d low(Reg a) { return _mm512_castpd512_pd256(a); }
  static __m256d high(Reg a) { return _mm512_extractf64x4_pd(a, 1); }
  static double least(Reg a) { return least_of_four(_mm256_min_pd(low(a), high(a))); }
  static void least_two(Reg first, Reg second, double* least, double* next) {
    const __m256d f0 = low(first), f1 = high(first);
    const __m256d s = _mm256_min_pd(low(second), high(second));
    least_two_of_four(_mm256_min_pd(f0, f1), _mm256_min_pd(s, _mm256_max_pd(f0, f1)), least, next);
  }
};
using DoubleLanes = Avx512Lanes;

#elif defined(JAXMATCH_AVX2)

struct Avx2Lanes {
  using Acc = double;
  using Reg = __m256d;
  using Mask = __m256d;
  static constexpr int kWidth = 4;
  static __m256i first64(int count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
  }
  static __m128i first32(int count) {
    return _mm_cmpgt_epi32(_mm_set1_epi32(count), _mm_setr_epi32(0, 1, 2, 3));
  }
  static __m128i first16(const void* p, int count) {
    uint64_t four = 0;
    for (int i = 0; i < count; ++i) four |= uint64_t(static_cast<const uint16_t*>(p)[i]) << 16 * i;
    return _mm_cvtsi64_si128(int64_t(four));
  }
  static __m128i load64bits(const void* p) {
    return _mm_loadl_epi64(static_cast<const __m128i*>(p));
  }
  static Reg splat(double x) { return _mm256_set1_pd(x); }
  static Reg load(const double* p) { return _mm256_loadu_pd(p); }
  static void store(double* p, Reg x) { _mm256_storeu_pd(p, x); }
  static void store_cost(double* p, Reg x) { store(p, x); }
  static void store_cost(float* p, Reg x) { _mm_storeu_ps(p, _mm256_cvtpd_ps(x)); }
  static Reg load_cost(const double* p) { return load(p); }
  static Reg load_cost(const float* p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
  static Reg load_cost(const int32_t* p) {
    return _mm256_cvtepi32_pd(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Reg load_cost(const int64_t* p) {
    return from_int64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static Reg load_cost(const Float16* p) { return from_f16(load64bits(p)); }
  static Reg load_cost(const BFloat16* p) { return from_bf16(load64bits(p)); }
  static Reg load_cost(const double* p, int n) { return _mm256_maskload_pd(p, first64(n)); }
  static Reg load_cost(const float* p, int n) {
    return _mm256_cvtps_pd(_mm_maskload_ps(p, first32(n)));
  }
  static Reg load_cost(const int32_t* p, int n) {
    return _mm256_cvtepi32_pd(_mm_maskload_epi32(p, first32(n)));
  }
  static Reg load_cost(const int64_t* p, int n) {
    return from_int64(_mm256_maskload_epi64(reinterpret_cast<const long long*>(p), first64(n)));
  }
  static Reg load_cost(const Float16* p, int n) { return from_f16(first16(p, n)); }
  static Reg load_cost(const BFloat16* p, int n) { return from_bf16(first16(p, n)); }
  static Reg from_f16(__m128i x) { return _mm256_cvtps_pd(_mm_cvtph_ps(x)); }
  static Reg from_bf16(__m128i x) {
    return _mm256_cvtps_pd(_mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(x), 16)));
  }
  // Rounded to nearest, as a conversion of one number is. The halves of x become the low bits of
  // 2^84 + 2^63 and of 2^52; the first difference is exact.
  static Reg from_int64(__m256i x) {
    const __m256i of_high = _mm256_set1_epi64x(0x4530000080000000);
    const __m256i of_low = _mm256_set1_epi64x(0x4330000000000000);
    const __m256d of_both = _mm256_set1_pd(0x1p84 + 0x1p63 + 0x1p52);
    const __m256i high = _mm256_xor_si256(_mm256_srli_epi64(x, 32), of_high);
    const __m256i low = _mm256_blend_epi32(of_low, x, 0x55);
    return _mm256_add_pd(_mm256_sub_pd(_mm256_castsi256_pd(high), of_both),
                         _mm256_castsi256_pd(low));
  }
  static Reg add(Reg a, Reg b) { return _mm256_add_pd(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_pd(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_pd(a, b); }
  static Reg sqrt(Reg a) { return _mm256_sqrt_pd(a); }
  static Reg scale_sub(Reg c, Reg scale, Reg v) { return _mm256_fmsub_pd(c, scale, v); }
  static Reg min(Reg a, Reg b) { return _mm256_min_pd(a, b); }
  static Reg max(Reg a, Reg b) { return _mm256_max_pd(a, b); }
  static Reg abs(Reg a) { return _mm256_andnot_pd(_mm256_set1_pd(-0.0), a); }
  static Mask less(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
  static Mask equal(Reg a, Reg b) { return _mm256_cmp_pd(a, b, _CMP_EQ_OQ); }
  static Reg select(Mask mask, Reg yes, Reg no) { return _mm256_blendv_pd(no, yes, mask); }
  static unsigned bits(Mask mask) { return unsigned(_mm256_movemask_pd(mask)); }
  static Reg lane_numbers() { return _mm256_setr_pd(0, 1, 2, 3); }
  static double least(Reg a) { return least_of_four(a); }
  static void least_two(Reg first, Reg second, double* least, double* next) {
    least_two_of_four(first, second, least, next);
  }
};
using DoubleLanes = Avx2Lanes;

#else

using DoubleLanes = ScalarLanes<double>;

#endif

using WideLanes = ScalarLanes<__int128>;

// A sentinel for "no value", greater than any sum of costs.
template <class Acc>
constexpr Acc kInfinity = Acc(__builtin_inf());
template <>
constexpr __int128 kInfinity<__int128> = __int128(1) << 120;

template <class Lanes>
constexpr int64_t padded(int64_t cols) {
  return (cols + Lanes::kWidth - 1) / Lanes::kWidth * Lanes::kWidth;
}

// Calls body(j, costs) for every vector of costs in the row, whose first column is j. In the last
// vector, lanes beyond the row hold zeros.
template <class Lanes, class Elem, class Body>
inline __attribute__((always_inline)) void for_each_vector(const Elem* row, int64_t cols,
                                                           const Body& body) {
  int64_t j = 0;
  for (; j + Lanes::kWidth <= cols; j += Lanes::kWidth) body(j, Lanes::load_cost(row + j));
  if (j < cols) body(j, Lanes::load_cost(row + j, int(cols - j)));
}

// Calls body(k) for every set bit, lowest first.
template <class Body>
inline __attribute__((always_inline)) void for_each_bit(unsigned bits, const Body& body) {
  for (; bits; bits &= bits - 1) body(__builtin_ctz(bits));
}
