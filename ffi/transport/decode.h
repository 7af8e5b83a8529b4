// Decodes the operands of transport problems, for the handlers of all platforms.
#ifndef JAXMATCH_TRANSPORT_DECODE_H_
#define JAXMATCH_TRANSPORT_DECODE_H_

#include "assignment/decode.h"
#include "assignment/metric_names.h"
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

constexpr Name<Dtype> kDtypes[] = {
    {"bfloat16", Dtype::kBF16}, {"float16", Dtype::kF16}, {"float32", Dtype::kF32},
    {"float64", Dtype::kF64},   {"int32", Dtype::kS32},   {"int64", Dtype::kS64},
};

// The first problem of the batch.
struct Batch {
  int64_t size;
  TransportProblem first;
};

// All but the costs, of which `p` holds the dtype and the sizes. `buffers`: the number of further
// results.
inline ffi::ErrorOr<Batch> decode_masses(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                         Attributes& given, size_t buffers, int64_t batch,
                                         TransportProblem p) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto supply = args.get<ffi::AnyBuffer>(1), demand = args.get<ffi::AnyBuffer>(2);
  const auto row_mask = optional_operand(args, given, "row_mask", ffi::PRED, 3);
  const auto col_mask = optional_operand(args, given, "col_mask", ffi::PRED, 3);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (!supply.has_value() || !demand.has_value()) return wrong("supplies or demands are missing");
  given.expect_results(rets.size(), kNumResults + buffers);
  if (given.failed()) return ffi::Unexpected(given.error());
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
  const auto mass_dtype = capacity_dtype_of(mass);
  if (!mass_dtype) return wrong("unsupported dtype");
  if (moved && (p.n == 0 || p.m == 0)) return wrong("dummies are missing");
  if (p.n + p.m > INT32_MAX / 16) return wrong("more than 2^27 rows and columns");
  const auto data = [](const auto& buffer) {
    return static_cast<const uint8_t*>(buffer ? buffer->untyped_data() : nullptr);
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  p.maximize = given.flag("maximize");
  p.coarsest = given.named("coarsest", kDtypes);
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
  const int64_t entries = p.n + p.m > 0 ? p.n + p.m - 1 : 0;
  const auto expect = [&](const char* name, size_t at, int64_t each) {
    given.expect_size(name, result_at(rets, at), batch * each);
  };
  given.expect_size("supply", *supply, batch * p.n);
  given.expect_size("demand", *demand, batch * p.m);
  given.expect_size("row_mask", row_mask, batch * p.n);
  given.expect_size("col_mask", col_mask, batch * p.m);
  given.expect_size("moved", moved, batch);
  given.expect_size("col_dual", start, batch * p.m);
  expect("rows", kRows, entries);
  expect("cols", kCols, entries);
  expect("mass", kMass, entries);
  expect("value", kValue, 1);
  expect("row_dual", kRowDual, p.n);
  expect("col_dual", kColDual, p.m);
  expect("gap", kGap, 1);
  expect("status", kStatusAt, 1);
  expect("counts", kCounts, 2);
  if (given.failed()) return ffi::Unexpected(given.error());
  return Batch{batch, p};
}

// Operands: costs [..., n, m], supplies, demands, and the optional ones of decode_masses.
inline ffi::ErrorOr<Batch> decode_transport(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                            Attributes& given, size_t buffers = 0) {
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto cost = args.get<ffi::AnyBuffer>(0);
  if (!cost.has_value()) return wrong("costs are missing");
  const auto dimensions = cost->dimensions();
  if (dimensions.size() < 2) return wrong("costs must have shape [..., n, m]");
  const auto dtype = dtype_of(cost->element_type());
  if (!dtype) return wrong("unsupported dtype");
  TransportProblem p{};
  p.cost = cost->untyped_data();
  p.cost_dtype = *dtype;
  p.n = dimensions[dimensions.size() - 2];
  p.m = dimensions[dimensions.size() - 1];
  return decode_masses(args, rets, given, buffers, batch_size(dimensions, 2), p);
}

// Operands: the rows' points [..., dims, n], supplies, demands, and the optional ones, of which the
// columns' points [..., dims, m] are always present. With dummies, `last_row` [..., m + 1] and
// `last_col` [..., n] are their costs, and the masses have an entry more than there are points.
inline ffi::ErrorOr<Batch> decode_transport_points(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                                   Attributes& given, size_t buffers = 0) {
  using assignment::optional_operand;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto x = args.get<ffi::AnyBuffer>(0);
  if (!x.has_value()) return wrong("points are missing");
  const auto type = x->element_type();
  const auto y = optional_operand(args, given, "col_points", type, 3);
  const auto last_row = optional_operand(args, given, "last_row", type, 3);
  const auto last_col = optional_operand(args, given, "last_col", type, 3);
  TransportProblem p{};
  p.metric = given.named("metric", assignment::kMetrics);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (!y || x->dimensions().size() < 2 || y->dimensions().size() < 2 ||
      bool(last_row) != bool(last_col)) {
    return wrong("points must have shape [..., dims, n]");
  }
  if (type != ffi::F32 && type != ffi::F64) return wrong("unsupported dtype");
  const int64_t dummies = last_row ? 1 : 0, n = x->dimensions().back(), m = y->dimensions().back();
  const int64_t batch = batch_size(x->dimensions(), 2);
  p.dims = x->dimensions()[x->dimensions().size() - 2];
  p.n = n + dummies;
  p.m = m + dummies;
  const auto holds = [&](const auto& buffer, int64_t each) {
    return !buffer || int64_t(buffer->element_count()) == batch * each;
  };
  if (!holds(y, p.dims * m) || !holds(last_row, p.m) || !holds(last_col, n)) {
    return wrong("points that do not go together");
  }
  p.cost_dtype = *dtype_of(type);
  p.row_points = x->untyped_data();
  p.col_points = y->untyped_data();
  if (last_row) p.last_row = last_row->untyped_data();
  if (last_col) p.last_col = last_col->untyped_data();
  return decode_masses(args, rets, given, buffers, batch, p);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_DECODE_H_
