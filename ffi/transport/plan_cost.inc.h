// The cost of a plan with float costs or float masses.
//
// Included inside a namespace, after compensated_sum.inc.h: by the CUDA kernels, and by the CPU
// solver once per instruction set. The solvers of different instruction sets must not share inline
// functions (see assignment/cpu/problem.h).

struct PlanCost {
  FullRangeSum sum;

  // Adds the cost of `mass` units. A mass may have up to 61 bits, but a double holds only 53, so
  // the mass is split into its low 32 bits and the rest. Each product is added together with its
  // rounding error, because large products may cancel.
  JAXMATCH_HOST_DEVICE void add(double cost, int64_t mass) {
    const double low = double(mass & UINT32_MAX), high = double(mass - (mass & UINT32_MAX));
    add_product(cost, high);
    if (low > 0) add_product(cost, low);
  }
  // Adds the cost of a float mass, which is not in units.
  JAXMATCH_HOST_DEVICE void add(double cost, double mass) { add_product(cost, mass); }
  // The sum times `unit`, a power of two. It is infinite only if the cost exceeds the range of
  // doubles.
  JAXMATCH_HOST_DEVICE double value(double unit) const {
    const double large = sum.large.value(), small = sum.small.value();
    if (large == 0) return ldexp(small, ilogb(unit));
    return ldexp(large + small * 0x1p-100, ilogb(unit) + 100);
  }

 private:
  JAXMATCH_HOST_DEVICE void add_product(double cost, double mass) {
    const bool is_large = fabs(cost) >= 0x1p900;
    if (is_large) cost *= 0x1p-100;
    const double product = cost * mass, error = fma(cost, mass, -product);
    if (is_large) {
      sum.large.add(product);
      sum.large.add(error);
    } else {
      sum.add(product);
      sum.add(error);
    }
  }
};
