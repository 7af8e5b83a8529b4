// The version of XLA's FFI API that this library was compiled with. The loader asks for it before
// it registers anything: a handler newer than the runtime would stop the backend from starting.
#include "jaxmatch/handler.h"

extern "C" JAXMATCH_EXPORT int jaxmatch_ffi_api_minor() { return XLA_FFI_API_MINOR; }
