// Handlers of calls that Ctrl-C ends.
#ifndef JAXMATCH_CPU_INTERRUPTIBLE_H_
#define JAXMATCH_CPU_INTERRUPTIBLE_H_

#include <cstring>

#include "common/cpu/interrupt.h"
#include "common/handler.h"

// As JAXMATCH_HANDLER, for a solver that polls.
#define JAXMATCH_INTERRUPTIBLE_HANDLER(name, impl, ...) \
  JAXMATCH_HANDLER_CALLED_BY(::jaxmatch::call_interruptible, name, impl, ##__VA_ARGS__)

namespace jaxmatch {

// The number of the execution that the call belongs to; 0 if there is none.
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

// Results of an interrupted call: integers, among them Status.INTERRUPTED, are -1, floats NaN,
// flags false.
inline void write_interrupted(const XLA_FFI_CallFrame* call) {
  for (int64_t k = 0; k < call->rets.size; ++k) {
    const auto* const result = static_cast<const XLA_FFI_Buffer*>(call->rets.rets[k]);
    size_t bytes = ffi::ByteWidth(static_cast<ffi::DataType>(result->dtype));
    for (int64_t d = 0; d < result->rank; ++d) bytes *= size_t(result->dims[d]);
    if (bytes == 0) continue;  // then there may be no memory either
    std::memset(result->data, result->dtype == XLA_FFI_DataType_PRED ? 0 : 0xff, bytes);
  }
}

// See call_handler().
inline XLA_FFI_Error* call_interruptible(const char* name, XLA_FFI_Handler* handler,
                                         XLA_FFI_CallFrame* call) noexcept {
  if (call->stage != XLA_FFI_ExecutionStage_EXECUTE || call->rets.size == 0) {
    return call_handler(name, handler, call);  // XLA asks for the version of the handler
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
