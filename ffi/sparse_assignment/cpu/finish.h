// Converts the results of a problem from canonical form to the form of the call.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_FINISH_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_FINISH_H_

#include <cmath>
#include <cstdint>

#include "common/compensated_sum.h"
#include "common/reals.h"
#include "sparse_assignment/cpu/matching_state.h"

namespace jaxmatch::sparse_assignment {

// The sum of the given costs of all pairs and of all unmatched vertices.
template <class T>
double total_cost(const SparseProblem& p) {
  FullRangeSum sum;
  __int128 whole = 0;
  const auto add = [&](const void* prices, Dtype dtype, int64_t k) {
    if (is_integer(dtype)) {
      whole += whole_at(prices, dtype, k);
    } else {
      sum.add(real_at(prices, dtype, k));
    }
  };
  for (int64_t i = 0; i < p.n; ++i) {
    if (p.row_mask && !p.row_mask[i]) continue;
    if (p.edge[i] != kNone) {
      const T x = static_cast<const T*>(p.cost)[p.edge[i]];
      if constexpr (std::is_integral_v<T>) {
        whole += x;
      } else {
        sum.add(as_double(x));
      }
    } else if (p.unmatched_cost) {
      add(p.unmatched_cost, p.unmatched_dtype, i);
    }
  }
  for (int64_t j = 0; p.unmatched_col_cost && j < p.m; ++j) {
    if (p.col_mask && !p.col_mask[j]) continue;
    if (p.row4col[j] == kNone) add(p.unmatched_col_cost, p.unmatched_col_dtype, j);
  }
  // Adds the sum of the integers in two parts that doubles represent exactly.
  const int64_t high = int64_t(whole >> 40);
  sum.add(double(high) * 0x1p40);
  sum.add(double(int64_t(whole - (__int128(high) * (int64_t{1} << 40)))));
  return sum.value();
}

template <class T, class Int>
void write_result(const SparseProblem& p, const MatchingState<Int>& s) {
  const CanonicalOf<Int>& c = s.c;
  for (int64_t i = 0; i < p.n; ++i) p.col4row[i] = p.edge[i] = kNone;
  for (int64_t j = 0; j < p.m; ++j) p.row4col[j] = kNone;
  for (int32_t r = 0; r < c.rows; ++r) {
    if (s.pair[size_t(r)] < 0) continue;
    const auto& e = c.edges[size_t(s.pair[size_t(r)])];
    const int32_t i = c.transposed ? e.col : r, j = c.transposed ? r : e.col;
    p.col4row[i] = j;
    p.row4col[j] = i;
    p.edge[i] = e.place;
  }
  const double per_unit = 1 / c.scale;
  void *of_rows = c.transposed ? p.col_dual : p.row_dual,
       *of_cols = c.transposed ? p.row_dual : p.col_dual;
  for (int64_t r = 0; r < c.rows; ++r) {
    write_real(of_rows, p.result_dtype, r, double(s.u[size_t(r)]) * per_unit + 0.0);
  }
  for (int64_t k = 0; k < c.cols; ++k) {
    const Int v = s.v[size_t(k)] + (c.offset.empty() ? 0 : c.offset[size_t(k)]);
    write_real(of_cols, p.result_dtype, k, double(v) * per_unit + 0.0);
  }
  write_real(p.value, p.result_dtype, 0, total_cost<T>(p));
  // Rounding changes each cost of this solution and of the optimum by at most half of the unit to
  // which costs were rounded. So the gap is at most one such unit for each cost in a solution.
  double gap = c.exact ? 0 : double(c.terms) * c.rounding * std::fabs(per_unit);
  if (p.result_dtype == Dtype::kF32 && double(float(gap)) < gap)
    gap = std::nextafter(float(gap), INFINITY);
  write_real(p.gap, p.result_dtype, 0, gap);
  *p.status = kOptimal;
  p.counts[kBids] = int32_t(std::min<int64_t>(s.bids, INT32_MAX));
  p.counts[kRounds] = int32_t(std::min<int64_t>(s.searches, INT32_MAX));
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_FINISH_H_
