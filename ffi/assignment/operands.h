// The operands and results of the FFI targets that return an assignment.
#ifndef JAXMATCH_ASSIGNMENT_OPERANDS_H_
#define JAXMATCH_ASSIGNMENT_OPERANDS_H_

#include <cstddef>
#include <cstdint>

#include "common/dtype.h"
#include "common/operands.h"

namespace jaxmatch::assignment {

struct AssignmentOperands {
  int64_t batch, n, m;
  const void* cost;  // [batch, n, m]
  Dtype cost_dtype;
  bool maximize;

  // Optional operands, null where not given.
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

// Lists the operands and results. Any size of `cost` is accepted, because for some targets `cost`
// holds points or a shard of the cost matrix. The handlers of these targets check its size.
JAXMATCH_TABLE
template <class Rows>
JAXMATCH_HOST_DEVICE void list_operands(AssignmentOperands& o, Rows& rows) {
  const DtypeOf real = real_dtype(o.result_dtype);
  rows.operand("cost", o.cost, any_dtype(o.cost_dtype), any_entries());
  rows.optional("row_mask", o.row_mask, o.n);
  rows.optional("col_mask", o.col_mask, o.m);
  rows.optional("unmatched_cost", o.unmatched_cost, wide_dtype(o.unmatched_dtype), o.n);
  rows.optional("col_dual", o.start_dual, real, o.m);
  rows.result("col4row", o.col4row, o.n);
  rows.result("row4col", o.row4col, o.m);
  rows.result("value", o.value, real, 1);
  rows.result("row_dual", o.row_dual, real, o.n);
  rows.result("col_dual", o.col_dual, real, o.m);
  rows.result("gap", o.gap, real, 1);
  rows.result("status", o.status, 1);
}
constexpr size_t kNumResults = 7;  // number of results in list_operands()

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_ASSIGNMENT_OPERANDS_H_
