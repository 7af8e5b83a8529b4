// Handlers whose calls Ctrl-C can end.
#ifndef JAXMATCH_CPU_INTERRUPTIBLE_H_
#define JAXMATCH_CPU_INTERRUPTIBLE_H_

#include <cstring>

#include "common/cpu/interrupt.h"
#include "common/handler.h"

// Like JAXMATCH_HANDLER, for a solver that polls for Ctrl-C (common/cpu/poll.h).
#define JAXMATCH_INTERRUPTIBLE_HANDLER(name, impl, ...) \
  JAXMATCH_HANDLER_CALLED_BY(::jaxmatch::call_interruptible, name, impl, ##__VA_ARGS__)

namespace jaxmatch {

// The number of the program execution that the call belongs to, or 0 if there is none.
inline int64_t run_of(const XLA_FFI_CallFrame* call) {
  if (call->ctx == nullptr || call->api->XLA_FFI_RunId_Get == nullptr) return 0;
  XLA_FFI_RunId_Get_Args args;
  args.struct_size = XLA_FFI_RunId_Get_Args_STRUCT_SIZE;
  args.extension_start = nullptr;
  args.ctx = call->ctx;
  args.run_id = 0;
  if (XLA_FFI_Error* const error = call->api->XLA_FFI_RunId_Get(&args)) {
    XLA_FFI_Error_Destroy_Args destroy;
    destroy.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE;
    destroy.extension_start = nullptr;
    destroy.error = error;
    call->api->XLA_FFI_Error_Destroy(&destroy);
    return 0;
  }
  return args.run_id;
}

// Writes the results of an interrupted call: -1 for integers (a status of -1 is
// Status.INTERRUPTED), NaN for floats, and false for flags.
inline void write_interrupted(const XLA_FFI_CallFrame* call) {
  for (int64_t k = 0; k < call->rets.size; ++k) {
    const auto* const result = static_cast<const XLA_FFI_Buffer*>(call->rets.rets[k]);
    size_t bytes = ffi::ByteWidth(static_cast<ffi::DataType>(result->dtype));
    for (int64_t d = 0; d < result->rank; ++d) bytes *= size_t(result->dims[d]);
    if (bytes == 0) continue;  // a result without bytes may have no memory
    std::memset(result->data, result->dtype == XLA_FFI_DataType_PRED ? 0 : 0xff, bytes);
  }
}

// Like call_handler(), for a handler that Ctrl-C can interrupt.
inline XLA_FFI_Error* call_interruptible(const char* name, XLA_FFI_Handler* handler,
                                         XLA_FFI_CallFrame* call) noexcept {
  if (call->stage != XLA_FFI_ExecutionStage_EXECUTE || call->rets.size == 0) {
    return call_handler(name, handler, call);  // XLA only queries the version of the handler
  }
  InterruptScope scope(run_of(call));
  InterruptibleThread polls(&scope);
  try {
    scope.poll();
    return handler(call);
  } catch (const Interrupted&) {
    write_interrupted(call);
    InterruptScope::last_interrupted() = true;
    return nullptr;
  } catch (...) {
    return error_of_thrown(name, call);
  }
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_INTERRUPTIBLE_H_
