// Version numbers that the loader checks before it registers any handler.
#include "common/handler.h"

#ifndef JAXMATCH_BUILD
#define JAXMATCH_BUILD "unknown"
#endif

// The minor version of XLA's FFI API that this library was compiled with. If it were newer than the
// version of JAX's runtime, registering a handler would stop the backend from starting.
extern "C" JAXMATCH_EXPORT int jaxmatch_ffi_api_minor() { return XLA_FFI_API_MINOR; }

// The value that ABI in jaxmatch/_library/abi.py had when this library was built.
extern "C" JAXMATCH_EXPORT int jaxmatch_abi() { return JAXMATCH_ABI; }

// The version of the package and a hash of the native sources.
extern "C" JAXMATCH_EXPORT const char* jaxmatch_build() { return JAXMATCH_BUILD; }
