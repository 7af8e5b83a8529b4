// One problem of k best assignments: the interface between the handlers and the solvers.
//
// As in assignment/cpu/problem.h, the solver is compiled once per instruction set. The copies share
// nothing but this header and the arena.
#ifndef JAXMATCH_K_BEST_CPU_PROBLEM_H_
#define JAXMATCH_K_BEST_CPU_PROBLEM_H_

#include <cstdint>

#include "common/cpu/arena.h"
#include "common/dtype.h"
#include "common/status.h"

namespace jaxmatch::k_best {

// Counts of the work done, for tests: searches for shortest paths, and scans of rows.
enum Count : int { kSearches, kScans, kNumCounts };

struct KBestProblem {
  const void* cost;  // [n, m] row-major
  Dtype cost_dtype;
  int64_t n, m, k;
  bool maximize;

  // Null where not given.
  const uint8_t* row_mask;  // [n]
  const uint8_t* col_mask;  // [m]

  Dtype result_dtype;  // kF32 or kF64
  int32_t* col4row;    // [k, n]
  int32_t* row4col;    // [k, m]
  void* value;         // [k]
  int32_t* found;      // scalar: number of assignments found
  void* row_dual;      // [n]
  void* col_dual;      // [m]
  void* gap;           // scalar
  int32_t* status;     // scalar
  int32_t* counts;     // [kNumCounts]
};

// Solves one problem. Returns false, and writes no results, if memory ran out.
using SolveKBest = bool (*)(const KBestProblem&, Arena*);

namespace portable {
bool solve_k_best(const KBestProblem&, Arena*);
}
namespace avx2 {
bool solve_k_best(const KBestProblem&, Arena*);
}
namespace avx512 {
bool solve_k_best(const KBestProblem&, Arena*);
}

// The fastest solver for this processor. All solvers return the same bits.
SolveKBest pick_k_best_solver();

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_K_BEST_CPU_PROBLEM_H_
