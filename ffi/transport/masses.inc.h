// Tolerances for float masses.
//
// Included inside a namespace: by the CUDA kernels, and by the CPU solver once per instruction set
// (those copies must not share inline functions).

// Totals in units have at most this many bits before masses are rounded. Rounded totals are below
// 2^61.
constexpr int kTotalBits = 60;

JAXMATCH_HOST_DEVICE inline bool is_whole(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}

// The sums of `count` floats on both sides may differ by this much, relative to the greater sum.
// `coarsest` is the least precise dtype that the floats had: each float was rounded to it, and so
// was their sum. For half precision the tolerance does not depend on `count`, because softmax adds
// in a wider dtype.
JAXMATCH_HOST_DEVICE inline double tolerance(Dtype coarsest, int64_t count) {
  if (coarsest == Dtype::kBF16) return 8 * 0x1p-7;
  if (coarsest == Dtype::kF16) return 8 * 0x1p-10;
  const double sums = 2 * double(count) * (coarsest == Dtype::kF32 ? 0x1p-23 : 0x1p-52);
  return sums > 1e-6 ? sums : 1e-6;
}

// The mass that a plan moves from a row, or to a column, may be off by this much, relative to the
// given mass.
JAXMATCH_HOST_DEVICE inline double spare(Dtype dtype) {
  return dtype == Dtype::kF32 ? 0x1p-26 : 0x1p-42;
}
