// Roundings of duals that keep them feasible.
//
// Included inside a namespace, after the compensated sums: once per instruction set by the CPU's
// solver, which must not share inline functions, and by the CUDA kernels.

// a - b, or the next lower double if that is rounded up.
JAXMATCH_HOST_DEVICE inline double difference_below(double a, double b) {
  const double x = a - b;
  return addition_error(a, -b, x) < 0 ? nextafter(x, -__builtin_huge_val()) : x;
}

// The greatest number of the results' dtype that is not above x.
JAXMATCH_HOST_DEVICE inline double dual_below(const TransportProblem& p, double x) {
  if (p.result_dtype != Dtype::kF32) return x;
  const float near = float(x);
  return double(near) > x ? nextafterf(near, -__builtin_huge_valf()) : near;
}
