// The table of the operands and results of the target jaxmatch_k_best. It is not in
// k_best/cpu/problem.h, because solvers that are compiled once per instruction set include that
// header. The linker would keep only one of their copies of this function.
#ifndef JAXMATCH_K_BEST_OPERANDS_H_
#define JAXMATCH_K_BEST_OPERANDS_H_

#include "common/operands.h"
#include "k_best/cpu/problem.h"

namespace jaxmatch::k_best {

JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_operands(KBestProblem& p, Rows& rows) {
  const DtypeOf real = real_dtype(p.result_dtype);
  rows.operand("cost", p.cost, any_dtype(p.cost_dtype), p.n * p.m);
  rows.optional("row_mask", p.row_mask, p.n);
  rows.optional("col_mask", p.col_mask, p.m);
  rows.result("col4row", p.col4row, p.k * p.n);
  rows.result("row4col", p.row4col, p.k * p.m);
  rows.result("value", p.value, real, p.k);
  rows.result("found", p.found, 1);
  rows.result("row_dual", p.row_dual, real, p.n);
  rows.result("col_dual", p.col_dual, real, p.m);
  rows.result("gap", p.gap, real, 1);
  rows.result("status", p.status, 1);
  rows.result("counts", p.counts, kNumCounts);
  // On CUDA, the workspace follows as the last result.
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_K_BEST_OPERANDS_H_
