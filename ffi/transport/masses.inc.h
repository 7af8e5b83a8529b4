// Tolerances for float masses.
//
// Included inside a namespace: by the CUDA kernels, and by the CPU solver once per instruction set.
// The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

// The most bits of a total mass in units. The unit of float masses is chosen so that their exact
// total has no more bits. Rounding each mass to units may raise the total, but not to 2^61.
constexpr int kTotalBits = 60;

JAXMATCH_HOST_DEVICE inline bool is_whole(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}

// The relative difference between total supply and total demand that rounding may cause. `count` is
// the number of all masses. `coarsest` is the least precise dtype that the masses had: each mass,
// and the total, was rounded to it. For half precision the tolerance does not depend on `count`,
// because softmax, which makes such masses, adds them in a wider dtype.
JAXMATCH_HOST_DEVICE inline double tolerance(Dtype coarsest, int64_t count) {
  if (coarsest == Dtype::kBF16) return 8 * 0x1p-7;
  if (coarsest == Dtype::kF16) return 8 * 0x1p-10;
  const double sums = 2 * double(count) * (coarsest == Dtype::kF32 ? 0x1p-23 : 0x1p-52);
  return sums > 1e-6 ? sums : 1e-6;
}

// The mass that a plan moves from a row, or to a column, may differ from the given mass by this
// fraction of the given mass.
JAXMATCH_HOST_DEVICE inline double spare(Dtype dtype) {
  return dtype == Dtype::kF32 ? 0x1p-26 : 0x1p-42;
}
