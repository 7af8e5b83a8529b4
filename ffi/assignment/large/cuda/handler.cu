// Handler of the target jaxmatch_assignment_core on CUDA. It solves the problems of a batch one
// after another. The whole GPU solves each problem in one cooperative launch.
#include "assignment/large/operands.h"
#include "common/cuda/check.h"

namespace jaxmatch::assignment::large {

// See solve.cuh.
template <class T>
ffi::Error launch_problem(cudaStream_t stream, const LargeOperands& o, int64_t b);

namespace {

ffi::Error AssignmentLarge(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                           ffi::Dictionary attributes) {
  const auto o = decode_large(args, rets, attributes);
  if (!o.has_value()) return o.error();
  return o->for_each_problem(
      [&](auto element, int64_t b) { return launch_problem<decltype(element)>(stream, *o, b); });
}

}  // namespace
}  // namespace jaxmatch::assignment::large

JAXMATCH_HANDLER(jaxmatch_assignment_core, jaxmatch::assignment::large::AssignmentLarge,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
