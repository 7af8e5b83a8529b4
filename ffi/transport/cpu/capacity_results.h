// Translates the results of the balanced problem to those of the assignment problem with
// capacities. Does the same as `by_transport` of jaxmatch/_assignment/capacity.py.
#ifndef JAXMATCH_TRANSPORT_CPU_CAPACITY_RESULTS_H_
#define JAXMATCH_TRANSPORT_CPU_CAPACITY_RESULTS_H_

#include "transport/cpu/capacity_dummies.h"

namespace jaxmatch::transport {

// Adds a shift to a dual. An infinite dual (out of range) stays as it is, because an infinite shift
// of the other sign would make it NaN.
template <class Real>
Real shifted(Real dual, Real by) {
  return std::isinf(dual) ? dual : dual + by;
}

// Writes the duals, shifted so that the dual of a dummy with mass is 0.
template <class Real>
void write_duals(const CapacityProblem& p, const Units& units, const TransportProblem& b) {
  const Real *const u = static_cast<const Real*>(b.row_dual), *const v = static_cast<const Real*>(
                                                                  b.col_dual);
  Real of_row = u[p.n], of_col = v[b.m - 1];
  if (!p.unmatched) {
    of_col = units.of_rows > units.of_cols ? of_col : 0;
    of_col = units.of_rows < units.of_cols ? -of_row : of_col;
    of_row = -of_col;
  }
  for (int64_t i = 0; i < p.n; ++i) {
    const bool exists = !p.row_mask || p.row_mask[i];
    static_cast<Real*>(p.row_dual)[i] = exists ? shifted(u[i], of_col) : 0;
  }
  for (int64_t j = 0; j < p.m; ++j) {
    const bool exists = !p.col_mask || p.col_mask[j];
    const Real dual = !units.least ? v[j] : units.least[j] > 0 ? v[2 * j] : v[2 * j + 1];
    static_cast<Real*>(p.col_dual)[j] = exists ? shifted(dual, of_row) : 0;
  }
}

template <class Real>
void write_no_numbers(const CapacityProblem& p) {
  const Real nan = std::numeric_limits<Real>::quiet_NaN();
  *static_cast<Real*>(p.value) = *static_cast<Real*>(p.gap) = nan;
  std::fill_n(static_cast<Real*>(p.row_dual), p.n, nan);
  std::fill_n(static_cast<Real*>(p.col_dual), p.m, nan);
}

// Calls f(row, column, mass) for the entries of the plan that contain no dummy, in order. Both
// parts of a column have its index.
template <class F>
void for_own_entries(const CapacityProblem& p, const TransportProblem& b, const F& f) {
  const auto* const mass = static_cast<const int32_t*>(b.mass);
  for (int64_t k = 0; k < b.n + b.m - 1; ++k) {
    const bool own = b.rows[k] >= 0 && b.rows[k] < p.n && b.cols[k] < b.m - 1;
    if (own) f(b.rows[k], b.cols[k] / int32_t(p.parts()), mass[k]);
  }
}

// Writes the plan. The two parts of a column become one entry.
inline void write_plan(const CapacityProblem& p, const TransportProblem& b, bool solved) {
  const int64_t most = p.entries();
  int64_t count = 0;
  const auto add = [&](int32_t row, int32_t col, int32_t mass) {
    if (count > 0 && p.rows[count - 1] == row && p.cols[count - 1] == col) {
      p.mass[count - 1] += mass;
    } else if (count < most) {
      p.rows[count] = row;
      p.cols[count] = col;
      p.mass[count++] = mass;
    }
  };
  if (solved) for_own_entries(p, b, add);
  std::fill(p.rows + count, p.rows + most, -1);
  std::fill(p.cols + count, p.cols + most, -1);
  std::fill(p.mass + count, p.mass + most, 0);
}

inline void write_columns(const CapacityProblem& p, const TransportProblem& b, bool solved) {
  std::fill_n(p.col4row, p.n, -1);
  std::fill_n(p.counts, p.m, 0);
  if (!solved) return;
  for_own_entries(p, b, [&](int32_t row, int32_t col, int32_t) {
    p.col4row[row] = col;
    ++p.counts[col];
  });
}

// Writes all results. Errors in the capacities, which the transport solver cannot see, override its
// status unless it found invalid costs.
inline void write_results(const CapacityProblem& p, const Units& units, const Balanced& balanced) {
  const TransportProblem& b = balanced.problem;
  const Status shown = balanced.too_wide ? kOverflow : units.status;
  if (shown != kOptimal && *p.status != kInvalidCost) *p.status = shown;
  const bool solved = *p.status == kOptimal, single = p.result_dtype == Dtype::kF32;
  if (solved) {
    single ? write_duals<float>(p, units, b) : write_duals<double>(p, units, b);
  } else {
    single ? write_no_numbers<float>(p) : write_no_numbers<double>(p);
  }
  p.as_plan ? write_plan(p, b, solved) : write_columns(p, b, solved);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_CAPACITY_RESULTS_H_
