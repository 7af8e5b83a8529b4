// Decodes the operands of sparse assignment problems.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_

#include "common/call_rows.h"
#include "common/limits.h"
#include "sparse_assignment/operands.h"

namespace jaxmatch::sparse_assignment {

using Batch = BatchOf<SparseProblem>;

// Reads the attributes of the call into `p`, whose n and m are set already. Errors are recorded in
// `given`.
inline void read_options(Attributes& given, SparseProblem* p) {
  p->maximize = given.flag("maximize");
  if (given.operand("unmatched_cost") < 0) p->unmatched_dtype = p->result_dtype;
  if (given.operand("unmatched_col_cost") < 0) p->unmatched_col_dtype = p->result_dtype;
  if (p->n > kMostVertices || p->m > kMostVertices) given.fail("more than 2^30 vertices a side");
}

// Operands: row pointers [..., n + 1] and columns [..., e] of one graph or of a batch of graphs,
// costs [..., e], and optional operands. CUDA also needs the graph by columns (col_ptr and
// row_ind). `buffers`: the number of results after those of list_operands().
inline ffi::ErrorOr<Batch> decode_sparse(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                         Attributes& given, size_t buffers = 0) {
  SparseProblem p{};
  const auto list = [&](auto& rows) { list_operands(p, rows); };
  CallRows call(args, rets, given);
  if (!call.find(list, buffers)) return ffi::Unexpected(given.error());
  const auto shape = [&](const char* name) { return call.array(name, list).dimensions(); };
  const auto row_ptr = shape("row_ptr"), row4col = shape("row4col"), cost = shape("cost");
  if (row_ptr.size() < 1 || row_ptr.back() < 1 || row4col.size() < 1 || cost.size() < 1) {
    return ffi::Unexpected(given.error("the graph and its costs do not go together"));
  }
  p.n = row_ptr.back() - 1;
  p.m = row4col.back();
  p.capacity = cost.back();
  p.shared_graph = row_ptr.size() == 1;
  read_options(given, &p);
  const int64_t batch = batch_size(cost, 1);
  if (given.failed() || !call.check(batch, list)) return ffi::Unexpected(given.error());
  return Batch{batch, p};
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_DECODE_H_
