// Decodes the buffers of an assignment. Python has checked shapes and dtypes; the checks here are a
// backstop.
#ifndef JAXMATCH_DECODE_ASSIGNMENT_H_
#define JAXMATCH_DECODE_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "assignment/operands.h"
#include "common/attributes.h"
#include "common/decode.h"

namespace jaxmatch::assignment {

// The first results of every target that returns an assignment, in this order.
enum ResultIndex : size_t {
  kCol4Row,
  kRow4Col,
  kValue,
  kRowDual,
  kColDual,
  kGap,
  kStatus,
  kNumResults,
};

inline std::optional<ffi::AnyBuffer> result_at(ffi::RemainingRets rets, size_t at) {
  auto buffer = rets.get<ffi::AnyBuffer>(at);
  return buffer.has_value() ? std::optional<ffi::AnyBuffer>(**buffer) : std::nullopt;
}

// The optional operand called `name`, if the call has it; `first` is the index of the first one. An
// operand that is named but missing, or has another dtype, is an error of the call.
inline std::optional<ffi::AnyBuffer> optional_operand(ffi::RemainingArgs args, Attributes& given,
                                                      std::string_view name,
                                                      std::optional<ffi::DataType> dtype,
                                                      size_t first = 1) {
  const int at = given.operand(name);
  if (at < 0) return std::nullopt;
  const auto buffer = args.get<ffi::AnyBuffer>(size_t(at) + first);
  if (!buffer.has_value()) {
    given.fail("the operand " + std::string(name) + " is missing");
    return std::nullopt;
  }
  if (dtype && buffer->element_type() != *dtype) {
    given.fail("the operand " + std::string(name) + " has another dtype");
    return std::nullopt;
  }
  return *buffer;
}

// Records the first array whose size is not that of `batch` problems with n rows and m columns. The
// costs have another if they are points, or a shard.
inline void expect_sizes(ffi::RemainingArgs args, ffi::RemainingRets rets, Attributes& given,
                         int64_t batch, int64_t n, int64_t m) {
  const auto operand = [&](const char* name, int64_t each) {
    given.expect_size(name, optional_operand(args, given, name, std::nullopt), batch * each);
  };
  const auto result = [&](const char* name, size_t at, int64_t each) {
    given.expect_size(name, result_at(rets, at), batch * each);
  };
  operand("row_mask", n);
  operand("col_mask", m);
  operand("unmatched_cost", n);
  operand("col_dual", m);
  result("col4row", kCol4Row, n);
  result("row4col", kRow4Col, m);
  result("value", kValue, 1);
  result("row_dual", kRowDual, n);
  result("col_dual", kColDual, m);
  result("gap", kGap, 1);
  result("status", kStatus, 1);
}

// The caller checks sizes by expect_sizes(). `buffers`: the number of further results.
inline ffi::ErrorOr<AssignmentOperands> decode_assignment(ffi::RemainingArgs args,
                                                          ffi::RemainingRets rets,
                                                          Attributes& given, size_t buffers = 0) {
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto cost = args.get<ffi::AnyBuffer>(0);
  given.expect_results(rets.size(), kNumResults + buffers);
  if (given.failed()) return ffi::Unexpected(given.error());
  const auto dtype_at = [&](size_t at) { return result_at(rets, at)->element_type(); };
  const ffi::DataType real = dtype_at(kValue);
  const auto row_mask = optional_operand(args, given, "row_mask", ffi::PRED);
  const auto col_mask = optional_operand(args, given, "col_mask", ffi::PRED);
  const auto unmatched = optional_operand(args, given, "unmatched_cost", std::nullopt);
  const auto start = optional_operand(args, given, "col_dual", real);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (!cost.has_value() || cost->dimensions().size() < 2) {
    return wrong("costs must have shape [..., n, m]");
  }
  for (size_t at : {kCol4Row, kRow4Col, kStatus}) {
    if (dtype_at(at) != ffi::S32) return wrong("pairs and status must be int32");
  }
  for (size_t at : {kValue, kRowDual, kColDual, kGap}) {
    if (dtype_at(at) != real || (real != ffi::F32 && real != ffi::F64)) {
      return wrong("value, duals and gap must all be float32 or all float64");
    }
  }
  const auto cost_dtype = dtype_of(cost->element_type());
  const auto result_dtype = dtype_of(real);
  const auto unmatched_dtype =
      unmatched ? capacity_dtype_of(unmatched->element_type()) : std::optional<Dtype>(Dtype::kF32);
  if (!cost_dtype || !result_dtype || !unmatched_dtype) return wrong("unsupported dtype");
  const auto dimensions = cost->dimensions();
  const int64_t n = dimensions[dimensions.size() - 2], m = dimensions[dimensions.size() - 1];
  if (n > INT32_MAX - 64 || m > INT32_MAX - 64) return wrong("a side of 2^31 or more");
  const auto data = [](const auto& buffer) -> const void* {
    return buffer ? buffer->untyped_data() : nullptr;
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  AssignmentOperands o;
  o.batch = batch_size(dimensions, 2);
  o.n = n;
  o.m = m;
  o.cost = cost->untyped_data();
  o.cost_dtype = *cost_dtype;
  o.maximize = given.flag("maximize");
  o.row_mask = static_cast<const uint8_t*>(data(row_mask));
  o.col_mask = static_cast<const uint8_t*>(data(col_mask));
  o.unmatched_cost = data(unmatched);
  o.unmatched_dtype = *unmatched_dtype;
  o.start_dual = data(start);
  o.result_dtype = *result_dtype;
  o.col4row = static_cast<int32_t*>(result(kCol4Row));
  o.row4col = static_cast<int32_t*>(result(kRow4Col));
  o.value = result(kValue);
  o.row_dual = result(kRowDual);
  o.col_dual = result(kColDual);
  o.gap = result(kGap);
  o.status = static_cast<int32_t*>(result(kStatus));
  if (given.failed()) return ffi::Unexpected(given.error());
  return o;
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_DECODE_ASSIGNMENT_H_
