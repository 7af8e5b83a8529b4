// Vectors of int64.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

#if defined(JAXMATCH_AVX512)
constexpr int kLanes = 8;
#elif defined(JAXMATCH_AVX2)
constexpr int kLanes = 4;
#else
constexpr int kLanes = 2;
#endif

using Vector = int64_t __attribute__((vector_size(8 * kLanes)));

inline Vector load(const int64_t* at) {
  Vector x;
  memcpy(&x, at, sizeof x);
  return x;
}
inline void store(int64_t* at, Vector x) { memcpy(at, &x, sizeof x); }
inline Vector splat(int64_t x) { return Vector{} + x; }
inline Vector lesser(Vector a, Vector b) { return a < b ? a : b; }
inline Vector lane_numbers() {
  Vector x{};
  for (int k = 0; k < kLanes; ++k) x[k] = k;
  return x;
}
inline int64_t least_of(Vector x) {
  int64_t least = x[0];
  for (int k = 1; k < kLanes; ++k) least = x[k] < least ? x[k] : least;
  return least;
}

// The least of some numbers, and the first place where it was found.
struct Least {
  int64_t value, at;
};

// The least number over all lanes and its place, where each lane has a number and a place. Among
// ties, the first place.
inline Least first_least(Vector value, Vector at) {
  Least least{value[0], at[0]};
  for (int k = 1; k < kLanes; ++k) {
    const bool better = value[k] < least.value || (value[k] == least.value && at[k] < least.at);
    least.value = better ? value[k] : least.value;
    least.at = better ? at[k] : least.at;
  }
  return least;
}

// The least of `size` numbers and its first place; `size` is a multiple of kLanes. f(k) returns the
// kLanes numbers that start at number k.
template <class F>
Least first_least_of(int64_t size, const F& f) {
  Vector value = f(0), at = lane_numbers(), here = at;
  for (int64_t k = kLanes; k < size; k += kLanes) {
    here += kLanes;
    const Vector x = f(k);
    const auto better = x < value;
    value = better ? x : value;
    at = better ? here : at;
  }
  return first_least(value, at);
}
inline Least first_least(const int64_t* x, int64_t size) {
  return first_least_of(size, [&](int64_t k) { return load(x + k); });
}
inline Least first_least_sum(const int64_t* x, const int64_t* y, int64_t size) {
  return first_least_of(size, [&](int64_t k) { return load(x + k) + load(y + k); });
}
