// The target jaxmatch_grid_cut on CUDA, in one launch. Small grids, and grids of large batches that
// fit one block's shared memory, have one block each. Otherwise the launch is cooperative, and a
// team of blocks solves each grid. A single grid has a team of the whole GPU.
#include <cstdint>

#include "common/cuda/check.h"
#include "grid_cut/cuda/barrier.cuh"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// Defined in launch.cuh.
template <class G, class V>
ffi::Error run_connected(cudaStream_t stream, const GridCutOperands& o, char* control,
                         char* scratch, int64_t bytes);

namespace {

ffi::Error GridCut(cudaStream_t stream, ffi::AnyBuffer source, ffi::AnyBuffer sink,
                   ffi::AnyBuffer pairwise, ffi::Result<ffi::AnyBuffer> value,
                   ffi::Result<GridSides> side, ffi::Result<GridStatus> status,
                   ffi::Result<GridStatus> control, ffi::Result<GridStatus> scratch,
                   ffi::Dictionary attributes) {
  const auto o = decode_grid_cut(source, sink, pairwise, value, side, status, attributes);
  if (!o.has_value()) return o.error();
  if (o->connectivity > 8) {
    return ffi::Error::InvalidArgument("jaxmatch_grid_cut: no kernel has so many neighbours");
  }
  if (int64_t(control->size_bytes()) < o->batch * int64_t(sizeof(GridCutControl))) {
    return ffi::Error::InvalidArgument("jaxmatch_grid_cut: the control words are too few");
  }
  const int64_t bytes = o->batch > 0 ? int64_t(scratch->size_bytes()) / o->batch / 16 * 16 : 0;
  char* const words = static_cast<char*>(control->untyped_data());
  char* const memory = static_cast<char*>(scratch->untyped_data());
  const bool wide_value = o->value_dtype == Dtype::kS64;
  switch (o->dtype) {
    case Dtype::kS32:
      return wide_value ? run_connected<int32_t, int64_t>(stream, *o, words, memory, bytes)
                        : run_connected<int32_t, int32_t>(stream, *o, words, memory, bytes);
    case Dtype::kS64:
      return run_connected<int64_t, int64_t>(stream, *o, words, memory, bytes);
    case Dtype::kF32:
      return run_connected<float, float>(stream, *o, words, memory, bytes);
    default:
      return run_connected<double, double>(stream, *o, words, memory, bytes);
  }
}

}  // namespace
}  // namespace jaxmatch::grid_cut

JAXMATCH_HANDLER(
    jaxmatch_grid_cut, jaxmatch::grid_cut::GridCut,
    JAXMATCH_BIND_GRID_CUT(xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>())
        .Ret<jaxmatch::grid_cut::GridStatus>()
        .Ret<jaxmatch::grid_cut::GridStatus>()
        .Attrs(),
    {xla::ffi::Traits::kCmdBufferCompatible});
