// An assignment problem with capacities, and the table of its operands and results: the interface
// of the targets jaxmatch_capacities and jaxmatch_capacities_points.
#ifndef JAXMATCH_TRANSPORT_CPU_CAPACITIES_H_
#define JAXMATCH_TRANSPORT_CPU_CAPACITIES_H_

#include <algorithm>
#include <cstdint>

#include "common/operands.h"
#include "costs/metric.h"

namespace jaxmatch::transport {

// The capacities or the minima of the rows or of the columns.
struct Amounts {
  const void* array;  // null: every amount is `each`
  Dtype dtype;        // kS32 or kS64
  int64_t each;

  // Negative amounts become -1, and large ones saturate at INT32_MAX.
  int32_t at(int64_t i) const {
    const int64_t x = !array                 ? each
                      : dtype == Dtype::kS32 ? static_cast<const int32_t*>(array)[i]
                                             : static_cast<const int64_t*>(array)[i];
    return int32_t(std::clamp<int64_t>(x, -1, INT32_MAX));
  }
};

struct CapacityProblem {
  // Either costs or points are given.
  const void* cost;   // [n, m]
  const void *x, *y;  // [n, dims], [m, dims] points of rows and columns
  Dtype cost_dtype;   // also of the points
  int64_t n, m, dims;
  Metric metric;
  bool maximize;

  Amounts row_capacity, col_capacity, col_minimum;
  bool has_minimum;
  // Null if not given.
  const uint8_t* row_mask;  // [n]
  const uint8_t* col_mask;  // [m]
  const void* unmatched;    // [n] costs of leaving a unit of a row unmatched; not for points
  Dtype unmatched_dtype;
  const void* start_dual;  // [m] in result_dtype

  // Results: a plan, or the column of each row.
  bool as_plan;
  Dtype result_dtype;           // kF32 or kF64, of value, duals and gap
  int32_t *rows, *cols, *mass;  // [entries()] the plan; -1, -1 and 0 after its last entry
  int32_t *col4row, *counts;    // [n] column of each row, or -1; [m] number of rows of each column
  void *value, *row_dual, *col_dual, *gap;
  int32_t* status;

  // With minima, each column is split into two parts: one has the minimum as its capacity, and one
  // the remaining capacity.
  int64_t parts() const { return has_minimum ? 2 : 1; }
  int64_t entries() const { return std::max<int64_t>(n + parts() * m - 1, 0); }
};

template <class Rows>
void list_costs(CapacityProblem& p, Rows& rows) {
  rows.operand("cost", p.cost, any_dtype(p.cost_dtype), p.n * p.m);
}

template <class Rows>
void list_points(CapacityProblem& p, Rows& rows) {
  const DtypeOf real = real_dtype(p.cost_dtype);
  rows.operand("row_points", p.x, real, p.n * p.dims);
  rows.operand("col_points", p.y, real, p.m * p.dims);
}

template <class Rows>
void list_unmatched(CapacityProblem& p, Rows& rows) {
  rows.optional("unmatched_cost", p.unmatched, any_dtype(p.unmatched_dtype), p.n);
}

template <class Rows>
void list_capacities(CapacityProblem& p, Rows& rows) {
  const DtypeOf real = real_dtype(p.result_dtype);
  rows.optional("row_capacity", p.row_capacity.array, wide_dtype(p.row_capacity.dtype), p.n);
  rows.optional("col_capacity", p.col_capacity.array, wide_dtype(p.col_capacity.dtype), p.m);
  rows.optional("col_minimum", p.col_minimum.array, wide_dtype(p.col_minimum.dtype), p.m);
  rows.optional("row_mask", p.row_mask, p.n);
  rows.optional("col_mask", p.col_mask, p.m);
  rows.optional("col_dual", p.start_dual, real, p.m);
  if (p.as_plan) {
    rows.result("rows", p.rows, p.entries());
    rows.result("cols", p.cols, p.entries());
    rows.result("mass", p.mass, p.entries());
  } else {
    rows.result("col4row", p.col4row, p.n);
    rows.result("col_count", p.counts, p.m);
  }
  rows.result("value", p.value, real, 1);
  rows.result("row_dual", p.row_dual, real, p.n);
  rows.result("col_dual", p.col_dual, real, p.m);
  rows.result("gap", p.gap, real, 1);
  rows.result("status", p.status, 1);
}

// All operands and results of both targets, for problem_at(). Absent arrays are null.
template <class Rows>
void list_operands(CapacityProblem& p, Rows& rows) {
  list_costs(p, rows);
  list_points(p, rows);
  list_unmatched(p, rows);
  list_capacities(p, rows);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_CAPACITIES_H_
