// One transport problem: the interface between the handler and the CPU solvers.
//
// As in assignment/cpu/problem.h, the solver is compiled once per instruction set, and these files
// share nothing but this header and the arena.
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
  Dtype mass_dtype;    // of both: kS32, kS64, kF32 or kF64
  Dtype coarsest;      // from which they were converted

  // Costs that are distances between points, computed on each access. With dummies, n and m count
  // them, but they have no points: last_row and last_col are their costs.
  const void* row_points;  // [dims, n], or [dims, n - 1]; null if costs are stored
  const void* col_points;  // [dims, m], or [dims, m - 1]
  int64_t dims;
  Metric metric;
  const void* last_row;  // [m]; null without dummies
  const void* last_col;  // [n - 1]

  // Null where not given.
  const uint8_t* row_mask;  // [n]
  const uint8_t* col_mask;  // [m]
  // Scalar: the last row and the last column are dummies, whose given masses do not count. So much
  // mass moves between others if the pair of the dummies is forbidden, and at least so much if not.
  const void* moved;
  const void* start_dual;  // [m] in result_dtype: where the auction starts
  // [n] columns, each at most once, or -1: a GPU begins with this plan instead of an auction,
  // unless its first column is -1.
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

// The fastest solver of this processor. All return the same bits.
SolveTransport pick_transport_solver();

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_CPU_PROBLEM_H_
