// Decodes the operands of sparse assignment problems.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_

#include "assignment/decode.h"
#include "common/limits.h"
#include "sparse_assignment/operands.h"

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
  kNumResults,
};

constexpr Name<bool> kCardinalities[] = {{"full", false}, {"maximum", true}};

// Operands: row pointers [..., n + 1] and columns [..., e] of one graph or of a batch of them,
// costs [..., e], and the optional ones.
inline ffi::ErrorOr<SparseBatch> decode_sparse(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                               Attributes& given) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  constexpr size_t kFirst = 3;
  const auto row_ptr = args.get<ffi::AnyBuffer>(0), col_ind = args.get<ffi::AnyBuffer>(1);
  const auto cost = args.get<ffi::AnyBuffer>(2);
  if (!row_ptr.has_value() || !col_ind.has_value() || !cost.has_value()) {
    return wrong("a graph or its costs are missing");
  }
  if (rets.size() < kNumResults) return wrong("the number of results is wrong");
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
  const auto unmatched = optional_operand(args, given, "unmatched_cost", real, kFirst);
  const auto unmatched_col = optional_operand(args, given, "unmatched_col_cost", real, kFirst);
  const auto start = optional_operand(args, given, "col_dual", real, kFirst);
  SparseBatch batch{};
  SparseProblem& p = batch.first;
  p.maximize = given.flag("maximize");
  p.maximum = given.named("cardinality", kCardinalities);
  if (given.failed()) return ffi::Unexpected(given.error());
  const auto dtype = dtype_of(cost->element_type());
  if (!dtype) return wrong("unsupported dtype");
  const auto last = [](const auto& buffer) { return buffer.dimensions().back(); };
  if (row_ptr->element_type() != ffi::S32 || col_ind->element_type() != ffi::S32 ||
      row_ptr->dimensions().size() < 1 || col_ind->dimensions().size() < 1 ||
      cost->dimensions().size() < 1 || last(*row_ptr) < 1 || last(*col_ind) != last(*cost)) {
    return wrong("the graph and its costs do not go together");
  }
  batch.size = batch_size(cost->dimensions(), 1);
  const int64_t n = last(*row_ptr) - 1, m = last(*result_at(rets, kRow4Col));
  p.capacity = last(*cost);
  if (n > JAXMATCH_LIMIT_MOST_VERTICES || m > JAXMATCH_LIMIT_MOST_VERTICES) {
    return wrong("more than 2^30 vertices a side");
  }
  p.n = int32_t(n);
  p.m = int32_t(m);
  batch.shared = row_ptr->dimensions().size() == 1;
  const int64_t graphs = batch.shared ? 1 : batch.size;
  const auto holds = [&](const auto& buffer, int64_t count) {
    return !buffer || int64_t(buffer->element_count()) == count;
  };
  if (int64_t(row_ptr->element_count()) != graphs * (n + 1) ||
      int64_t(col_ind->element_count()) != graphs * p.capacity ||
      !holds(row_mask, batch.size * n) || !holds(unmatched, batch.size * n) ||
      !holds(col_mask, batch.size * m) || !holds(unmatched_col, batch.size * m) ||
      !holds(start, batch.size * m) ||
      int64_t(result_at(rets, kCol4Row)->element_count()) != batch.size * n) {
    return wrong("sizes that do not go together");
  }
  const auto data = [](const auto& buffer) -> void* {
    return buffer ? buffer->untyped_data() : nullptr;
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  p.row_ptr = static_cast<const int32_t*>(row_ptr->untyped_data());
  p.col_ind = static_cast<const int32_t*>(col_ind->untyped_data());
  p.cost = cost->untyped_data();
  p.cost_dtype = *dtype;
  p.row_mask = static_cast<const bool*>(data(row_mask));
  p.col_mask = static_cast<const bool*>(data(col_mask));
  p.unmatched = data(unmatched);
  p.unmatched_col = data(unmatched_col);
  p.start_dual = data(start);
  p.result_dtype = *dtype_of(real);
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

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_
