// Decodes the calls of jaxmatch_nearest.
#ifndef JAXMATCH_NEAREST_DECODE_H_
#define JAXMATCH_NEAREST_DECODE_H_

#include "common/call_rows.h"
#include "costs/metric_names.h"
#include "nearest/operands.h"

namespace jaxmatch::nearest {

using Batch = BatchOf<NearestProblem>;

// Operands: points [..., n, dims] and [..., m, dims], prices [..., m], and columns
// [..., n, known] near each row, of which k or more are different. They only save time.
inline ffi::ErrorOr<Batch> decode_nearest(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                          Attributes& given) {
  NearestProblem p{};
  const auto list = [&](auto& rows) { list_operands(p, rows); };
  CallRows call(args, rets, given);
  p.metric = given.named("metric", kMetrics);
  if (!call.find(list)) return ffi::Unexpected(given.error());
  const auto x = call.array("x", list).dimensions(), y = call.array("y", list).dimensions();
  const auto near = call.array("near", list).dimensions(),
             col = call.array("col", list).dimensions();
  if (x.size() < 2 || y.size() < 2 || near.size() < 2 || col.size() < 2 || x.back() != y.back()) {
    return ffi::Unexpected(given.error("points that do not go together"));
  }
  p.n = x[x.size() - 2];
  p.m = y[y.size() - 2];
  p.dims = x.back();
  p.known = near.back();
  p.k = col.back();
  if (p.dims < 1 || p.dims > kMostDims || p.k < 1 || p.k > kMostFound || p.known < p.k ||
      p.n > INT32_MAX || p.m < 1 || p.m >= INT32_MAX) {
    given.fail("sizes out of range");
  }
  const int64_t batch = batch_size(x, 2);
  if (given.failed() || !call.check(batch, list)) return ffi::Unexpected(given.error());
  return Batch{batch, p};
}

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_NEAREST_DECODE_H_
