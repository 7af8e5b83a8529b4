// Turns a failed CUDA call into an error of the handler that made it.
#ifndef JAXMATCH_CUDA_CHECK_H_
#define JAXMATCH_CUDA_CHECK_H_

#include <cuda_runtime_api.h>

#include <string>

#include "common/handler.h"

// If `call` fails, returns an ffi::Error that names the call, the file and the line. After a kernel
// launch, pass cudaGetLastError().
#define JAXMATCH_CUDA_CHECK(call)                                                     \
  do {                                                                                \
    const cudaError_t jaxmatch_cuda_status = (call);                                  \
    if (jaxmatch_cuda_status != cudaSuccess) {                                        \
      return ::jaxmatch::cuda_error(jaxmatch_cuda_status, #call, __FILE__, __LINE__); \
    }                                                                                 \
  } while (false)

namespace jaxmatch {

inline ffi::Error cuda_error(cudaError_t status, const char* call, const char* file, int line) {
  return ffi::Error::Internal(std::string(file) + ":" + std::to_string(line) + ": " + call + ": " +
                              cudaGetErrorString(status));
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_CHECK_H_
