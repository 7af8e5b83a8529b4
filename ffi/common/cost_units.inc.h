// Float costs in whole units.
//
// Included inside a namespace: once per instruction set by the CPU's solvers, which must not share
// inline functions (see assignment/cpu/problem.h), and by CUDA kernels.

// Greater magnitudes of floats in units would not survive as_integer().
constexpr int kMostFloatBits = 50;

// The nearest integer to |x| <= 2^51, in operations that compilers vectorise.
JAXMATCH_HOST_DEVICE inline int64_t as_integer(double x) {
  constexpr double kMagic = 0x1.8p52;
  const double sum = x + kMagic;
  int64_t bits, zero;
  memcpy(&bits, &sum, sizeof bits);
  memcpy(&zero, &kMagic, sizeof zero);
  return bits - zero;
}
