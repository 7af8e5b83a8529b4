// The operands and results of the target jaxmatch_sparse_assignment.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_OPERANDS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_OPERANDS_H_

#include <cstdint>

#include "common/dtype.h"

namespace jaxmatch::sparse_assignment {

// One problem. The arrays of the graph may hold anything: see matching/operands.h.
struct SparseProblem {
  int32_t n, m;
  int64_t capacity;        // length of col_ind and of cost
  const int32_t* row_ptr;  // [n + 1]
  const int32_t* col_ind;  // [capacity]
  const void* cost;        // [capacity]
  Dtype cost_dtype;
  bool maximize;
  bool maximum;  // as many pairs as possible; else all vertices of the smaller side

  // Null where not given; numbers are in the result dtype.
  const bool* row_mask;       // [n]
  const bool* col_mask;       // [m]
  const void* unmatched;      // [n] what it costs to leave a row
  const void* unmatched_col;  // [m]
  const void* start_dual;     // [m]

  Dtype result_dtype;  // kF32 or kF64
  int32_t* col4row;    // [n]
  int32_t* row4col;    // [m]
  int32_t* edge;       // [n] the place of each row's pair in col_ind
  void* value;
  void* row_dual;  // [n]
  void* col_dual;  // [m]
  void* gap;
  int32_t* status;
  int32_t* counts;  // bids and searches
};

struct SparseBatch {
  int64_t size;
  bool shared;  // one graph for all problems
  SparseProblem first;
};

template <class T>
T* moved(T* at, int64_t by) {
  return at ? at + by : nullptr;
}

inline SparseProblem problem_of(const SparseBatch& batch, int64_t b) {
  SparseProblem p = batch.first;
  const int64_t n = p.n, m = p.m, real = size_of(p.result_dtype);
  const auto bytes = [](auto* at, int64_t by) {
    return at ? decltype(at)((const char*)(at) + by) : nullptr;
  };
  if (!batch.shared) {
    p.row_ptr += b * (n + 1);
    p.col_ind += b * p.capacity;
  }
  p.cost = bytes(p.cost, b * p.capacity * size_of(p.cost_dtype));
  p.row_mask = moved(p.row_mask, b * n);
  p.col_mask = moved(p.col_mask, b * m);
  p.unmatched = bytes(p.unmatched, b * n * real);
  p.unmatched_col = bytes(p.unmatched_col, b * m * real);
  p.start_dual = bytes(p.start_dual, b * m * real);
  p.col4row += b * n;
  p.row4col += b * m;
  p.edge += b * n;
  p.value = bytes(p.value, b * real);
  p.row_dual = bytes(p.row_dual, b * n * real);
  p.col_dual = bytes(p.col_dual, b * m * real);
  p.gap = bytes(p.gap, b * real);
  p.status += b;
  p.counts += 2 * b;
  return p;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_OPERANDS_H_
