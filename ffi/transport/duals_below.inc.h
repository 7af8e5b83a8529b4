// Rounds duals down. Lower duals stay feasible, because the constraints u_i + v_j <= C_ij only
// bound them from above.
//
// Included inside a namespace, after compensated_sum.inc.h: by the CUDA kernels, and by the CPU
// solver once per instruction set. The solvers of different instruction sets must not share inline
// functions (see assignment/cpu/problem.h).

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
