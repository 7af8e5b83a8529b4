// The target jaxmatch_assignment_divided on CPU: this device's part in what all do together.
#include "assignment/large/cpu/team.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {
namespace {

ffi::Error AssignmentDivided(ffi::ThreadPool pool, ffi::RemainingArgs args, IndexResult col4row,
                             IndexResult row4col, RealResult value, RealResult row_dual,
                             RealResult col_dual, RealResult gap, IndexResult status,
                             IndexResult control, IndexResult scratch, IndexResult cores,
                             IndexResult lists, IndexResult mail, int64_t given, bool maximize,
                             int64_t method, bool rows, int64_t devices, int64_t metric) {
  const auto o =
      DecodeDivided(args, col4row, row4col, value, row_dual, col_dual, gap, status, control,
                    scratch, cores, lists, mail, given, maximize, method, rows, devices, metric);
  if (!o.has_value()) return o.error();
  PoolTeam team(&pool);
  ExactFloats mode;
  return o->for_costs([&](auto element) {
    run_divided(team, o->template problem<decltype(element)>(), ResultsOf(o->whole, 0), o->rows,
                o->each(), o->me, o->cores_out, o->core_count(), o->lists_out);
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(jaxmatch_assignment_divided, jaxmatch::assignment::large::AssignmentDivided,
                 JAXMATCH_BIND_DIVIDED(xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>()));
