// Types of costs, and how the costs of a row are read or computed.
#ifndef JAXMATCH_CUDA_TRANSPORT_COST_TYPES_CUH_
#define JAXMATCH_CUDA_TRANSPORT_COST_TYPES_CUH_

#include "costs/cuda/stored.cuh"
#include "transport/cuda/kernels.h"

namespace jaxmatch::transport {

#if defined(__CUDACC__)
template <class T>
__device__ T load_past_l1(const T* at) {
  return __ldcg(at);
}
#else
template <class T>
T load_past_l1(const T* at) {
  return *at;
}
#endif

// The stored costs of a row from some column on. Reads bypass the L1 cache, which is meant for the
// solver's state.
template <class Type>
struct StoredRow {
  static constexpr bool kComputed = false;
  const typename Type::Raw* at;

  __device__ StoredRow(const TransportProblem& p, int64_t i)
      : StoredRow(static_cast<const typename Type::Raw*>(p.cost) + i * p.m) {}
  __device__ explicit StoredRow(const typename Type::Raw* at) : at(at) {}
  __device__ StoredRow from(int64_t j) const { return StoredRow(at + j); }
  __device__ auto raw(int64_t j) const { return load_past_l1(at + j); }
};
// The stored costs of a row in bfloat16 or float16, from some column on.
struct NarrowRow {
  static constexpr bool kComputed = false;
  const uint16_t* at;
  Dtype dtype;

  __device__ NarrowRow(const TransportProblem& p, int64_t i)
      : NarrowRow(static_cast<const uint16_t*>(p.cost) + i * p.m, p.cost_dtype) {}
  __device__ NarrowRow(const uint16_t* at, Dtype dtype) : at(at), dtype(dtype) {}
  __device__ NarrowRow from(int64_t j) const { return {at + j, dtype}; }
  __device__ auto raw(int64_t j) const { return Floats::load(at, j, dtype); }
};
// Distances, computed on each access. They are bitwise equal to those of
// assignment/cpu/distances.h. The dummies (the last row and the last column) have stored costs.
template <class Type>
struct PointRow {
  using Coordinate = typename Type::Coordinate;
  static constexpr bool kComputed = true;
  const TransportProblem& p;
  int64_t i, first;

  __device__ PointRow(const TransportProblem& p, int64_t i, int64_t first = 0)
      : p(p), i(i), first(first) {}
  __device__ PointRow from(int64_t j) const { return {p, i, first + j}; }
  __device__ auto raw(int64_t j) const { return Type::pack(cost(p, i, first + j)); }
  template <int N>
  __device__ void load_group(typename Type::Raw (&raw)[N]) const {
    double s[N];
    const Points points(p);
    if (i == points.n || first + (N - 1) * kWarpSize >= points.m) {
#pragma unroll
      for (int a = 0; a < N; ++a) s[a] = cost(p, i, first + a * kWarpSize);
    } else {
      points.distances(i, first, s);
    }
#pragma unroll
    for (int a = 0; a < N; ++a) raw[a] = Type::pack(s[a]);
  }

 private:
  __device__ static double load(const void* array, int64_t k) {
    return double(static_cast<const Coordinate*>(array)[k]);
  }
  struct Points {
    const TransportProblem& p;
    int64_t n, m;  // numbers of points

    __device__ explicit Points(const TransportProblem& p)
        : p(p), n(p.n - (p.last_row ? 1 : 0)), m(p.m - (p.last_row ? 1 : 0)) {}
    // Distances from point i of the rows to points j, j + kWarpSize, ... of the columns. Without
    // fused multiply-add, as on the CPU.
    template <int N>
    __device__ void distances(int64_t i, int64_t j, double (&s)[N]) const {
      const auto square = [](double s, double x, double y) {
        const double d = __dsub_rn(x, y);
        return __dadd_rn(s, __dmul_rn(d, d));
      };
      switch (p.metric) {
        case Metric::kL1:
          return sum(i, j, s, [](double s, double x, double y) {
            return __dadd_rn(s, fabs(__dsub_rn(x, y)));
          });
        case Metric::kCosine:
          sum(i, j, s, [](double s, double x, double y) { return __dadd_rn(s, __dmul_rn(x, y)); });
#pragma unroll
          for (int a = 0; a < N; ++a) s[a] = __dsub_rn(1, s[a]);
          return;
        default:
          sum(i, j, s, square);
      }
      if (p.metric != Metric::kEuclidean) return;
#pragma unroll
      for (int a = 0; a < N; ++a) s[a] = __dsqrt_rn(s[a]);
    }
    template <int N, class Add>
    __device__ void sum(int64_t i, int64_t j, double (&s)[N], const Add& add) const {
#pragma unroll
      for (int a = 0; a < N; ++a) s[a] = 0;
      for (int64_t k = 0; k < p.dims; ++k) {
        const double x = load(p.row_points, k * n + i);
#pragma unroll
        for (int a = 0; a < N; ++a) {
          s[a] = add(s[a], x, load(p.col_points, k * m + j + a * kWarpSize));
        }
      }
    }
  };
  // Not inlined, because copies of it in two dozen places made up most of a kernel's code. It is
  // called rarely: scans of many costs use load_group().
  __device__ __noinline__ static double cost(const TransportProblem& p, int64_t i, int64_t j) {
    const Points points(p);
    if (i == points.n) return load(p.last_row, j);
    if (j == points.m) return load(p.last_col, i);
    double s[1];
    points.distances(i, j, s);
    return s[0];
  }
};

// Reads the costs of columns 0, kWarpSize, 2 * kWarpSize, ... of `row`, N in all. All loads are in
// flight together.
template <int N, class Row, class Raw>
__device__ void load_group(const Row& row, Raw (&raw)[N]) {
  if constexpr (Row::kComputed) {
    row.load_group(raw);
  } else {
#pragma unroll
    for (int a = 0; a < N; ++a) raw[a] = row.raw(a * kWarpSize);
  }
}

template <class Type>
struct RowOf {
  using Row = StoredRow<Type>;
};

struct NarrowFloats : Floats {};
template <>
struct RowOf<NarrowFloats> {
  using Row = NarrowRow;
};

struct FloatPoints : Floats {
  using Coordinate = float;
  __device__ static Raw pack(double x) { return __float_as_uint(float(x)); }
};
struct DoublePoints : Doubles {
  using Coordinate = double;
  __device__ static Raw pack(double x) { return Raw(__double_as_longlong(x)); }
};
template <>
struct RowOf<FloatPoints> {
  using Row = PointRow<FloatPoints>;
};
template <>
struct RowOf<DoublePoints> {
  using Row = PointRow<DoublePoints>;
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_COST_TYPES_CUH_
