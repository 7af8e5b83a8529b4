// Decodes the operands of sparse assignment, for the handlers of all platforms.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CUDA_DECODE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CUDA_DECODE_H_

#include "assignment/decode.h"
#include "common/handler.h"
#include "common/limits.h"
#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

constexpr Name<Cardinality> kCardinalities[] = {{"full", Cardinality::kFull},
                                                {"maximum", Cardinality::kMaximum}};

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

// The first problem of the batch.
struct Batch {
  int64_t size;
  SparseProblem first;
};

// Operands: row_ptr [..., n + 1], col_ind [..., e], costs [..., e], and the optional ones.
inline ffi::ErrorOr<Batch> decode_sparse_assignment(ffi::RemainingArgs args,
                                                    ffi::RemainingRets rets, Attributes& given) {
  using assignment::optional_operand, assignment::result_at;
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  const auto row_ptr = args.get<ffi::AnyBuffer>(0), col_ind = args.get<ffi::AnyBuffer>(1),
             cost = args.get<ffi::AnyBuffer>(2);
  if (!row_ptr.has_value() || !col_ind.has_value() || !cost.has_value()) {
    return wrong("the graph or its costs are missing");
  }
  if (rets.size() < kNumResults) return wrong("the number of results is wrong");
  const auto dtype_at = [&](size_t at) { return result_at(rets, at)->element_type(); };
  const ffi::DataType real = dtype_at(kValue);
  const auto option = [&](const char* name, std::optional<ffi::DataType> dtype) {
    return optional_operand(args, given, name, dtype, 3);
  };
  const auto col_ptr = option("col_ptr", ffi::S32), row_ind = option("row_ind", ffi::S32);
  const auto row_mask = option("row_mask", ffi::PRED), col_mask = option("col_mask", ffi::PRED);
  const auto row_stays = option("unmatched_cost", std::nullopt);
  const auto col_stays = option("unmatched_col_cost", std::nullopt);
  const auto start = option("col_dual", real);
  SparseProblem p{};
  p.maximize = given.flag("maximize");
  p.cardinality = given.named("cardinality", kCardinalities);
  if (given.failed()) return ffi::Unexpected(given.error());
  for (size_t at : {kCol4Row, kRow4Col, kEdge, kStatusAt, kCounts}) {
    if (dtype_at(at) != ffi::S32) return wrong("pairs, edges, status and counts must be int32");
  }
  for (size_t at : {kValue, kRowDual, kColDual, kGap}) {
    if (dtype_at(at) != real || (real != ffi::F32 && real != ffi::F64)) {
      return wrong("value, duals and gap must all be float32 or all float64");
    }
  }
  const auto cost_dtype = dtype_of(cost->element_type());
  const auto dtype_of_stays = [](const auto& buffer) {
    return buffer ? capacity_dtype_of(buffer->element_type()) : std::optional(Dtype::kF32);
  };
  const auto row_dtype = dtype_of_stays(row_stays), col_dtype = dtype_of_stays(col_stays);
  if (!cost_dtype || !row_dtype || !col_dtype) return wrong("unsupported dtype");
  if (row_ptr->element_type() != ffi::S32 || col_ind->element_type() != ffi::S32) {
    return wrong("a graph's arrays must be int32");
  }
  const auto rows = row_ptr->dimensions(), edges = cost->dimensions(),
             cols = result_at(rets, kRow4Col)->dimensions();
  if (rows.size() == 0 || edges.size() == 0 || cols.size() == 0 || rows.back() < 1) {
    return wrong("a graph's arrays need a dimension");
  }
  p.n = rows.back() - 1;
  p.m = cols.back();
  p.capacity = edges.back();
  const int64_t batch = batch_size(edges, 1);
  // A graph without batch dimensions is that of all problems.
  p.shared_graph = rows.size() == 1;
  const int64_t graphs = p.shared_graph ? 1 : batch;
  if (p.n > kMostVertices || p.m > kMostVertices || p.capacity > kMostGraphEdges) {
    return wrong("a side or the edges are too many");
  }
  const auto has = [](const auto& buffer, int64_t count) {
    return !buffer.has_value() || int64_t(buffer->element_count()) == count;
  };
  if (int64_t(cost->element_count()) != batch * p.capacity || !has(row_ptr, graphs * (p.n + 1)) ||
      !has(col_ind, graphs * p.capacity) || !has(col_ptr, graphs * (p.m + 1)) ||
      !has(row_ind, graphs * p.capacity) || !has(row_mask, batch * p.n) ||
      !has(col_mask, batch * p.m) || !has(row_stays, batch * p.n) || !has(col_stays, batch * p.m) ||
      !has(start, batch * p.m)) {
    return wrong("the arrays do not belong together");
  }
  const auto data = [](const auto& buffer) -> const void* {
    return buffer ? buffer->untyped_data() : nullptr;
  };
  const auto result = [&](size_t at) { return result_at(rets, at)->untyped_data(); };
  p.row_ptr = static_cast<const int32_t*>(row_ptr->untyped_data());
  p.col_ind = static_cast<const int32_t*>(col_ind->untyped_data());
  p.col_ptr = static_cast<const int32_t*>(data(col_ptr));
  p.row_ind = static_cast<const int32_t*>(data(row_ind));
  p.cost = cost->untyped_data();
  p.cost_dtype = *cost_dtype;
  p.row_mask = static_cast<const uint8_t*>(data(row_mask));
  p.col_mask = static_cast<const uint8_t*>(data(col_mask));
  p.unmatched_cost = data(row_stays);
  p.unmatched_col_cost = data(col_stays);
  p.unmatched_dtype = *row_dtype;
  p.unmatched_col_dtype = *col_dtype;
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
  return Batch{batch, p};
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CUDA_DECODE_H_
