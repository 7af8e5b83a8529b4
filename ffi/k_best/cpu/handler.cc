// The target jaxmatch_k_best on CPU: solves the problems of a batch on several threads.
#include <atomic>

#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"
#include "k_best/decode.h"

namespace jaxmatch::k_best {
namespace {

ffi::Error KBest(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                 ffi::Dictionary attributes) {
  Attributes given("jaxmatch_k_best", attributes);
  const auto decoded = decode_k_best(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const KBestProblem& first = decoded->first;
  const SolveKBest solve = pick_k_best_solver();
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t begin, int64_t end) {
    ScopedArena arena;
    for (int64_t b = begin; b < end; ++b) {
      if (!solve(problem_at(first, b), &arena)) out_of_memory = true;
    }
  };
  const double pairs = double(first.n) * double(first.m);
  for_each_range(pool, decoded->size, 1e3 + double(first.k) * pairs, solve_range);
  if (!out_of_memory) return ffi::Error::Success();
  return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                    given.error("no memory for the workspace").message());
}

}  // namespace
}  // namespace jaxmatch::k_best

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_k_best, jaxmatch::k_best::KBest,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
