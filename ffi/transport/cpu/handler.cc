// The target jaxmatch_transport on CPU: solves the problems of a batch on several threads.
#include <atomic>
#include <cstdlib>

#include "common/cpu/thread_pool.h"
#include "transport/decode.h"

namespace jaxmatch::transport {
namespace {

ffi::Error Transport(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                     ffi::Dictionary attributes) {
  Attributes given("jaxmatch_transport", attributes);
  const auto decoded = decode_transport(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const Batch& batch = *decoded;
  const SolveTransport solve = pick_transport_solver();
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    Arena arena{nullptr, 0, false};
    for (int64_t b = first; b < last; ++b) {
      if (!solve(problem_of(batch.first, b), &arena)) out_of_memory = true;
    }
    if (arena.owned) std::free(arena.base);
  };
  const double nanoseconds = 1e4 + 20.0 * double(batch.first.n) * double(batch.first.m);
  for_each_range(pool, batch.size, nanoseconds, solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_transport: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::transport

JAXMATCH_HANDLER(
    jaxmatch_transport, jaxmatch::transport::Transport,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
