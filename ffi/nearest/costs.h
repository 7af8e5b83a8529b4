// Costs of pairs, and which of several columns with the same cost - price a row prefers.
#ifndef JAXMATCH_NEAREST_COSTS_H_
#define JAXMATCH_NEAREST_COSTS_H_

#include <cmath>
#include <cstdint>

#include "assignment/pair_hash.h"
#include "common/reals.h"
#include "nearest/problem.h"

namespace jaxmatch::nearest {

// The cost, as in sparse_assignment/point_pairs.h and rounded to the dtype of the points.
JAXMATCH_HOST_DEVICE inline double cost_of(const NearestProblem& p, int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < p.dims; ++k) {
    const double a = read_real(p.x, p.dtype, i * p.dims + k);
    const double b = read_real(p.y, p.dtype, j * p.dims + k), apart = a - b;
    sum += p.metric == Metric::kL1       ? fabs(apart)
           : p.metric == Metric::kCosine ? a * b
                                         : apart * apart;
  }
  if (p.metric == Metric::kEuclidean) sum = sqrt(sum);
  if (p.metric == Metric::kCosine) sum = 1 - sum;
  return p.dtype == Dtype::kF64 ? sum : double(float(sum));
}

JAXMATCH_HOST_DEVICE inline double reduced_cost(const NearestProblem& p, int64_t i, int64_t j) {
  return cost_of(p, i, j) - read_real(p.price, p.price_dtype, j);
}

// Whether a row prefers column a to column b, whose reduced cost is the same. Rows that are alike
// prefer different columns, so that they can all be paired with columns that are alike.
JAXMATCH_HOST_DEVICE inline bool is_preferred(int64_t row, int32_t a, int32_t b) {
  const int32_t of_a = assignment::pair_hash(uint32_t(row), uint32_t(a));
  const int32_t of_b = assignment::pair_hash(uint32_t(row), uint32_t(b));
  return of_a < of_b || (of_a == of_b && a < b);
}

// The best columns that were found for a row, best first.
struct Found {
  double reduced[kMostFound];
  int32_t col[kMostFound];
  int count = 0;

  JAXMATCH_HOST_DEVICE void insert(int64_t row, double x, int32_t j, int most) {
    const auto is_better = [&](int than) {
      return x < reduced[than] || (x == reduced[than] && is_preferred(row, j, col[than]));
    };
    if (count == most && !is_better(count - 1)) return;
    int at = count < most ? count++ : most - 1;
    for (; at > 0 && is_better(at - 1); --at) {
      reduced[at] = reduced[at - 1];
      col[at] = col[at - 1];
    }
    reduced[at] = x;
    col[at] = j;
  }
};

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_NEAREST_COSTS_H_
