// Decodes the operands of sparse assignment problems.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_

#include "assignment/decode.h"
#include "common/limits.h"
#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

enum ResultIndex : size_t {
  kCol4Row,
  kRow4Col,
  kEdge,
  kValue,
  kRowDual,
  kColDual,
  kGap,
  kStatusAt,
  kCounts,
  kNumResults,  // a workspace follows on CUDA
};

constexpr Name<Cardinality> kCardinalities[] = {{"full", Cardinality::kFull},
                                                {"maximum", Cardinality::kMaximum}};

// The first problem of the batch.
struct Batch {
  int64_t size;
  SparseProblem first;
};

constexpr size_t kFirst = 3;  // optional operand

// All but the graph and its costs, which are three operands, or points and a radius. `buffers`: the
// number of further results.
inline ffi::ErrorOr<Batch> decode_options(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                          Attributes& given, size_t buffers, int64_t n, int64_t m,
                                          int64_t size) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  given.expect_results(rets.size(), kNumResults + buffers);
  if (given.failed()) return ffi::Unexpected(given.error());
  const auto dtype_at = [&](size_t at) { return result_at(rets, at)->element_type(); };
  const ffi::DataType real = dtype_at(kValue);
  for (size_t at : {kCol4Row, kRow4Col, kEdge, kStatusAt, kCounts}) {
    if (dtype_at(at) != ffi::S32) return wrong("indices, status and counts must be int32");
  }
  for (size_t at : {kValue, kRowDual, kColDual, kGap}) {
    if (dtype_at(at) != real || (real != ffi::F32 && real != ffi::F64)) {
      return wrong("value, duals and gap must all be float32 or all float64");
    }
  }
  const auto row_mask = optional_operand(args, given, "row_mask", ffi::PRED, kFirst);
  const auto col_mask = optional_operand(args, given, "col_mask", ffi::PRED, kFirst);
  const auto unmatched = optional_operand(args, given, "unmatched_cost", {}, kFirst);
  const auto unmatched_col = optional_operand(args, given, "unmatched_col_cost", {}, kFirst);
  const auto start = optional_operand(args, given, "col_dual", real, kFirst);
  Batch batch{};
  batch.size = size;
  SparseProblem& p = batch.first;
  p.maximize = given.flag("maximize");
  p.cardinality = given.named("cardinality", kCardinalities);
  if (given.failed()) return ffi::Unexpected(given.error());
  if (n > JAXMATCH_LIMIT_MOST_VERTICES || m > JAXMATCH_LIMIT_MOST_VERTICES) {
    return wrong("more than 2^30 vertices a side");
  }
  p.n = n;
  p.m = m;
  const auto price_dtype = [&](const auto& buffer) {
    return buffer ? dtype_of(buffer->element_type()) : dtype_of(real);
  };
  const std::optional<Dtype> of_rows = price_dtype(unmatched), of_cols = price_dtype(unmatched_col);
  if (!of_rows || !of_cols) return wrong("unmatched costs of an unsupported dtype");
  const auto expect = [&](const char* name, size_t at, int64_t each) {
    given.expect_size(name, result_at(rets, at), size * each);
  };
  given.expect_size("row_mask", row_mask, size * n);
  given.expect_size("col_mask", col_mask, size * m);
  given.expect_size("unmatched_cost", unmatched, size * n);
  given.expect_size("unmatched_col_cost", unmatched_col, size * m);
  given.expect_size("col_dual", start, size * m);
  expect("col4row", kCol4Row, n);
  expect("row4col", kRow4Col, m);
  expect("edge", kEdge, n);
  expect("value", kValue, 1);
  expect("row_dual", kRowDual, n);
  expect("col_dual", kColDual, m);
  expect("gap", kGap, 1);
  expect("status", kStatusAt, 1);
  expect("counts", kCounts, 2);
  if (given.failed()) return ffi::Unexpected(given.error());
  const auto data = [](const auto& buffer) -> void* {
    return buffer ? buffer->untyped_data() : nullptr;
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  p.row_mask = static_cast<const uint8_t*>(data(row_mask));
  p.col_mask = static_cast<const uint8_t*>(data(col_mask));
  p.unmatched_cost = data(unmatched);
  p.unmatched_col_cost = data(unmatched_col);
  p.start_dual = data(start);
  p.result_dtype = *dtype_of(real);
  p.unmatched_dtype = *of_rows;
  p.unmatched_col_dtype = *of_cols;
  p.col4row = static_cast<int32_t*>(result(kCol4Row));
  p.row4col = static_cast<int32_t*>(result(kRow4Col));
  p.edge = static_cast<int32_t*>(result(kEdge));
  p.value = result(kValue);
  p.row_dual = result(kRowDual);
  p.col_dual = result(kColDual);
  p.gap = result(kGap);
  p.status = static_cast<int32_t*>(result(kStatusAt));
  p.counts = static_cast<int32_t*>(result(kCounts));
  return batch;
}

