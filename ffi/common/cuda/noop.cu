// A call that launches an empty kernel. Its time is a lower bound for every other call.
#include "common/cuda/check.h"
#include "common/handler.h"

namespace jaxmatch {
namespace {

__global__ void noop_kernel() {}

ffi::Error Noop(cudaStream_t stream, ffi::RemainingArgs, ffi::RemainingRets) {
  noop_kernel<<<1, 1, 0, stream>>>();
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_noop, jaxmatch::Noop,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
