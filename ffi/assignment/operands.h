// The operands and results of the target jaxmatch_assignment.
#ifndef JAXMATCH_ASSIGNMENT_OPERANDS_H_
#define JAXMATCH_ASSIGNMENT_OPERANDS_H_

#include <cstdint>

#include "common/dtype.h"

namespace jaxmatch::assignment {

struct AssignmentOperands {
  int64_t batch, n, m;
  const void* cost;  // [batch, n, m]
  Dtype cost_dtype;
  bool maximize;

  // Null where not given.
  const uint8_t* row_mask;     // [batch, n]
  const uint8_t* col_mask;     // [batch, m]
  const void* unmatched_cost;  // [batch, n]
  Dtype unmatched_dtype;
  const void* start_dual;  // [batch, m] in the result dtype

  Dtype result_dtype;  // kF32 or kF64
  int32_t* col4row;    // [batch, n]
  int32_t* row4col;    // [batch, m]
  void* value;         // [batch]
  void* row_dual;      // [batch, n]
  void* col_dual;      // [batch, m]
  void* gap;           // [batch]
  int32_t* status;     // [batch]
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_ASSIGNMENT_OPERANDS_H_
