// The target jaxmatch_assignment_core on CPU: all threads of XLA's pool for one problem after
// another.
#include "assignment/large/cpu/team.h"
#include "assignment/large/hungarian/solve.h"
#include "assignment/large/operands.h"

namespace jaxmatch::assignment::large {
namespace {

ffi::Error AssignmentCore(ffi::ThreadPool pool, ffi::RemainingArgs args, IndexResult col4row,
                          IndexResult row4col, RealResult value, RealResult row_dual,
                          RealResult col_dual, RealResult gap, IndexResult status,
                          IndexResult control, IndexResult scratch, int64_t given, bool maximize,
                          int64_t phases, int64_t method) {
  const auto o = DecodeCore(args, col4row, row4col, value, row_dual, col_dual, gap, status, control,
                            scratch, given, maximize, phases, method);
  if (!o.has_value()) return o.error();
  PoolTeam team(&pool);
  ExactFloats mode;
  return o->for_each_problem([&](auto element, int64_t b) {
    auto p = o->template problem<decltype(element)>(b);
    if (!o->resumed) *p.s.control = Control{};
    orient(team, p);
    solve_large(team, p, o->method, o->budget);
    write_results(team, p, ResultsOf(o->batch, b));
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(jaxmatch_assignment_core, jaxmatch::assignment::large::AssignmentCore,
                 JAXMATCH_BIND_CORE(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()));
