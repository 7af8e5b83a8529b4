// The target jaxmatch_assignment on CPU: solves the problems of a batch on several threads.
#include <algorithm>
#include <atomic>

#include "assignment/cpu/pick.h"
#include "assignment/cpu/problem.h"
#include "assignment/cpu/problem_of.h"
#include "assignment/decode.h"
#include "common/cpu/interruptible.h"
#include "common/cpu/thread_pool.h"

namespace jaxmatch::assignment {
namespace {

ffi::Error Assignment(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                      ffi::Dictionary attributes) {
  Attributes given("jaxmatch_assignment", attributes);
  const auto decoded = decode_assignment(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  if (!check_assignment(args, rets, given, *decoded)) return given.error();
  const AssignmentOperands& o = *decoded;
  const SolveAssignment solve = pick_assignment_solver(std::max(o.n, o.m));
  std::atomic<bool> out_of_memory{false};
  const auto solve_range = [&](int64_t first, int64_t last) {
    alignas(64) char small[16 << 10];
    ScopedArena arena(small, sizeof small);
    for (int64_t b = first; b < last; ++b) {
      const AssignmentProblem p = problem_of(o, b);
      if (!solve(p, &arena)) out_of_memory = true;
    }
  };
  for_each_range(pool, o.batch, 200 + 3.0 * double(o.n) * double(o.m), solve_range);
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_assignment: no memory for the workspace");
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::assignment

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_assignment, jaxmatch::assignment::Assignment,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
