// Handler of the target jaxmatch_assignment_sharded on CPU: one step of this device's shard.
#include "assignment/large/cpu/team.h"
#include "assignment/large/sharded/operands.h"

namespace jaxmatch::assignment::large {

// See sharded.h.
template <class T>
void solve_shard(PoolTeam& team, const ShardedOperands& o);

namespace {

ffi::Error AssignmentSharded(ffi::ThreadPool pool, ffi::RemainingArgs args, ffi::RemainingRets rets,
                             ffi::Dictionary attributes) {
  const auto o = decode_sharded(args, rets, attributes);
  if (!o.has_value()) return o.error();
  PoolTeam team(&pool);
  ExactFloats mode;
  return o->for_costs([&](auto element) {
    solve_shard<decltype(element)>(team, *o);
    return ffi::Error::Success();
  });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(
    jaxmatch_assignment_sharded, jaxmatch::assignment::large::AssignmentSharded,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
