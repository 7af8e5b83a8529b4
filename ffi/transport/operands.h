// The tables of the operands and results of the targets jaxmatch_transport and
// jaxmatch_transport_points. They are not in transport/cpu/problem.h, which the solvers of all
// instruction sets include: the linker would keep only one copy, which older processors might not
// be able to run.
#ifndef JAXMATCH_TRANSPORT_OPERANDS_H_
#define JAXMATCH_TRANSPORT_OPERANDS_H_

#include "common/operands.h"
#include "transport/cpu/problem.h"

namespace jaxmatch::transport {

JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_masses(TransportProblem& p, Rows& rows) {
  const DtypeOf mass = wide_dtype(p.mass_dtype), real = real_dtype(p.result_dtype);
  const int64_t entries = p.n + p.m > 0 ? p.n + p.m - 1 : 0;
  rows.operand("supply", p.supply, mass, p.n);
  rows.operand("demand", p.demand, mass, p.m);
  rows.optional("row_mask", p.row_mask, p.n);
  rows.optional("col_mask", p.col_mask, p.m);
  rows.optional("moved", p.moved, mass, 1);
  rows.optional("col_dual", p.start_dual, real, p.m);
  rows.optional("start_col", p.start_col, p.n);
  rows.result("rows", p.rows, entries);
  rows.result("cols", p.cols, entries);
  rows.result("mass", p.mass, mass, entries);
  rows.result("value", p.value, real, 1);
  rows.result("row_dual", p.row_dual, real, p.n);
  rows.result("col_dual", p.col_dual, real, p.m);
  rows.result("gap", p.gap, real, 1);
  rows.result("status", p.status, 1);
  rows.result("counts", p.counts, kNumCounts);
  // On CUDA, one more result follows: the workspace.
}

JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_costs(TransportProblem& p, Rows& rows) {
  rows.operand("cost", p.cost, any_dtype(p.cost_dtype), p.n * p.m);
}

// The points of the rows are the first operand. The points of the columns and the costs of the
// dummies are found by name.
JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_row_points(TransportProblem& p, Rows& rows) {
  const int64_t points = p.last_row ? p.n - 1 : p.n;
  rows.operand("row_points", p.row_points, real_dtype(p.cost_dtype), points * p.dims);
}
JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_col_points(TransportProblem& p, Rows& rows) {
  const DtypeOf real = real_dtype(p.cost_dtype);
  const int64_t dummies = p.last_row ? 1 : 0;
  rows.optional("col_points", p.col_points, real, (p.m - dummies) * p.dims);
  rows.optional("last_row", p.last_row, real, p.m);
  rows.optional("last_col", p.last_col, real, p.n - dummies);
}

// All operands and results of both targets, for problem_at(). Absent arrays are null.
JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_operands(TransportProblem& p, Rows& rows) {
  list_costs(p, rows);
  list_row_points(p, rows);
  list_col_points(p, rows);
  list_masses(p, rows);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_OPERANDS_H_
