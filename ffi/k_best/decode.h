// Decodes the operands of jaxmatch_k_best, for the handlers of all platforms.
#ifndef JAXMATCH_K_BEST_DECODE_H_
#define JAXMATCH_K_BEST_DECODE_H_

#include "common/call_rows.h"
#include "k_best/operands.h"

namespace jaxmatch::k_best {

using Batch = BatchOf<KBestProblem>;

// Decodes costs [..., n, m] and the optional masks. The call must have `buffers` more results than
// the table (k_best/operands.h).
inline ffi::ErrorOr<Batch> decode_k_best(ffi::RemainingArgs args, ffi::RemainingRets rets,
                                         Attributes& given, size_t buffers = 0) {
  const auto wrong = [&](const char* what) { return ffi::Unexpected(given.error(what)); };
  KBestProblem p{};
  const auto list = [&](auto& rows) { list_operands(p, rows); };
  CallRows call(args, rets, given);
  if (!call.find(list, buffers)) return ffi::Unexpected(given.error());
  const auto sides = call.array("cost", list).dimensions();
  const auto listed = call.array("value", list).dimensions();
  if (sides.size() < 2) return wrong("costs must have shape [..., n, m]");
  if (listed.size() == 0) return wrong("values must have shape [..., k]");
  p.n = sides[sides.size() - 2];
  p.m = sides[sides.size() - 1];
  p.k = listed.back();
  if (p.n > INT32_MAX / 16 || p.m > INT32_MAX / 16 || p.k > INT32_MAX / 16) {
    return wrong("a side or a list of more than 2^27");
  }
  if (p.k < 1) return wrong("a list of no assignments");
  p.maximize = given.flag("maximize");
  const int64_t batch = batch_size(sides, 2);
  if (!call.check(batch, list)) return ffi::Unexpected(given.error());
  return Batch{batch, p};
}

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_K_BEST_DECODE_H_
