// Tables of the operands and results of sparse assignment (see common/operands.h).
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_OPERANDS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_OPERANDS_H_

#include "common/operands.h"
#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

// The graph and the costs of its edges, which only jaxmatch_sparse_assignment takes.
JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_graph(SparseProblem& p, Rows& rows) {
  const auto of_graph = [&p](int64_t entries) { return Entries(entries, p.shared_graph); };
  rows.operand("row_ptr", p.row_ptr, of_graph(p.n + 1));
  rows.operand("col_ind", p.col_ind, of_graph(p.capacity));
  rows.optional("col_ptr", p.col_ptr, of_graph(p.m + 1));
  rows.optional("row_ind", p.row_ind, of_graph(p.capacity));
  rows.operand("cost", p.cost, any_dtype(p.cost_dtype), p.capacity);
}

// Optional operands and results, which jaxmatch_near_assignment has too.
JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_assignment(SparseProblem& p, Rows& rows) {
  const DtypeOf real = real_dtype(p.result_dtype);
  rows.optional("row_mask", p.row_mask, p.n);
  rows.optional("col_mask", p.col_mask, p.m);
  rows.optional("unmatched_cost", p.unmatched_cost, any_dtype(p.unmatched_dtype), p.n);
  rows.optional("unmatched_col_cost", p.unmatched_col_cost, any_dtype(p.unmatched_col_dtype), p.m);
  rows.optional("col_dual", p.start_dual, real, p.m);
  rows.optional("edge", p.start_edge, p.n);
  rows.result("col4row", p.col4row, p.n);
  rows.result("row4col", p.row4col, p.m);
  rows.result("edge", p.edge, p.n);
  rows.result("value", p.value, real, 1);
  rows.result("row_dual", p.row_dual, real, p.n);
  rows.result("col_dual", p.col_dual, real, p.m);
  rows.result("gap", p.gap, real, 1);
  rows.result("status", p.status, 1);
  rows.result("counts", p.counts, kNumCounts);
  // On CUDA, the workspace follows as one more result.
}

JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_operands(SparseProblem& p, Rows& rows) {
  list_graph(p, rows);
  list_assignment(p, rows);
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_OPERANDS_H_
