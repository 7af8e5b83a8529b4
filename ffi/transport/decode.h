// Decodes the operands of transport problems, for the handlers of all platforms.
#ifndef JAXMATCH_TRANSPORT_DECODE_H_
#define JAXMATCH_TRANSPORT_DECODE_H_

#include "common/call_rows.h"
#include "costs/metric_names.h"
#include "transport/operands.h"

namespace jaxmatch::transport {

constexpr Name<Dtype> kDtypes[] = {
    {"bfloat16", Dtype::kBF16}, {"float16", Dtype::kF16}, {"float32", Dtype::kF32},
    {"float64", Dtype::kF64},   {"int32", Dtype::kS32},   {"int64", Dtype::kS64},
};

using Batch = BatchOf<TransportProblem>;

// Checks a call, after its arrays were found and its sizes were read.
template <class List>
ffi::ErrorOr<Batch> checked(CallRows& call, Attributes& given, const List& list, int64_t batch,
                            TransportProblem& p) {
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  if (p.moved && (p.n == 0 || p.m == 0)) return wrong("dummies are missing");
  if (p.n + p.m > INT32_MAX / 16) return wrong("more than 2^27 rows and columns");
  p.maximize = given.flag("maximize");
  p.coarsest = given.named("coarsest", kDtypes);
  if (!call.check(batch, list)) return ffi::Unexpected(given.error());
  return Batch{batch, p};
}

// Operands: costs [..., n, m], supplies, demands, and the optional operands that are present.
// `buffers`: the number of results that follow those listed in transport/operands.h.
inline ffi::ErrorOr<Batch> decode_transport(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                            Attributes& given, size_t buffers = 0) {
  TransportProblem p{};
  const auto list = [&](auto& rows) {
    list_costs(p, rows);
    list_masses(p, rows);
  };
  CallRows call(args, rets, given);
  if (!call.find(list, buffers)) return ffi::Unexpected(given.error());
  const auto sides = call.array("cost", list).dimensions();
  if (sides.size() < 2) return ffi::Unexpected(given.error("costs must have shape [..., n, m]"));
  p.n = sides[sides.size() - 2];
  p.m = sides[sides.size() - 1];
  return checked(call, given, list, batch_size(sides, 2), p);
}

// Operands: the rows' points [..., dims, n], supplies, demands, and optional operands. The columns'
// points [..., dims, m] are listed as optional but must be present. With a dummy row and a dummy
// column, `last_row` [..., m + 1] and `last_col` [..., n] are their costs, and each side has one
// more mass than it has points.
inline ffi::ErrorOr<Batch> decode_transport_points(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                                   Attributes& given, size_t buffers = 0) {
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  TransportProblem p{};
  const auto list = [&](auto& rows) {
    list_row_points(p, rows);
    list_masses(p, rows);
    list_col_points(p, rows);
  };
  CallRows call(args, rets, given);
  p.metric = given.named("metric", kMetrics);
  if (!call.find(list, buffers)) return ffi::Unexpected(given.error());
  const auto present = [&](const char* name) { return given.operand(name) >= 0; };
  if (!present("col_points") || present("last_row") != present("last_col")) {
    return wrong("the points of columns or the costs of a dummy are missing");
  }
  const auto x = call.array("row_points", list).dimensions();
  const auto y = call.array("col_points", list).dimensions();
  if (x.size() < 2 || y.size() < 2) return wrong("points must have shape [..., dims, n]");
  const int64_t dummies = p.last_row ? 1 : 0;
  p.dims = x[x.size() - 2];
  p.n = x.back() + dummies;
  p.m = y.back() + dummies;
  if (p.dims > INT32_MAX) return wrong("points of 2^31 dimensions or more");
  return checked(call, given, list, batch_size(x, 2), p);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_TRANSPORT_DECODE_H_
