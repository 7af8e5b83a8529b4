// Binary exponents of doubles, and sets of exponents.
//
// Included inside a namespace: by CUDA kernels, and by the CPU's solvers once per instruction set.
// The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

// The biased exponent of |x|, or -1 for zero.
JAXMATCH_HOST_DEVICE inline int exponent_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  bits <<= 1;
  return bits == 0 ? -1 : int(bits >> 53);
}

struct Exponents {
  uint64_t word[32] = {};

  JAXMATCH_HOST_DEVICE void add(int e) { word[e >> 6] |= uint64_t(1) << (e & 63); }
  // The least exponent above `e`, or 2048 if there is none.
  JAXMATCH_HOST_DEVICE int next(int e) const {
    for (++e; e < 2048; ++e) {
      const uint64_t rest = word[e >> 6] >> (e & 63);
      if (rest & 1) return e;
      if (rest == 0) e |= 63;
    }
    return 2048;
  }
  // The least exponent, or 2048 if the set is empty.
  JAXMATCH_HOST_DEVICE int least() const { return next(-1); }
  // The greatest exponent, or -1 if the set is empty.
  JAXMATCH_HOST_DEVICE int most() const {
    int e = -1;
    for (int after; (after = next(e)) < 2048;) e = after;
    return e;
  }
};
