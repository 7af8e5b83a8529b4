// Costs that are distances between points, computed on each access.
//
// A cost is computed in double precision in the order of the coordinates, without fused
// multiply-add, and rounded to the coordinates' type. It therefore has the same bits on every
// access, platform and device. assignment/cpu/points.h computes the same bits.
#ifndef JAXMATCH_LARGE_POINT_COSTS_H_
#define JAXMATCH_LARGE_POINT_COSTS_H_

#include "assignment/large/quantized_costs.h"
#include "costs/metric.h"

namespace jaxmatch::assignment::large {

// A tag type for costs that are distances between points. Coordinates and costs have type T.
template <class T>
struct Points {};

template <class T>
struct ElementOf<Points<T>> {
  using Type = T;
  static constexpr bool is_computed = true;
};

// Points are stored coordinate by coordinate, so that neighbouring threads, which access
// neighbouring columns, read contiguous memory.
template <class T>
struct QuantizedCosts<Points<T>> : Quantizer<T> {
  const T *row_points = nullptr, *col_points = nullptr;  // [dims, rows] and [dims, cols]
  int64_t rows = 0, cols = 0, dims = 0;
  Metric metric = Metric::kSqeuclidean;

  // Loads the costs of several rows and columns.
  template <int kRows, int kCols, class ColumnOf>
  JAXMATCH_INLINE void load(const int64_t (&i)[kRows], const ColumnOf& column_of,
                            T (&cost)[kRows][kCols]) const {
    double sum[kRows][kCols];
    if (metric == Metric::kL1) {
      add_up(i, column_of, [](double s, double x, double y) { return s + fabs(x - y); }, sum);
    } else if (metric == Metric::kCosine) {
      add_up(i, column_of, [](double s, double x, double y) { return s + x * y; }, sum);
    } else {
      add_up(i, column_of, [](double s, double x, double y) { return s + (x - y) * (x - y); }, sum);
    }
    if (metric == Metric::kEuclidean) {
      store(sum, [](double x) { return sqrt(x); }, cost);
    } else if (metric == Metric::kCosine) {
      store(sum, [](double x) { return 1 - x; }, cost);
    } else {
      store(sum, [](double x) { return x; }, cost);
    }
  }
  // Computes the same costs in the arithmetic of the coordinates' type, with a few rounding errors
  // per coordinate. That is enough for the bids of an auction. Two metrics still need sums in
  // double precision. For the Euclidean metric, squares may leave the range of a float although
  // their root does not. For the cosine metric, 1 minus a product loses bits by cancellation.
  template <int kRows, int kCols, class Row, class ColumnOf>
  JAXMATCH_INLINE void estimate(const Row (&i)[kRows], const ColumnOf& column_of,
                                T (&cost)[kRows][kCols]) const {
    if (metric == Metric::kL1) {
      return add_up(i, column_of, [](T s, T x, T y) { return s + fabs(x - y); }, cost);
    }
    if (metric == Metric::kSqeuclidean) {
      return add_up(i, column_of, [](T s, T x, T y) { return s + (x - y) * (x - y); }, cost);
    }
    double sum[kRows][kCols];
    if (metric == Metric::kCosine) {
      add_up(i, column_of, [](double s, double x, double y) { return s + x * y; }, sum);
      store(sum, [](double x) { return 1 - x; }, cost);
    } else {
      add_up(i, column_of, [](double s, double x, double y) { return s + (x - y) * (x - y); }, sum);
      store(sum, [](double x) { return sqrt(x); }, cost);
    }
  }
  // Load or estimate the costs of neighbouring columns.
  JAXMATCH_INLINE void load_row(int64_t i, int64_t first, int count, T* cost) const {
    fill(first, count, cost, [&](const auto& place, auto& found) {
      const int64_t row[1] = {i};
      load(row, place, found);
    });
  }
  JAXMATCH_INLINE void estimate_row(int64_t i, int64_t first, int count, T* cost) const {
    fill(first, count, cost, [&](const auto& place, auto& found) {
      const int64_t row[1] = {i};
      estimate(row, place, found);
    });
  }
  JAXMATCH_DEVICE T raw(int64_t i, int64_t j) const {
    return between(row_points + i, rows, col_points + j, cols, dims, metric);
  }
  JAXMATCH_DEVICE double real(int64_t i, int64_t j) const { return widen(raw(i, j)); }
  // Swaps the sides. Distances are symmetric to the last bit.
  JAXMATCH_DEVICE void flip() {
    const T* const points = row_points;
    const int64_t count = rows;
    row_points = col_points;
    rows = cols;
    col_points = points;
    cols = count;
  }

 private:
  // Stores cost[a] for column first + a, as computed by find(column_of, costs).
  template <class Find>
  JAXMATCH_INLINE void fill(int64_t first, int count, T* cost, Find find) const {
    T found[1][kVectorColumns];
    if (first + kVectorColumns <= cols) {
      find([&](int a) { return first + a; }, found);
    } else {
      find([&](int a) { return lesser(first + a, cols - 1); }, found);
    }
    for (int a = 0; a < count; ++a) cost[a] = found[0][a];
  }
  // The distance between two points, each with its own stride of coordinates. It is not inlined, to
  // keep the kernels small: many places need a single cost, but few of them often.
  JAXMATCH_NOINLINE static T between(const T* x, int64_t x_stride, const T* y, int64_t y_stride,
                                     int64_t dims, Metric metric) {
    QuantizedCosts pair;
    pair.row_points = x;
    pair.rows = x_stride;
    pair.col_points = y;
    pair.cols = y_stride;
    pair.dims = dims;
    pair.metric = metric;
    const int64_t first[1] = {0};
    T cost[1][1];
    pair.load(first, [](int) { return int64_t{0}; }, cost);
    return cost[0][0];
  }
  // Computes sum = term(sum, x, y) over the coordinates x of a row and y of a column, in order.
  template <int kRows, int kCols, class Row, class ColumnOf, class Term, class Real>
  JAXMATCH_INLINE void add_up(const Row (&i)[kRows], const ColumnOf& column_of, Term term,
                              Real (&sum)[kRows][kCols]) const {
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) sum[r][a] = 0;
    }
    const T *x = row_points, *y = col_points;
    JAXMATCH_NO_UNROLL
    for (int64_t k = 0; k < dims; ++k, x += rows, y += cols) {
      Real of_col[kCols];
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) of_col[a] = Real(y[column_of(a)]);
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const Real of_row = Real(x[i[r]]);
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) sum[r][a] = term(sum[r][a], of_row, of_col[a]);
      }
    }
  }
  template <int kRows, int kCols, class Real, class End>
  JAXMATCH_INLINE static void store(const Real (&sum)[kRows][kCols], End end,
                                    T (&cost)[kRows][kCols]) {
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) cost[r][a] = T(end(sum[r][a]));
    }
  }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_POINT_COSTS_H_
