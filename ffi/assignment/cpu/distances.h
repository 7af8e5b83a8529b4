// Distances from one point to many, for costs that are computed on demand.
//
// Results are bitwise equal to those of assignment/large/point_costs.h. Terms are summed in double,
// in the order of the coordinates and without contraction (fused multiply-add). The result is
// rounded to the dtype of the coordinates.
//
// Included once per instruction set, inside that set's namespace, by the solvers that are compiled
// for each set (see assignment/cpu/problem.h). `Metric` must be visible in the namespace.

// Calls f(term, end), where the distance of points x and y is end(sum over k of term(x_k, y_k)).
template <class L, class F>
inline __attribute__((always_inline)) void with_metric(Metric metric, const F& f) {
  using Reg = typename L::Reg;
  const auto square = [](Reg x, Reg y) { return L::mul(L::sub(x, y), L::sub(x, y)); };
  const auto apart = [](Reg x, Reg y) { return L::abs(L::sub(x, y)); };
  const auto product = [](Reg x, Reg y) { return L::mul(x, y); };
  const auto same = [](Reg x) { return x; };
  const auto root = [](Reg x) { return L::sqrt(x); };
  const auto rest = [](Reg x) { return L::sub(L::splat(1), x); };
  switch (metric) {
    case Metric::kSqeuclidean:
      return f(square, same);
    case Metric::kEuclidean:
      return f(square, root);
    case Metric::kL1:
      return f(apart, same);
    case Metric::kCosine:
      return f(product, rest);
  }
}

// Computes the distances from point x to `count` consecutive points of an array [dims, stride].
template <class L, int kVectors, class Elem>
inline __attribute__((always_inline)) void compute_distances(Metric metric, const double* x,
                                                             int64_t dims, const double* points,
                                                             int64_t stride, int64_t count,
                                                             Elem* out) {
  with_metric<L>(metric, [&](auto term, auto end) {
    for (int64_t j = 0; j < count; j += kVectors * L::kWidth) {
      typename L::Reg sum[kVectors];
      for (auto& s : sum) s = L::splat(0);
      for (int64_t k = 0; k < dims; ++k) {
        const auto of_row = L::splat(x[k]);
        const double* of_cols = points + k * stride + j;
        for (int a = 0; a < kVectors; ++a) {
          sum[a] = L::add(sum[a], term(of_row, L::load(of_cols + a * L::kWidth)));
        }
      }
      for (int a = 0; a < kVectors; ++a) L::store_cost(out + j + a * L::kWidth, end(sum[a]));
    }
  });
}
