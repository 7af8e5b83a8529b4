// The target jaxmatch_transport on CPU: solves the problems of a batch on several threads.
#include "common/cpu/interruptible.h"
#include "transport/cpu/solve_batch.h"

namespace jaxmatch::transport {
namespace {

ffi::Error Transport(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                     ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport", attributes);
  const auto decoded = decode_transport(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const TransportProblem& first = decoded->first;
  return solve_batch(pool, given, *decoded, 20.0 * double(first.n) * double(first.m));
}

}  // namespace
}  // namespace jaxmatch::transport

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_transport, jaxmatch::transport::Transport,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
