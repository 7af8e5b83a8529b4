// Version numbers that the loader checks before it registers anything.
#include "common/handler.h"

#ifndef JAXMATCH_BUILD
#define JAXMATCH_BUILD "unknown"
#endif

// The version of XLA's FFI API that this library was compiled with: a handler newer than the
// runtime would stop the backend from starting.
extern "C" JAXMATCH_EXPORT int jaxmatch_ffi_api_minor() { return XLA_FFI_API_MINOR; }

// The number in jaxmatch/_library/abi.py when this library was built.
extern "C" JAXMATCH_EXPORT int jaxmatch_abi() { return JAXMATCH_ABI; }

// The version of the package and a hash of the native sources.
extern "C" JAXMATCH_EXPORT const char* jaxmatch_build() { return JAXMATCH_BUILD; }
