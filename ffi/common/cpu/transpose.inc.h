// Transposed copies of costs, in square tiles that fit the registers.
//
// Solvers include this file once per instruction set, inside that set's namespace (see
// assignment/cpu/problem.h).

// A square tile of numbers of kBytes bytes each.
template <int kBytes>
struct Tile {
  static constexpr int kSide = 4;
  template <class Elem>
  static void transpose(const Elem* from, int64_t from_stride, Elem* to, int64_t to_stride) {
    for (int i = 0; i < kSide; ++i) {
      for (int j = 0; j < kSide; ++j) to[i * to_stride + j] = from[j * from_stride + i];
    }
  }
};

#if defined(JAXMATCH_AVX2) || defined(JAXMATCH_AVX512)
template <>
struct Tile<8> {
  static constexpr int kSide = 4;
  template <class Elem>
  static void transpose(const Elem* from, int64_t from_stride, Elem* to, int64_t to_stride) {
    const auto load = [&](int j) {
      return _mm256_loadu_pd(reinterpret_cast<const double*>(from + j * from_stride));
    };
    const auto store = [&](int i, __m256d x) {
      _mm256_storeu_pd(reinterpret_cast<double*>(to + i * to_stride), x);
    };
    const __m256d a = load(0), b = load(1), c = load(2), d = load(3);
    const __m256d even = _mm256_unpacklo_pd(a, b), odd = _mm256_unpackhi_pd(a, b);
    const __m256d even2 = _mm256_unpacklo_pd(c, d), odd2 = _mm256_unpackhi_pd(c, d);
    store(0, _mm256_permute2f128_pd(even, even2, 0x20));
    store(1, _mm256_permute2f128_pd(odd, odd2, 0x20));
    store(2, _mm256_permute2f128_pd(even, even2, 0x31));
    store(3, _mm256_permute2f128_pd(odd, odd2, 0x31));
  }
};

template <>
struct Tile<4> {
  static constexpr int kSide = 8;
  template <class Elem>
  static void transpose(const Elem* from, int64_t from_stride, Elem* to, int64_t to_stride) {
    __m256 pair[8], quad[8];
    for (int j = 0; j < 8; j += 2) {
      const __m256 a = _mm256_loadu_ps(reinterpret_cast<const float*>(from + j * from_stride));
      const __m256 b =
          _mm256_loadu_ps(reinterpret_cast<const float*>(from + (j + 1) * from_stride));
      pair[j] = _mm256_unpacklo_ps(a, b);
      pair[j + 1] = _mm256_unpackhi_ps(a, b);
    }
    for (int half = 0; half < 8; half += 4) {
      quad[half] = _mm256_shuffle_ps(pair[half], pair[half + 2], 0x44);
      quad[half + 1] = _mm256_shuffle_ps(pair[half], pair[half + 2], 0xee);
      quad[half + 2] = _mm256_shuffle_ps(pair[half + 1], pair[half + 3], 0x44);
      quad[half + 3] = _mm256_shuffle_ps(pair[half + 1], pair[half + 3], 0xee);
    }
    for (int i = 0; i < 4; ++i) {
      float* const low = reinterpret_cast<float*>(to + i * to_stride);
      float* const high = reinterpret_cast<float*>(to + (i + 4) * to_stride);
      _mm256_storeu_ps(low, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x20));
      _mm256_storeu_ps(high, _mm256_permute2f128_ps(quad[i], quad[i + 4], 0x31));
    }
  }
};
#endif

// to[i, j] = from[j, i] for `rows` rows i and `cols` columns j of `to`.
template <class Elem>
void transpose(const Elem* from, int64_t from_stride, int64_t rows, int64_t cols, Elem* to,
               int64_t to_stride) {
  using Square = Tile<sizeof(Elem)>;
  constexpr int kSide = Square::kSide;
  for (int64_t j = 0; j < cols; j += kSide) {
    const bool whole = j + kSide <= cols;
    int64_t i = 0;
    for (; whole && i + kSide <= rows; i += kSide) {
      Square::transpose(from + j * from_stride + i, from_stride, to + i * to_stride + j, to_stride);
    }
    const int64_t end = whole ? j + kSide : cols;
    for (; i < rows; ++i) {
      for (int64_t k = j; k < end; ++k) to[i * to_stride + k] = from[k * from_stride + i];
    }
  }
}