// Operands: row pointers [..., n + 1] and columns [..., e] of one graph or of a batch of them,
// costs [..., e], and the optional ones, of which CUDA needs the other direction of the graph.
inline ffi::ErrorOr<Batch> decode_sparse(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                         Attributes& given, size_t buffers = 0) {
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto row_ptr = args.get<ffi::AnyBuffer>(0), col_ind = args.get<ffi::AnyBuffer>(1);
  const auto cost = args.get<ffi::AnyBuffer>(2);
  if (!row_ptr.has_value() || !col_ind.has_value() || !cost.has_value()) {
    return wrong("a graph or its costs are missing");
  }
  const auto dtype = dtype_of(cost->element_type());
  if (!dtype) return wrong("unsupported dtype");
  const auto last = [](const auto& buffer) { return buffer.dimensions().back(); };
  if (row_ptr->element_type() != ffi::S32 || col_ind->element_type() != ffi::S32 ||
      row_ptr->dimensions().size() < 1 || col_ind->dimensions().size() < 1 ||
      cost->dimensions().size() < 1 || last(*row_ptr) < 1 || last(*col_ind) != last(*cost) ||
      rets.size() < kNumResults || assignment::result_at(rets, kRow4Col)->dimensions().size() < 1) {
    return wrong("the graph and its costs do not go together");
  }
  const int64_t n = last(*row_ptr) - 1, m = last(*assignment::result_at(rets, kRow4Col));
  auto batch = decode_options(args, rets, given, buffers, n, m, batch_size(cost->dimensions(), 1));
  if (!batch.has_value()) return batch;
  SparseProblem& p = batch->first;
  const auto col_ptr = assignment::optional_operand(args, given, "col_ptr", ffi::S32, kFirst);
  const auto row_ind = assignment::optional_operand(args, given, "row_ind", ffi::S32, kFirst);
  if (given.failed()) return ffi::Unexpected(given.error());
  p.capacity = last(*cost);
  p.shared_graph = row_ptr->dimensions().size() == 1;
  const int64_t graphs = p.shared_graph ? 1 : batch->size;
  const auto holds = [&](const auto& buffer, int64_t each) {
    return !buffer.has_value() || int64_t(buffer->element_count()) == graphs * each;
  };
  if (!holds(row_ptr, n + 1) || !holds(col_ind, p.capacity) || !holds(col_ptr, m + 1) ||
      !holds(row_ind, p.capacity)) {
    return wrong("sizes that do not go together");
  }
  if (col_ptr) p.col_ptr = static_cast<const int32_t*>(col_ptr->untyped_data());
  if (row_ind) p.row_ind = static_cast<const int32_t*>(row_ind->untyped_data());
  p.row_ptr = static_cast<const int32_t*>(row_ptr->untyped_data());
  p.col_ind = static_cast<const int32_t*>(col_ind->untyped_data());
  p.cost = cost->untyped_data();
  p.cost_dtype = *dtype;
  return batch;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_
