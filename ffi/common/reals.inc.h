// Numbers of an array of results, whose dtype is known at run time.
//
// Included inside a namespace: once per instruction set by the CPU's solvers, which must not share
// inline functions (see assignment/cpu/problem.h), and by CUDA kernels.

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
