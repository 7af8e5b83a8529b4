// One problem of sparse assignment, as a handler passes it to a solver.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_PROBLEM_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_PROBLEM_H_

#include <cstdint>

#include "common/dtype.h"

namespace jaxmatch::sparse_assignment {

// Counts of the work done, for tests. On the CPU, kRounds counts searches. On CUDA, it counts
// rounds of bids, waves of searches and price updates.
enum Count : int { kBids, kRounds, kNumCounts };

// Row i is adjacent to the columns col_ind[row_ptr[i] .. row_ptr[i + 1]), column j to the rows
// row_ind[col_ptr[j] .. col_ptr[j + 1]). The arrays are unchecked input.
struct SparseProblem {
  int64_t n, m, capacity;  // rows, columns, length of col_ind and row_ind
  const int32_t* row_ptr;  // [n + 1]
  const int32_t* col_ind;  // [capacity]
  const int32_t* col_ptr;  // [m + 1]
  const int32_t* row_ind;  // [capacity]
  bool shared_graph;       // whether all problems of a batch have this graph
  const void* cost;        // [capacity] costs of the edges in col_ind
  Dtype cost_dtype;
  bool maximize;

  // Optional arrays, null if not given.
  const uint8_t* row_mask;         // [n]
  const uint8_t* col_mask;         // [m]
  const void* unmatched_cost;      // [n]
  const void* unmatched_col_cost;  // [m]
  Dtype unmatched_dtype, unmatched_col_dtype;
  const void* start_dual;     // [m] column duals for a warm start, in result_dtype
  const int32_t* start_edge;  // [n] with them, the index in col_ind of each row's pair, or -1

  Dtype result_dtype;  // kF32 or kF64
  int32_t* col4row;    // [n]
  int32_t* row4col;    // [m]
  int32_t* edge;       // [n] index in col_ind of each row's pair, or -1
  void* value;         // scalar
  void* row_dual;      // [n]
  void* col_dual;      // [m]
  void* gap;           // scalar
  int32_t* status;     // scalar
  int32_t* counts;     // [kNumCounts]
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_PROBLEM_H_
