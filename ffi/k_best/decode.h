// Decodes the operands of k best assignments, for the handlers of all platforms.
#ifndef JAXMATCH_K_BEST_DECODE_H_
#define JAXMATCH_K_BEST_DECODE_H_

#include "assignment/decode.h"
#include "k_best/batch.h"

namespace jaxmatch::k_best {

enum ResultIndex : size_t {
  kCol4Row,
  kRow4Col,
  kValue,
  kFound,
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
  KBestProblem first;
};

// Operands: costs [..., n, m], and the optional masks that are present. `buffers`: the number of
// further results.
inline ffi::ErrorOr<Batch> decode_k_best(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                         Attributes& given, size_t buffers = 0) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto cost = args.get<ffi::AnyBuffer>(0);
  if (!cost.has_value() || cost->dimensions().size() < 2) {
    return wrong("costs must have shape [..., n, m]");
  }
  given.expect_results(rets.size(), kNumResults + buffers);
  if (given.failed()) return ffi::Unexpected(given.error());
  const auto dtype_at = [&](size_t at) { return result_at(rets, at)->element_type(); };
  const ffi::DataType real = dtype_at(kValue);
  const auto row_mask = optional_operand(args, given, "row_mask", ffi::PRED);
  const auto col_mask = optional_operand(args, given, "col_mask", ffi::PRED);
  if (given.failed()) return ffi::Unexpected(given.error());
  for (size_t at : {kCol4Row, kRow4Col, kFound, kStatusAt, kCounts}) {
    if (dtype_at(at) != ffi::S32) return wrong("pairs, counts and status must be int32");
  }
  for (size_t at : {kValue, kRowDual, kColDual, kGap}) {
    if (dtype_at(at) != real || (real != ffi::F32 && real != ffi::F64)) {
      return wrong("values, duals and gap must all be float32 or all float64");
    }
  }
  const auto dtype = dtype_of(cost->element_type());
  if (!dtype) return wrong("unsupported dtype");
  const auto dimensions = cost->dimensions(), listed = result_at(rets, kValue)->dimensions();
  if (listed.size() == 0) return wrong("values must have shape [..., k]");
  KBestProblem p{};
  p.n = dimensions[dimensions.size() - 2];
  p.m = dimensions[dimensions.size() - 1];
  p.k = listed.back();
  if (p.n > INT32_MAX / 16 || p.m > INT32_MAX / 16 || p.k > INT32_MAX / 16) {
    return wrong("a side or a list of more than 2^27");
  }
  if (p.k < 1) return wrong("a list of no assignments");
  const auto data = [](const auto& buffer) {
    return static_cast<const uint8_t*>(buffer ? buffer->untyped_data() : nullptr);
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  const auto indices = [&](size_t at) { return static_cast<int32_t*>(result(at)); };
  p.cost = cost->untyped_data();
  p.cost_dtype = *dtype;
  p.maximize = given.flag("maximize");
  p.row_mask = data(row_mask);
  p.col_mask = data(col_mask);
  p.result_dtype = *dtype_of(real);
  p.col4row = indices(kCol4Row);
  p.row4col = indices(kRow4Col);
  p.value = result(kValue);
  p.found = indices(kFound);
  p.row_dual = result(kRowDual);
  p.col_dual = result(kColDual);
  p.gap = result(kGap);
  p.status = indices(kStatusAt);
  p.counts = indices(kCounts);
  const int64_t batch = batch_size(dimensions, 2);
  given.expect_size("row_mask", row_mask, batch * p.n);
  given.expect_size("col_mask", col_mask, batch * p.m);
  const auto expect = [&](const char* name, size_t at, int64_t each) {
    given.expect_size(name, result_at(rets, at), batch * each);
  };
  expect("col4row", kCol4Row, p.k * p.n);
  expect("row4col", kRow4Col, p.k * p.m);
  expect("value", kValue, p.k);
  expect("found", kFound, 1);
  expect("row_dual", kRowDual, p.n);
  expect("col_dual", kColDual, p.m);
  expect("gap", kGap, 1);
  expect("status", kStatusAt, 1);
  expect("counts", kCounts, kNumCounts);
  if (given.failed()) return ffi::Unexpected(given.error());
  return Batch{batch, p};
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_K_BEST_DECODE_H_
