// Decodes the operands of transport problems, for the handlers of all platforms.
#ifndef JAXMATCH_TRANSPORT_DECODE_H_
#define JAXMATCH_TRANSPORT_DECODE_H_

#include "assignment/decode.h"
#include "common/handler.h"
#include "transport/batch.h"

namespace jaxmatch::transport {

enum ResultIndex : size_t {
  kRows,
  kCols,
  kMass,
  kValue,
  kRowDual,
  kColDual,
  kGap,
  kStatusAt,
  kCounts,
  kNumResults,  // a workspace follows on CUDA
};

// The first problem of the batch.
struct Batch {
  int64_t size;
  TransportProblem first;
};

inline ffi::ErrorOr<Batch> decode_transport(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                            Attributes& given) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto cost = args.get<ffi::AnyBuffer>(0), supply = args.get<ffi::AnyBuffer>(1),
             demand = args.get<ffi::AnyBuffer>(2);
  const auto row_mask = optional_operand(args, given, "row_mask", ffi::PRED, 3);
  const auto col_mask = optional_operand(args, given, "col_mask", ffi::PRED, 3);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (!cost.has_value() || !supply.has_value() || !demand.has_value()) {
    return wrong("costs, supplies or demands are missing");
  }
  if (rets.size() < kNumResults) return wrong("the number of results is wrong");
  if (cost->dimensions().size() < 2) return wrong("costs must have shape [..., n, m]");
  const auto dtype_at = [&](size_t at) { return result_at(rets, at)->element_type(); };
  const ffi::DataType mass = supply->element_type(), real = dtype_at(kValue);
  const auto moved = optional_operand(args, given, "moved", mass, 3);
  const auto start = optional_operand(args, given, "col_dual", real, 3);
  for (size_t at : {kRows, kCols, kStatusAt, kCounts}) {
    if (dtype_at(at) != ffi::S32) return wrong("indices, status and counts must be int32");
  }
  for (size_t at : {kValue, kRowDual, kColDual, kGap}) {
    if (dtype_at(at) != real || (real != ffi::F32 && real != ffi::F64)) {
      return wrong("value, duals and gap must all be float32 or all float64");
    }
  }
  if (demand->element_type() != mass || dtype_at(kMass) != mass) {
    return wrong("supplies, demands and the plan must have one dtype");
  }
  const auto cost_dtype = dtype_of(cost->element_type()), mass_dtype = capacity_dtype_of(mass);
  if (!cost_dtype || !mass_dtype) return wrong("unsupported dtype");
  const auto dimensions = cost->dimensions();
  const int64_t n = dimensions[dimensions.size() - 2], m = dimensions[dimensions.size() - 1];
  if (moved && n * m == 0) return wrong("dummies are missing");
  if (n + m > INT32_MAX / 16) return wrong("more than 2^27 rows and columns");
  const auto data = [](const auto& buffer) {
    return static_cast<const uint8_t*>(buffer ? buffer->untyped_data() : nullptr);
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  TransportProblem p{};
  p.cost = cost->untyped_data();
  p.cost_dtype = *cost_dtype;
  p.n = n;
  p.m = m;
  p.maximize = given.flag("maximize");
  p.supply = supply->untyped_data();
  p.demand = demand->untyped_data();
  p.mass_dtype = *mass_dtype;
  p.row_mask = data(row_mask);
  p.col_mask = data(col_mask);
  p.moved = data(moved);
  p.start_dual = data(start);
  p.result_dtype = *dtype_of(real);
  p.rows = static_cast<int32_t*>(result(kRows));
  p.cols = static_cast<int32_t*>(result(kCols));
  p.mass = result(kMass);
  p.value = result(kValue);
  p.row_dual = result(kRowDual);
  p.col_dual = result(kColDual);
  p.gap = result(kGap);
  p.status = static_cast<int32_t*>(result(kStatusAt));
  p.counts = static_cast<int32_t*>(result(kCounts));
  if (given.failed()) return ffi::Unexpected(given.error());
  return Batch{batch_size(dimensions, 2), p};
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_DECODE_H_
