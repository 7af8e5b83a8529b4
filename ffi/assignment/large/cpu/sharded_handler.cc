// Handler of the target jaxmatch_assignment_sharded on CPU: one step of this device's shard.
#include <string_view>

#include "assignment/large/cpu/team.h"
#include "assignment/large/sharded/operands.h"
#include "common/cpu/interruptible.h"

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

// Reads the attribute `devices` before the call is decoded; returns 0 if there is none.
int64_t devices_of(const XLA_FFI_CallFrame* call) {
  for (int64_t k = 0; k < call->attrs.size; ++k) {
    const XLA_FFI_ByteSpan* const name = call->attrs.names[k];
    if (std::string_view(name->ptr, name->len) != "devices") continue;
    if (call->attrs.types[k] != XLA_FFI_AttrType_SCALAR) return 0;
    const auto* const scalar = static_cast<const XLA_FFI_Scalar*>(call->attrs.attrs[k]);
    return scalar->dtype == XLA_FFI_DataType_S64 ? *static_cast<const int64_t*>(scalar->value) : 0;
  }
  return 0;
}

// Only a call on a single device can be interrupted. With several devices, the other devices would
// wait for one that stopped.
XLA_FFI_Error* call_interruptible_if_alone(const char* name, XLA_FFI_Handler* handler,
                                           XLA_FFI_CallFrame* call) noexcept {
  return devices_of(call) == 1 ? call_interruptible(name, handler, call)
                               : call_handler(name, handler, call);
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER_CALLED_BY(
    jaxmatch::assignment::large::call_interruptible_if_alone, jaxmatch_assignment_sharded,
    jaxmatch::assignment::large::AssignmentSharded,
    xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>().RemainingArgs().RemainingRets().Attrs());
