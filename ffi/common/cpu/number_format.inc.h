// Properties of the number formats of costs.
//
// Solvers include this file once per instruction set, inside that set's namespace (see
// assignment/cpu/problem.h).

template <class Elem>
struct Format {  // integers
  static constexpr bool kInteger = true;
  static constexpr int kDigits = 0, kLowest = 0;
};
template <>
struct Format<BFloat16> {
  static constexpr bool kInteger = false;
  using Bits = uint16_t;
  static constexpr Bits kInfinityBits = 0x7f80;
  static constexpr int kDigits = 8, kLowest = -133;  // significand bits, smallest denormal 2^-133
};
template <>
struct Format<Float16> {
  static constexpr bool kInteger = false;
  using Bits = uint16_t;
  static constexpr Bits kInfinityBits = 0x7c00;
  static constexpr int kDigits = 11, kLowest = -24;
};
template <>
struct Format<float> {
  static constexpr bool kInteger = false;
  using Bits = uint32_t;
  static constexpr Bits kInfinityBits = 0x7f800000;
  static constexpr int kDigits = 24, kLowest = -149;
};
template <>
struct Format<double> {
  static constexpr bool kInteger = false;
  using Bits = uint64_t;
  static constexpr Bits kInfinityBits = 0x7ff0000000000000;
  static constexpr int kDigits = 53, kLowest = -1074;
};

// Returns `granule` such that every finite cost is a multiple of 2^granule. `least` is the least
// non-zero magnitude of a cost.
template <class Elem>
int granule_of(double least) {
  using F = Format<Elem>;
  if (F::kInteger || !(least < __builtin_inf())) return F::kLowest;
  const int granule = ilogb(least) - (F::kDigits - 1);
  return granule > F::kLowest ? granule : F::kLowest;
}
