// Binary exponents of doubles, and sets of them.
//
// Included inside a namespace: once per instruction set by the CPU's solvers, which must not share
// inline functions (see assignment/cpu/problem.h), and by CUDA kernels.

// The biased exponent of a magnitude; -1 for zero.
JAXMATCH_HOST_DEVICE inline int exponent_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits <<= 1;
  return bits == 0 ? -1 : int(bits >> 53);
}

// A set of exponents.
struct Exponents {
  uint64_t word[32] = {};

  JAXMATCH_HOST_DEVICE void add(int e) { word[e >> 6] |= uint64_t(1) << (e & 63); }
  // The least one above `e`, or 2048.
  JAXMATCH_HOST_DEVICE int next(int e) const {
    for (++e; e < 2048; ++e) {
      const uint64_t rest = word[e >> 6] >> (e & 63);
      if (rest & 1) return e;
      if (rest == 0) e |= 63;
    }
    return 2048;
  }
  // The least, or 2048.
  JAXMATCH_HOST_DEVICE int least() const { return next(-1); }
  // The greatest, or -1.
  JAXMATCH_HOST_DEVICE int most() const {
    int e = -1;
    for (int after; (after = next(e)) < 2048;) e = after;
    return e;
  }
};
