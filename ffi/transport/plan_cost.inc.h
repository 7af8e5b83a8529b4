// The cost of a plan of floats.
//
// Included inside a namespace, after the compensated sums: once per instruction set by the CPU's
// solver, which must not share inline functions, and by the CUDA kernels.

struct PlanCost {
  FullRangeSum sum;

  // `mass` is in units, of which there are less than 2^64.
  JAXMATCH_HOST_DEVICE void add(double cost, double mass) {
    if (fabs(cost) < 0x1p900) {
      sum.add(cost * mass);
    } else {
      sum.large.add(cost * 0x1p-100 * mass);
    }
  }
  // For a unit that is a power of two. Infinite only if the cost itself is out of range.
  JAXMATCH_HOST_DEVICE double value(double unit) const {
    const double large = sum.large.value(), small = sum.small.value();
    if (large == 0) return ldexp(small, ilogb(unit));
    return ldexp(large + small * 0x1p-100, ilogb(unit) + 100);
  }
};
