// Points, the prices of the columns, and for each row the columns of least cost - price.
#ifndef JAXMATCH_NEAREST_PROBLEM_H_
#define JAXMATCH_NEAREST_PROBLEM_H_

#include <cstdint>

#include "common/dtype.h"
#include "common/host_device.h"
#include "costs/metric.h"

namespace jaxmatch::nearest {

// Most coordinates of a point, and most columns that are found for a row.
constexpr int64_t kMostDims = 3, kMostFound = 32;

struct NearestProblem {
  int64_t n, m, dims, known, k;
  Metric metric;
  Dtype dtype;          // of coordinates and costs
  Dtype price_dtype;    // of prices and reduced costs
  const void *x, *y;    // [n, dims], [m, dims]
  const void* price;    // [m]
  const int32_t* near;  // [n, known] columns near each row, of which k or more are different
  int32_t* col;         // [n, k] the columns found, best first
  void* cost;           // [n, k] their costs
  void* reduced;        // [n] the least cost - price of each row
  void* known_cost;     // [n] the cost of the first column in `near`
};

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_NEAREST_PROBLEM_H_
