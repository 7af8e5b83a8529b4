// Handler of the target jaxmatch_assignment_core on CPU. It solves the problems of a batch one
// after another, each with all threads of XLA's pool.
#include "assignment/large/cpu/team.h"
#include "assignment/large/operands.h"
#include "common/cpu/interruptible.h"

namespace jaxmatch::assignment::large {

// See solve.h.
template <class T>
void solve_problem(PoolTeam& team, const LargeOperands& o, int64_t b, int64_t deadline);

namespace {

ffi::Error AssignmentLarge(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                           ffi::Dictionary attributes) {
  const auto o = decode_large(args, rets, attributes);
  if (!o.has_value()) return o.error();
  PoolTeam team(&pool);
  ExactFloats mode;
  const int64_t deadline = o->time_limit == kNoDeadline ? kNoDeadline : team.now() + o->time_limit;
  return o->for_each_problem([&](auto element, int64_t b) {
    solve_problem<decltype(element)>(team, *o, b, deadline);
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_INTERRUPTIBLE_HANDLER(
    jaxmatch_assignment_core, jaxmatch::assignment::large::AssignmentLarge,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
