// How far masses of floats may be off.
//
// Included inside a namespace: once per instruction set by the CPU's solver, which must not share
// inline functions, and by the CUDA kernels.

// The totals of supplies and of demands are below 2^61.
constexpr int kTotalBits = 60;

JAXMATCH_HOST_DEVICE inline bool is_whole(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}

// By how much, relative to the greater one, the sums of `count` floats may differ that come from
// such a dtype. Each of them was rounded, and so was their sum. Half precision leaves so few digits
// that the number of roundings does not count: softmax adds in a wider dtype.
JAXMATCH_HOST_DEVICE inline double tolerance(Dtype coarsest, int64_t count) {
  if (coarsest == Dtype::kBF16) return 8 * 0x1p-7;
  if (coarsest == Dtype::kF16) return 8 * 0x1p-10;
  const double sums = 2 * double(count) * (coarsest == Dtype::kF32 ? 0x1p-23 : 0x1p-52);
  return sums > 1e-6 ? sums : 1e-6;
}

// By how much, relative to its own mass, what a plan moves of a row or column may be off.
JAXMATCH_HOST_DEVICE inline double spare(Dtype dtype) {
  return dtype == Dtype::kF32 ? 0x1p-26 : 0x1p-42;
}
