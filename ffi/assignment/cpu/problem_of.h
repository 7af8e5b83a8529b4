// Conversion of one problem of a batch to the interface of the CPU solvers.
#ifndef JAXMATCH_CPU_ASSIGNMENT_PROBLEM_OF_H_
#define JAXMATCH_CPU_ASSIGNMENT_PROBLEM_OF_H_

#include <type_traits>

#include "assignment/cpu/problem.h"
#include "assignment/operands.h"

namespace jaxmatch::assignment {

// Returns problem number `b`, with `n` rows and `m` columns. If the costs are distances between
// points, n and m differ from o.n and o.m, which then come from the shape [dims, n] of the row
// points.
inline AssignmentProblem problem_of(const AssignmentOperands& o, int64_t b, int64_t n, int64_t m) {
  const auto at = [](auto* array, int64_t bytes) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<decltype(array)>>,
                                    const char, char>;
    return array ? reinterpret_cast<Byte*>(array) + bytes : nullptr;
  };
  const int64_t real = size_of(o.result_dtype);
  AssignmentProblem p{};
  p.cost = at(o.cost, b * o.n * o.m * size_of(o.cost_dtype));
  p.cost_dtype = o.cost_dtype;
  p.n = n;
  p.m = m;
  p.maximize = o.maximize;
  p.row_mask = o.row_mask ? o.row_mask + b * n : nullptr;
  p.col_mask = o.col_mask ? o.col_mask + b * m : nullptr;
  p.unmatched_cost = at(o.unmatched_cost, b * n * size_of(o.unmatched_dtype));
  p.unmatched_dtype = o.unmatched_dtype;
  p.start_dual = at(o.start_dual, b * m * real);
  p.result_dtype = o.result_dtype;
  p.col4row = o.col4row + b * n;
  p.row4col = o.row4col + b * m;
  p.value = at(o.value, b * real);
  p.row_dual = at(o.row_dual, b * n * real);
  p.col_dual = at(o.col_dual, b * m * real);
  p.gap = at(o.gap, b * real);
  p.status = o.status + b;
  return p;
}
inline AssignmentProblem problem_of(const AssignmentOperands& o, int64_t b) {
  return problem_of(o, b, o.n, o.m);
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CPU_ASSIGNMENT_PROBLEM_OF_H_
