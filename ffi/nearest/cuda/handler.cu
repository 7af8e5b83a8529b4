// The target jaxmatch_nearest on CUDA.
#include <algorithm>

#include "common/cuda/check.h"
#include "nearest/cuda/nearest.cuh"
#include "nearest/decode.h"

namespace jaxmatch::nearest {
namespace {

template <class Real>
ffi::Error launch(cudaStream_t stream, const NearestProblem& first, int64_t batch) {
  // With many rows, few lanes share the columns of a row, so that each loaded column serves many.
  constexpr int64_t kManyRows = 1 << 15, kMostBlocks = INT32_MAX;
  Launch work{first, 0, first.n * batch < kManyRows ? kWarpSize : 8};
  const int64_t rows_of_block = int64_t(kThreads / work.lanes) * kRows;
  work.blocks = (first.n + rows_of_block - 1) / rows_of_block;
  const int64_t most = std::max<int64_t>(1, kMostBlocks / work.blocks);
  for (int64_t b = 0; b < batch; b += most) {
    work.first = problem_at(first, b);
    const int64_t count = std::min(most, batch - b);
    nearest_kernel<Real>
        <<<unsigned(count * work.blocks), kThreads, sizeof(Tile<Real>), stream>>>(work);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
  }
  return ffi::Error::Success();
}

ffi::Error NearestTarget(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                         ffi::Dictionary attributes) {
  Attributes given("jaxmatch_nearest", attributes);
  const auto decoded = decode_nearest(args, rets, given);
  if (!decoded.has_value()) return decoded.error();
  const auto& [batch, p] = *decoded;
  if (batch == 0 || p.n == 0) return ffi::Error::Success();
  // Squares of floats may leave the range of a float although their root does not, and 1 minus a
  // product loses bits by cancellation.
  const bool squares = p.metric == Metric::kSqeuclidean || p.metric == Metric::kL1;
  return p.dtype == Dtype::kF32 && squares ? launch<float>(stream, p, batch)
                                           : launch<double>(stream, p, batch);
}

}  // namespace
}  // namespace jaxmatch::nearest

JAXMATCH_HANDLER(jaxmatch_nearest, jaxmatch::nearest::NearestTarget,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
