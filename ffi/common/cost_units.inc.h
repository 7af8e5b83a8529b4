// Conversion of float costs to whole units.
//
// Included inside a namespace: by CUDA kernels, and by the CPU's solvers once per instruction set.
// The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

// Float costs take at most this many bits in units, so that as_integer() is exact.
constexpr int kMostFloatBits = 50;

// The integer nearest to x, for |x| <= 2^51, by operations that compilers vectorise.
JAXMATCH_HOST_DEVICE inline int64_t as_integer(double x) {
  constexpr double kMagic = 0x1.8p52;
  const double sum = x + kMagic;
  int64_t bits, zero;
  memcpy(&bits, &sum, sizeof bits);
  memcpy(&zero, &kMagic, sizeof zero);
  return bits - zero;
}
