// What the loader asks a library before it registers anything.
#include "jaxmatch/handler.h"

#ifndef JAXMATCH_BUILD
#define JAXMATCH_BUILD "unknown"
#endif

// The version of XLA's FFI API that this library was compiled with: a handler newer than the
// runtime would stop the backend from starting.
extern "C" JAXMATCH_EXPORT int jaxmatch_ffi_api_minor() { return XLA_FFI_API_MINOR; }

// What calls look like, from jaxmatch/_native to the handlers. Raise it, and `_ABI` of
// jaxmatch/_native/_load.py with it, whenever an operand, a result, an attribute, a number that
// stands for a name, or the size of a buffer changes.
extern "C" JAXMATCH_EXPORT int jaxmatch_abi() { return 2; }

// The version of the package and a hash of the native sources.
extern "C" JAXMATCH_EXPORT const char* jaxmatch_build() { return JAXMATCH_BUILD; }
