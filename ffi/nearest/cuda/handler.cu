// The target jaxmatch_nearest on CUDA.
#include <algorithm>

#include "common/call_rows.h"
#include "common/cuda/check.h"
#include "costs/metric_names.h"
#include "nearest/cuda/nearest.cuh"

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

// Operands: points [..., n, dims] and [..., m, dims], prices [..., m], and columns
// [..., n, known] near each row, of which k or more are different. They only save time.
ffi::Error NearestTarget(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                         ffi::Dictionary attributes) {
  Attributes given("jaxmatch_nearest", attributes);
  NearestProblem p{};
  const auto list = [&](auto& rows) { list_operands(p, rows); };
  CallRows call(args, rets, given, 4);
  p.metric = given.named("metric", kMetrics);
  if (!call.find(list)) return given.error();
  const auto x = call.array("x", list).dimensions(), y = call.array("y", list).dimensions();
  const auto near = call.array("near", list).dimensions(),
             col = call.array("col", list).dimensions();
  if (x.size() < 2 || y.size() < 2 || near.size() < 2 || col.size() < 2 || x.back() != y.back()) {
    return given.error("points that do not go together");
  }
  p.n = x[x.size() - 2];
  p.m = y[y.size() - 2];
  p.dims = x.back();
  p.known = near.back();
  p.k = col.back();
  if (p.dims < 1 || p.dims > kMostDims || p.k < 1 || p.k > kMostFound || p.known < p.k ||
      p.n > INT32_MAX || p.m < 1 || p.m >= INT32_MAX) {
    given.fail("sizes out of range");
  }
  const int64_t batch = batch_size(x, 2);
  if (given.failed() || !call.check(batch, list)) return given.error();
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
