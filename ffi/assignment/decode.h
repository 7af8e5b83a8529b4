// Decodes the buffers of an assignment. Python has checked shapes and dtypes; the checks here are a
// backstop.
#ifndef JAXMATCH_DECODE_ASSIGNMENT_H_
#define JAXMATCH_DECODE_ASSIGNMENT_H_

#include "assignment/operands.h"
#include "common/call_rows.h"

namespace jaxmatch::assignment {

constexpr size_t kFirst = 1;  // optional operand

// The sides are those of the costs. The caller sets others where the costs are points or a shard,
// and then checks the arrays by check_assignment(). `buffers`: the number of further results.
inline ffi::ErrorOr<AssignmentOperands> decode_assignment(ffi::RemainingArgs args,
                                                          ffi::RemainingRets rets,
                                                          Attributes& given, size_t buffers = 0) {
  AssignmentOperands o{};
  o.unmatched_dtype = Dtype::kF32;
  const auto list = [&](auto& rows) { list_operands(o, rows); };
  CallRows call(args, rets, given, kFirst);
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

// Checks dtypes and sizes. Errors are recorded.
inline bool check_assignment(ffi::RemainingArgs args, ffi::RemainingRets rets, Attributes& given,
                             AssignmentOperands o) {
  CallRows call(args, rets, given, kFirst);
  return call.check(o.batch, [&](auto& rows) { list_operands(o, rows); });
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_DECODE_ASSIGNMENT_H_
