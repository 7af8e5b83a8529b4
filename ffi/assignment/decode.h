// Decodes the operands and results of the FFI targets that return an assignment. The Python
// wrappers have checked shapes and dtypes already; the checks here are a backstop.
#ifndef JAXMATCH_DECODE_ASSIGNMENT_H_
#define JAXMATCH_DECODE_ASSIGNMENT_H_

#include "assignment/operands.h"
#include "common/call_rows.h"

namespace jaxmatch::assignment {

// Decodes the operands and results that list_operands() lists, and takes n and m from the shape of
// `cost`. If `cost` holds points or a shard of the cost matrix, the caller must correct n and m
// before it calls check_assignment(). `buffers`: number of results that follow the listed ones.
inline ffi::ErrorOr<AssignmentOperands> decode_assignment(ffi::RemainingArgs args,
                                                          ffi::RemainingRets rets,
                                                          Attributes& given, size_t buffers = 0) {
  AssignmentOperands o{};
  o.unmatched_dtype = Dtype::kF32;
  const auto list = [&](auto& rows) { list_operands(o, rows); };
  CallRows call(args, rets, given);
  if (!call.find(list, buffers)) return ffi::Unexpected(given.error());
  const auto sides = call.array("cost", list).dimensions();
  if (sides.size() < 2) return ffi::Unexpected(given.error("costs must have shape [..., n, m]"));
  o.batch = batch_size(sides, 2);
  o.n = sides[sides.size() - 2];
  o.m = sides[sides.size() - 1];
  if (o.n > INT32_MAX - 64 || o.m > INT32_MAX - 64) {
    return ffi::Unexpected(given.error("a side of 2^31 or more"));
  }
  o.maximize = given.flag("maximize");
  if (given.failed()) return ffi::Unexpected(given.error());
  return o;
}

// Checks the dtypes and sizes of all arrays. If one is wrong, returns false and records the error
// in `given`.
inline bool check_assignment(ffi::RemainingArgs args, ffi::RemainingRets rets, Attributes& given,
                             AssignmentOperands o) {
  CallRows call(args, rets, given);
  return call.check(o.batch, [&](auto& rows) { list_operands(o, rows); });
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_DECODE_ASSIGNMENT_H_
