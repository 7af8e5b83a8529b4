// One transport problem: the interface between the handler and the CPU solvers.
//
// As in assignment/cpu/problem.h, the solver is compiled once per instruction set. The compiled
// copies share nothing but this header and the arena.
#ifndef JAXMATCH_TRANSPORT_CPU_PROBLEM_H_
#define JAXMATCH_TRANSPORT_CPU_PROBLEM_H_

#include <cstdint>

#include "common/cpu/arena.h"
#include "common/dtype.h"
#include "common/status.h"
#include "costs/metric.h"

namespace jaxmatch::transport {

// Counts of the work done, for tests.
enum Count : int { kBids, kPivots, kNumCounts };

struct TransportProblem {
  const void* cost;  // [n, m] row-major; null if the costs are distances
  Dtype cost_dtype;  // also of the points
  int64_t n, m;
  bool maximize;
  const void* supply;  // [n]
  const void* demand;  // [m]
  Dtype mass_dtype;    // of supplies and demands: kS32, kS64, kF32 or kF64
  Dtype coarsest;      // least precise dtype that the masses have had

  // If the costs are distances between points, these points are given, and distances are computed
  // when a solver needs them. With dummies (the last row and the last column), n and m include the
  // dummies. Dummies have no points: last_row and last_col are their costs.
  const void* row_points;  // [dims, n], or [dims, n - 1] with dummies; null if costs are stored
  const void* col_points;  // [dims, m], or [dims, m - 1] with dummies
  int64_t dims;
  Metric metric;
  const void* last_row;  // [m] costs of the dummy row; null without dummies
  const void* last_col;  // [n - 1] costs of the dummy column

  // Null if not given.
  const uint8_t* row_mask;  // [n]
  const uint8_t* col_mask;  // [m]
  // Scalar. If given, the last row and the last column are dummies, and their given masses are
  // ignored. This much mass moves between the other rows and columns, or at least this much if the
  // dummy row may send mass to the dummy column.
  const void* moved;
  const void* start_dual;  // [m] in result_dtype: column duals to start from
  // [n] a column for each row, or -1; no column occurs twice. If the first entry is not -1, the
  // CUDA solver starts from this plan instead of running an auction.
  const int32_t* start_col;

  Dtype result_dtype;    // kF32 or kF64, of value, duals and gap
  int32_t *rows, *cols;  // [n + m - 1] entries of the plan; -1 after the last one
  void* mass;            // [n + m - 1] in mass_dtype
  void* value;           // scalar
  void* row_dual;        // [n]
  void* col_dual;        // [m]
  void* gap;             // scalar
  int32_t* status;       // scalar
  int32_t* counts;       // [kNumCounts]
};

// Solves one problem. Returns false, and writes no results, if memory ran out.
using SolveTransport = bool (*)(const TransportProblem&, Arena*);

namespace portable {
bool solve_transport(const TransportProblem&, Arena*);
}
namespace avx2 {
bool solve_transport(const TransportProblem&, Arena*);
}
namespace avx512 {
bool solve_transport(const TransportProblem&, Arena*);
}

// The fastest solver that this processor can run. All solvers return bitwise equal results.
SolveTransport pick_transport_solver();

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_PROBLEM_H_
