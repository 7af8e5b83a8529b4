// Pairs of points within a radius: their distances, and which pairs exist.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_POINT_PAIRS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_POINT_PAIRS_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "costs/metric.h"

namespace jaxmatch::sparse_assignment {

// The two point sets of a problem: x [n, dims] for rows and y [m, dims] for columns.
template <class T>
struct PointPairs {
  const T *x, *y;
  int64_t n, m, dims;
  const uint8_t *row_mask, *col_mask;  // null: no mask; points with mask 0 have no pairs
  Metric metric;
  double radius;  // bound on distances; for squared Euclidean costs, on the unsquared ones

  // The same sum as in assignment/large/point_costs.h: in double precision, in the order of the
  // coordinates. Callers round it to T.
  JAXMATCH_HOST_DEVICE double distance(int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t k = 0; k < dims; ++k) {
      const double a = x[i * dims + k], b = y[j * dims + k], apart = a - b;
      sum += metric == Metric::kL1       ? std::fabs(apart)
             : metric == Metric::kCosine ? a * b
                                         : apart * apart;
    }
    return metric == Metric::kEuclidean ? std::sqrt(sum)
           : metric == Metric::kCosine  ? 1 - sum
                                        : sum;
  }
  // True if points i and j, which have this distance, are within the radius.
  JAXMATCH_HOST_DEVICE bool within(int64_t i, int64_t j, double distance) const {
    const bool squares = metric == Metric::kSqeuclidean || metric == Metric::kEuclidean;
    if (squares && !(radius >= 0x1p-480 && radius <= 0x1p480)) return within_scaled(i, j);
    return distance <= (metric == Metric::kSqeuclidean ? radius * radius : radius);
  }
  // The two points of a pair within the radius differ by at most this much in each coordinate. For
  // the cosine distance, points are unit vectors, so |x - y|² = 2 (1 - x·y). kRounding covers the
  // rounding of the coordinates.
  JAXMATCH_HOST_DEVICE double reach() const {
    constexpr double kRounding = sizeof(T) == 4 ? 0x1p-20 : 0x1p-49;
    return metric == Metric::kCosine ? std::sqrt(2 * radius + kRounding) : radius;
  }
  JAXMATCH_HOST_DEVICE bool has_row(int64_t i) const { return !row_mask || row_mask[i]; }
  JAXMATCH_HOST_DEVICE bool has_col(int64_t j) const { return !col_mask || col_mask[j]; }

 private:
  // within() for a radius whose square could overflow or underflow. Differences are scaled before
  // they are squared.
  JAXMATCH_HOST_DEVICE bool within_scaled(int64_t i, int64_t j) const {
    const double scale = radius > 1 ? 0x1p-700 : 0x1p700;
    double sum = 0;
    for (int64_t k = 0; k < dims; ++k) {
      const double apart = (double(x[i * dims + k]) - double(y[j * dims + k])) * scale;
      sum += apart * apart;
    }
    const double most = radius * scale;
    return metric == Metric::kEuclidean ? std::sqrt(sum) <= most : sum <= most * most;
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_POINT_PAIRS_H_
