// One problem of sparse assignment, as a handler passes it to a solver, and the problems of a
// batch.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_PROBLEM_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_PROBLEM_H_

#include <cstdint>

#include "common/dtype.h"
#include "common/host_device.h"

namespace jaxmatch::sparse_assignment {

// Counts of the work done, for tests. Rounds are searches on the CPU; on CUDA rounds of bids, waves
// of searches and price updates.
enum Count : int { kBids, kRounds, kNumCounts };

enum class Cardinality : uint8_t { kFull, kMaximum };

// Row i is adjacent to the columns col_ind[row_ptr[i] .. row_ptr[i + 1]), column j to the rows
// row_ind[col_ptr[j] .. col_ptr[j + 1]). The arrays may hold anything.
struct SparseProblem {
  int64_t n, m, capacity;  // rows, columns, length of col_ind and row_ind
  const int32_t* row_ptr;  // [n + 1]
  const int32_t* col_ind;  // [capacity]
  const int32_t* col_ptr;  // [m + 1]
  const int32_t* row_ind;  // [capacity]
  bool shared_graph;       // by all problems of a batch
  const void* cost;        // [capacity] of the edges in col_ind
  Dtype cost_dtype;
  bool maximize;
  Cardinality cardinality;

  // Null where not given.
  const uint8_t* row_mask;         // [n]
  const uint8_t* col_mask;         // [m]
  const void* unmatched_cost;      // [n]
  const void* unmatched_col_cost;  // [m]
  Dtype unmatched_dtype, unmatched_col_dtype;
  const void* start_dual;  // [m] in result_dtype

  Dtype result_dtype;  // kF32 or kF64
  int32_t* col4row;    // [n]
  int32_t* row4col;    // [m]
  int32_t* edge;       // [n] indices into col_ind
  void* value;         // scalar
  void* row_dual;      // [n]
  void* col_dual;      // [m]
  void* gap;           // scalar
  int32_t* status;     // scalar
  int32_t* counts;     // [kNumCounts]
};

// Problem `b` of a batch, whose first is p.
JAXMATCH_HOST_DEVICE inline SparseProblem problem_of(SparseProblem p, int64_t b) {
  const int64_t real = size_of(p.result_dtype);
  const auto skip = [b](auto*& array, int64_t bytes) {
    if (array) array = decltype(+array)(uintptr_t(array) + uintptr_t(b * bytes));
  };
  if (!p.shared_graph) {
    skip(p.row_ptr, (p.n + 1) * 4);
    skip(p.col_ind, p.capacity * 4);
    skip(p.col_ptr, (p.m + 1) * 4);
    skip(p.row_ind, p.capacity * 4);
  }
  skip(p.cost, p.capacity * size_of(p.cost_dtype));
  skip(p.row_mask, p.n);
  skip(p.col_mask, p.m);
  skip(p.unmatched_cost, p.n * size_of(p.unmatched_dtype));
  skip(p.unmatched_col_cost, p.m * size_of(p.unmatched_col_dtype));
  skip(p.start_dual, p.m * real);
  skip(p.col4row, p.n * 4);
  skip(p.row4col, p.m * 4);
  skip(p.edge, p.n * 4);
  skip(p.value, real);
  skip(p.row_dual, p.n * real);
  skip(p.col_dual, p.m * real);
  skip(p.gap, real);
  skip(p.status, 4);
  skip(p.counts, kNumCounts * 4);
  return p;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_PROBLEM_H_
