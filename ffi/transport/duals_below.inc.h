// Rounds duals down, which keeps them feasible.
//
// Included inside a namespace, after the compensated sums: by the CUDA kernels, and by the CPU
// solver once per instruction set (those copies must not share inline functions).

// a - b, rounded towards minus infinity.
JAXMATCH_HOST_DEVICE inline double difference_below(double a, double b) {
  const double x = a - b;
  return addition_error(a, -b, x) < 0 ? nextafter(x, -__builtin_huge_val()) : x;
}

// x, rounded down to the dtype of the results.
JAXMATCH_HOST_DEVICE inline double dual_below(const TransportProblem& p, double x) {
  if (p.result_dtype != Dtype::kF32) return x;
  const float near = float(x);
  return double(near) > x ? nextafterf(near, -__builtin_huge_valf()) : near;
}
