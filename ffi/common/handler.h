// Common parts of the FFI handlers: the export macro, conversion of exceptions to errors, and the
// size of a batch.
#ifndef JAXMATCH_HANDLER_H_
#define JAXMATCH_HANDLER_H_

#include <cstddef>
#include <cstdint>

#include "common/thrown.h"
#include "xla/ffi/api/ffi.h"

#define JAXMATCH_EXPORT __attribute__((visibility("default")))

// Defines the handler `name`, visible to the loader. The libraries hide symbols by default, and
// XLA's own macro sets no visibility, so a declaration before the definition exports the symbol.
#define JAXMATCH_HANDLER(name, impl, ...) \
  JAXMATCH_HANDLER_CALLED_BY(::jaxmatch::call_handler, name, impl, ##__VA_ARGS__)
#define JAXMATCH_HANDLER_CALLED_BY(caller, name, impl, ...)                \
  extern "C" JAXMATCH_EXPORT XLA_FFI_Error* name(XLA_FFI_CallFrame* call); \
  extern "C" XLA_FFI_Error* name(XLA_FFI_CallFrame* call) {                \
    XLA_FFI_DEFINE_HANDLER(handler, impl, ##__VA_ARGS__);                  \
    return caller(#name, handler, call);                                   \
  }                                                                        \
  static_assert(true, "a semicolon follows")

namespace jaxmatch {

namespace ffi = ::xla::ffi;

// Converts the exception that a call of the target `name` has thrown to an error. Must be called in
// a catch clause.
inline XLA_FFI_Error* error_of_thrown(const char* name, XLA_FFI_CallFrame* call) noexcept {
  const Thrown thrown = Thrown::current(name);
  XLA_FFI_Error_Create_Args args;
  args.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE;
  args.extension_start = nullptr;
  args.message = thrown.message;
  args.errc =
      thrown.out_of_memory ? XLA_FFI_Error_Code_RESOURCE_EXHAUSTED : XLA_FFI_Error_Code_INTERNAL;
  return call->api->XLA_FFI_Error_Create(&args);
}

// Calls the handler of the target `name`. Converts exceptions to errors of the call.
inline XLA_FFI_Error* call_handler(const char* name, XLA_FFI_Handler* handler,
                                   XLA_FFI_CallFrame* call) noexcept {
  try {
    return handler(call);
  } catch (...) {
    return error_of_thrown(name, call);
  }
}

// Number of problems in a buffer whose last `core_rank` dimensions are one problem. A buffer of
// lower rank has none; zero-sized problems still count.
inline int64_t batch_size(ffi::Span<const int64_t> dimensions, size_t core_rank) {
  if (dimensions.size() < core_rank) return 0;
  int64_t batch = 1;
  for (size_t i = 0; i + core_rank < dimensions.size(); ++i) batch *= dimensions[i];
  return batch;
}

}  // namespace jaxmatch

#endif  // JAXMATCH_HANDLER_H_
