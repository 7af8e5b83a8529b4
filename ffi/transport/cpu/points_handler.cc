// The target jaxmatch_transport_points on CPU: costs are distances between points, without a
// matrix.
#include "common/cpu/interruptible.h"
#include "transport/cpu/solve_batch.h"

namespace jaxmatch::transport {
namespace {

ffi::Error TransportPoints(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                           ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport_points", attributes);
  const auto decoded = decode_transport_points(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const TransportProblem& first = decoded->first;
  const double per_cost = 20.0 + double(first.dims);
  return solve_batch(pool, given, *decoded, per_cost * double(first.n) * double(first.m));
}

}  // namespace
}  // namespace jaxmatch::transport

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_transport_points, jaxmatch::transport::TransportPoints,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
