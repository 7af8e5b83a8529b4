// Reads and writes numbers of arrays whose dtype is known only at run time.
//
// Included inside a namespace: by reals.h, and by the CPU's solvers once per instruction set. The
// solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

JAXMATCH_HOST_DEVICE inline double read_real(const void* array, Dtype dtype, int64_t i) {
  switch (dtype) {
    case Dtype::kF32:
      return static_cast<const float*>(array)[i];
    case Dtype::kF64:
      return static_cast<const double*>(array)[i];
    case Dtype::kS32:
      return static_cast<const int32_t*>(array)[i];
    default:
      return double(static_cast<const int64_t*>(array)[i]);
  }
}

JAXMATCH_HOST_DEVICE inline void write_real(void* array, Dtype dtype, int64_t i, double x) {
  if (dtype == Dtype::kF32) {
    static_cast<float*>(array)[i] = float(x);
  } else {
    static_cast<double*>(array)[i] = x;
  }
}
