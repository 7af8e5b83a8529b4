// The target jaxmatch_near_pairs on CUDA: pairs of points within a radius.
#include <algorithm>

#include "common/call_rows.h"
#include "common/cuda/check.h"
#include "costs/metric_names.h"
#include "sparse_assignment/cuda/near_pairs.cuh"

namespace jaxmatch::sparse_assignment {
namespace {

enum OperandIndex : size_t {
  kX,
  kY,
  kRadius,
  kStripOfRow,
  kStrip,
  kFirstCoordinate,
  kCol,
  kFirstOptional,
};

template <class T>
ffi::Error launch(cudaStream_t stream, const NearPairs<T>& pairs, int64_t batch) {
  constexpr int kThreads = 128, kMostBlocks = 1 << 20;
  const int64_t blocks = (batch * pairs.points.n + kThreads / 32 - 1) / (kThreads / 32);
  if (blocks == 0) return ffi::Error::Success();
  near_pairs_kernel<T>
      <<<unsigned(std::min<int64_t>(blocks, kMostBlocks)), kThreads, 0, stream>>>(pairs, batch);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

// Operands: the points [..., n, dims] and [..., m, dims], the radius, and the strips of rows and
// columns (see NearPairs). Results: if the operand `row_ptr` is given, the columns and the
// distances of the pairs; else the number of pairs of each row.
template <class T>
ffi::Error near_pairs(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                      Attributes& given) {
  const auto operand = [&](size_t at) { return *args.get<ffi::AnyBuffer>(at); };
  const auto result = [&](size_t at) { return result_at(rets, at); };
  const auto row_ptr = optional_operand(args, given, "row_ptr", ffi::S32, kFirstOptional);
  const auto x = operand(kX).dimensions(), y = operand(kY).dimensions();
  NearPairs<T> p{};
  p.points.metric = given.named("metric", kMetrics);
  given.expect_results(rets.size(), row_ptr ? 2 : 1);
  if (given.failed()) return given.error();
  p.points.n = x[x.size() - 2];
  p.points.m = y[y.size() - 2];
  p.points.dims = x.back();
  const int64_t batch = batch_size(x, 2), n = p.points.n, m = p.points.m;
  const auto holds = [&](const auto& buffer, int64_t each, ffi::DataType dtype) {
    return int64_t(buffer.element_count()) == batch * each && buffer.element_type() == dtype;
  };
  const ffi::DataType real = operand(kX).element_type();
  const std::optional<Dtype> radius_dtype = dtype_of(operand(kRadius).element_type());
  const bool counts = !row_ptr.has_value();
  const auto first = result(0), second = result(1);
  p.capacity = counts || !first ? 0 : first->dimensions().back();
  if (p.points.dims < 1 || !radius_dtype || size_of(*radius_dtype) < 4 || !first ||
      int64_t(operand(kRadius).element_count()) != batch ||
      !holds(operand(kY), m * p.points.dims, real) || !holds(operand(kStripOfRow), n, ffi::S32) ||
      !holds(operand(kStrip), m, ffi::S32) || !holds(operand(kFirstCoordinate), m, real) ||
      !holds(operand(kCol), m, ffi::S32) || !holds(*first, counts ? n : p.capacity, ffi::S32) ||
      (!counts &&
       (!holds(*row_ptr, n + 1, ffi::S32) || !second || !holds(*second, p.capacity, real)))) {
    return given.error("operands and results that do not go together");
  }
  const auto data = [](const ffi::AnyBuffer& buffer) { return buffer.untyped_data(); };
  p.points.x = static_cast<const T*>(data(operand(kX)));
  p.points.y = static_cast<const T*>(data(operand(kY)));
  p.radius = data(operand(kRadius));
  p.radius_dtype = *radius_dtype;
  p.strip_of_row = static_cast<const int32_t*>(data(operand(kStripOfRow)));
  p.strip = static_cast<const int32_t*>(data(operand(kStrip)));
  p.first_coordinate = static_cast<const T*>(data(operand(kFirstCoordinate)));
  p.col = static_cast<const int32_t*>(data(operand(kCol)));
  if (counts) {
    p.count = static_cast<int32_t*>(data(*first));
  } else {
    p.row_ptr = static_cast<const int32_t*>(data(*row_ptr));
    p.col_ind = static_cast<int32_t*>(data(*first));
    p.cost = static_cast<T*>(data(*second));
  }
  return launch(stream, p, batch);
}

ffi::Error NearPairsTarget(cudaStream_t stream, ffi::RemainingArgs args, ffi::RemainingRets rets,
                           ffi::Dictionary attributes) {
  Attributes given("jaxmatch_near_pairs", attributes);
  for (size_t at = 0; at < kFirstOptional; ++at) {
    const auto operand = args.get<ffi::AnyBuffer>(at);
    const size_t rank = at == kX || at == kY ? 2 : 0;
    if (!operand.has_value() || operand->dimensions().size() < rank) {
      return given.error("an operand is missing");
    }
  }
  switch (args.get<ffi::AnyBuffer>(kX)->element_type()) {
    case ffi::F32:
      return near_pairs<float>(stream, args, rets, given);
    case ffi::F64:
      return near_pairs<double>(stream, args, rets, given);
    default:
      return given.error("points that are not float32 or float64");
  }
}

}  // namespace
}  // namespace jaxmatch::sparse_assignment

JAXMATCH_HANDLER(jaxmatch_near_pairs, jaxmatch::sparse_assignment::NearPairsTarget,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .RemainingRets()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
