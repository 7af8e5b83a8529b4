// Decodes the buffers of the target jaxmatch_assignment. Python has checked shapes and dtypes; the
// checks here are a backstop.
#ifndef JAXMATCH_DECODE_ASSIGNMENT_H_
#define JAXMATCH_DECODE_ASSIGNMENT_H_

#include <cstddef>
#include <cstdint>
#include <optional>

#include "assignment/operands.h"
#include "common/handler.h"

namespace jaxmatch::assignment {

// `given` tells which optional operands follow the costs, in the order of these bits.
enum Given : int64_t { kRowMask = 1, kColMask = 2, kUnmatchedCost = 4, kColDual = 8 };

inline std::optional<Dtype> DtypeOf(ffi::DataType dtype) {
  switch (dtype) {
    case ffi::BF16:
      return Dtype::kBF16;
    case ffi::F16:
      return Dtype::kF16;
    case ffi::F32:
      return Dtype::kF32;
    case ffi::F64:
      return Dtype::kF64;
    case ffi::S32:
      return Dtype::kS32;
    case ffi::S64:
      return Dtype::kS64;
    default:
      return std::nullopt;
  }
}

using IndexResult = ffi::Result<ffi::Buffer<ffi::S32>>;
using RealResult = ffi::Result<ffi::AnyBuffer>;

inline ffi::ErrorOr<AssignmentOperands> DecodeAssignment(ffi::RemainingArgs args,
                                                         IndexResult col4row, IndexResult row4col,
                                                         RealResult value, RealResult row_dual,
                                                         RealResult col_dual, RealResult gap,
                                                         IndexResult status, int64_t given,
                                                         bool maximize) {
  size_t next = 0;
  const auto take = [&](bool is_given) -> std::optional<ffi::AnyBuffer> {
    if (!is_given || next >= args.size()) return std::nullopt;
    auto buffer = args.get<ffi::AnyBuffer>(next++);
    return buffer.has_value() ? std::optional<ffi::AnyBuffer>(*buffer) : std::nullopt;
  };
  const auto cost = take(true);
  const auto row_mask = take(given & kRowMask), col_mask = take(given & kColMask);
  const auto unmatched = take(given & kUnmatchedCost), start = take(given & kColDual);
  if (!cost || cost->dimensions().size() < 2) {
    return ffi::Unexpected(
        ffi::Error::InvalidArgument("jaxmatch_assignment: costs must have shape [..., n, m]"));
  }
  const auto cost_dtype = DtypeOf(cost->element_type());
  const auto result_dtype = DtypeOf(value->element_type());
  const auto unmatched_dtype =
      unmatched ? DtypeOf(unmatched->element_type()) : std::optional<Dtype>(Dtype::kF32);
  if (!cost_dtype || !result_dtype || !unmatched_dtype) {
    return ffi::Unexpected(ffi::Error::InvalidArgument("jaxmatch_assignment: unsupported dtype"));
  }
  const auto dimensions = cost->dimensions();
  const int64_t n = dimensions[dimensions.size() - 2], m = dimensions[dimensions.size() - 1];
  if (n > INT32_MAX - 64 || m > INT32_MAX - 64) {
    return ffi::Unexpected(
        ffi::Error::InvalidArgument("jaxmatch_assignment: a side of 2^31 or more"));
  }
  const auto data = [](const auto& buffer) -> const void* {
    return buffer ? buffer->untyped_data() : nullptr;
  };
  AssignmentOperands operands;
  operands.batch = BatchSize(dimensions, 2);
  operands.n = n;
  operands.m = m;
  operands.cost = data(cost);
  operands.cost_dtype = *cost_dtype;
  operands.maximize = maximize;
  operands.row_mask = static_cast<const uint8_t*>(data(row_mask));
  operands.col_mask = static_cast<const uint8_t*>(data(col_mask));
  operands.unmatched_cost = data(unmatched);
  operands.unmatched_dtype = *unmatched_dtype;
  operands.start_dual = data(start);
  operands.result_dtype = *result_dtype;
  operands.col4row = col4row->typed_data();
  operands.row4col = row4col->typed_data();
  operands.value = value->untyped_data();
  operands.row_dual = row_dual->untyped_data();
  operands.col_dual = col_dual->untyped_data();
  operands.gap = gap->untyped_data();
  operands.status = status->typed_data();
  return operands;
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_DECODE_ASSIGNMENT_H_
