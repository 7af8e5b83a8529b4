// One dense assignment problem: the interface between the handlers and the CPU solvers.
//
// The solver is compiled once per instruction set (assignment/cpu/portable.cc,
// assignment/cpu/avx2.cc, assignment/cpu/avx512.cc); the handler picks one of them at run time.
// Headers that these files share, such as this one, must not use templates or inline functions of
// the standard library, because the linker keeps only one copy of each. If that copy was compiled
// for the newest processor, it fails on older ones.
#ifndef JAXMATCH_CPU_ASSIGNMENT_PROBLEM_H_
#define JAXMATCH_CPU_ASSIGNMENT_PROBLEM_H_

#include <cstdint>

#include "common/cpu/arena.h"
#include "common/dtype.h"
#include "common/status.h"
#include "costs/metric.h"

namespace jaxmatch::assignment {

// Two sets of points whose distances are the costs. Coordinates have the dtype `cost_dtype` of the
// problem.
struct PointSets {
  const void* rows;  // [dims, n]
  const void* cols;  // [dims, m]
  int64_t dims;
  Metric metric;
};

struct AssignmentProblem {
  const PointSets* points = nullptr;  // null if the costs are a matrix
  const void* cost;                   // [n, m] row-major
  Dtype cost_dtype;
  int64_t n, m;
  bool maximize;

  // Optional inputs, null where not given.
  const uint8_t* row_mask;     // [n]
  const uint8_t* col_mask;     // [m]
  const void* unmatched_cost;  // [n]
  Dtype unmatched_dtype;
  const void* start_dual;  // [m] in the result dtype

  Dtype result_dtype;  // kF32 or kF64
  int32_t* col4row;    // [n]
  int32_t* row4col;    // [m]
  void* value;         // scalar
  void* row_dual;      // [n]
  void* col_dual;      // [m]
  void* gap;           // scalar
  int32_t* status;     // scalar
};

// Solves one problem. Returns false, and writes no results, if memory ran out.
using SolveAssignment = bool (*)(const AssignmentProblem&, Arena*);

namespace portable {
bool solve_assignment(const AssignmentProblem&, Arena*);
}
namespace avx2 {
bool solve_assignment(const AssignmentProblem&, Arena*);
}
namespace avx512 {
bool solve_assignment(const AssignmentProblem&, Arena*);
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CPU_ASSIGNMENT_PROBLEM_H_
