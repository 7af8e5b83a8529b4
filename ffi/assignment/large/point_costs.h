// Costs that are distances between points, computed on each access.
//
// Computed in double precision in the order of the coordinates, without contraction, and rounded to
// the coordinates' type: an entry has the same bits on every access, platform and device.
// assignment/cpu/points.h computes the same bits.
#ifndef JAXMATCH_LARGE_POINT_COSTS_H_
#define JAXMATCH_LARGE_POINT_COSTS_H_

#include "assignment/large/quantized_costs.h"
#include "assignment/metric.h"

namespace jaxmatch::assignment::large {

// Costs of type T, between points with coordinates of type T.
template <class T>
struct Points {};

template <class T>
struct ElementOf<Points<T>> {
  using Type = T;
  static constexpr bool is_computed = true;
};

// Stored by coordinate, all points of a coordinate contiguous: neighbouring threads access
// neighbouring columns.
template <class T>
struct QuantizedCosts<Points<T>> : Quantizer<T> {
  const T *row_points = nullptr, *col_points = nullptr;  // [dims, rows] and [dims, cols]
  int64_t rows = 0, cols = 0, dims = 0;
  Metric metric = Metric::kSqeuclidean;

  // Loads the costs of several rows and columns.
  template <int kRows, int kCols, class ColumnOf>
  JAXMATCH_INLINE void load(const int64_t (&i)[kRows], const ColumnOf& column_of,
                            T (&cost)[kRows][kCols]) const {
    const auto square = [](double x, double y) { return (x - y) * (x - y); };
    const auto apart = [](double x, double y) { return fabs(x - y); };
    const auto product = [](double x, double y) { return x * y; };
    const auto same = [](double x) { return x; };
    const auto root = [](double x) { return sqrt(x); };
    const auto rest = [](double x) { return 1 - x; };
    switch (metric) {
      case Metric::kSqeuclidean:
        return add_up(i, column_of, square, same, cost);
      case Metric::kEuclidean:
        return add_up(i, column_of, square, root, cost);
      case Metric::kL1:
        return add_up(i, column_of, apart, same, cost);
      case Metric::kCosine:
        break;
    }
    add_up(i, column_of, product, rest, cost);
  }
  // Loads the costs of neighbouring columns.
  JAXMATCH_INLINE void load_row(int64_t i, int64_t first, int count, T* cost) const {
    const int64_t row[1] = {i};
    T found[1][kVectorColumns];
    if (first + kVectorColumns <= cols) {
      load(row, [&](int a) { return first + a; }, found);
    } else {
      load(row, [&](int a) { return lesser(first + a, cols - 1); }, found);
    }
    for (int a = 0; a < count; ++a) cost[a] = found[0][a];
  }
  JAXMATCH_DEVICE T raw(int64_t i, int64_t j) const {
    const int64_t row[1] = {i};
    T cost[1][1];
    load(row, [&](int) { return j; }, cost);
    return cost[0][0];
  }
  JAXMATCH_DEVICE double real(int64_t i, int64_t j) const { return widen(raw(i, j)); }
  // Distances are symmetric, to the bit.
  JAXMATCH_DEVICE void flip() {
    const T* const points = row_points;
    const int64_t count = rows;
    row_points = col_points;
    rows = cols;
    col_points = points;
    cols = count;
  }

 private:
  // Sums term(x, y) over the coordinates, and applies `end` to the sum.
  template <int kRows, int kCols, class ColumnOf, class Term, class End>
  JAXMATCH_INLINE void add_up(const int64_t (&i)[kRows], const ColumnOf& column_of, Term term,
                              End end, T (&cost)[kRows][kCols]) const {
    double sum[kRows][kCols];
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) sum[r][a] = 0;
    }
    const T *x = row_points, *y = col_points;
    for (int64_t k = 0; k < dims; ++k, x += rows, y += cols) {
      double of_col[kCols];
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) of_col[a] = double(y[column_of(a)]);
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const double of_row = double(x[i[r]]);
        JAXMATCH_UNROLL
        for (int a = 0; a < kCols; ++a) sum[r][a] += term(of_row, of_col[a]);
      }
    }
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) cost[r][a] = T(end(sum[r][a]));
    }
  }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_POINT_COSTS_H_
