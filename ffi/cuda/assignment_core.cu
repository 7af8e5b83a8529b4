// The target jaxmatch_assignment_core on CUDA: one cooperative launch for each problem.
#include <cstdlib>
#include <limits>

#include "../large/core_finish.h"
#include "../large/core_layout.h"
#include "../large/core_solve.h"
#include "grid_team.cuh"
#include "jaxmatch/cuda_check.h"
#include "jaxmatch/decode_large.h"

namespace jaxmatch {
namespace {

constexpr int kThreads = 512;

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    assignment_core_kernel(Core<T> p, const CoreResults results, bool resumed, int64_t budget,
                           int polls, int cached_rows) {
  Control* const control = p.s.control;
  GridTeam team(reinterpret_cast<Meeting*>(reinterpret_cast<int32_t*>(control) + kMeetingAt), polls,
                cached_rows);
  if (!resumed) {
    team.leader([&] { *control = Control{}; });
    team.sync();
  }
  orient(team, p);
  solve_core(team, p, budget);
  write_results(team, p, results);
}

int Asked(const char* name, int otherwise) {
  const char* value = std::getenv(name);
  return value ? std::atoi(value) : otherwise;
}

template <class T>
ffi::Error Launch(cudaStream_t stream, const LargeOperands& o, int64_t b) {
  const AssignmentOperands& a = o.batch;
  const int64_t n = a.n, m = a.m;
  int64_t bytes;
  int32_t* const control = o.control + b * o.control_words;
  Core<T> p;
  p.s = lay_out_core(o.scratch + b * o.scratch_bytes, reinterpret_cast<Control*>(control), n, m,
                     a.row_mask || a.col_mask, &bytes);
  p.costs = {static_cast<const T*>(a.cost) + b * n * m, m, 1, 1, 1};
  p.row_mask = a.row_mask ? a.row_mask + b * n : nullptr;
  p.col_mask = a.col_mask ? a.col_mask + b * m : nullptr;
  p.maximize = a.maximize;
  p.bid_rounds = Asked("JAXMATCH_BIDS", kMostBidRounds);
  const int size = size_of(a.result_dtype);
  const auto real = [&](void* array, int64_t at) -> void* {
    return static_cast<char*>(array) + at * size;
  };
  CoreResults results{
      a.col4row + b * n,       a.row4col + b * m,       a.status + b,   real(a.value, b),
      real(a.row_dual, b * n), real(a.col_dual, b * m), real(a.gap, b), size == 8};
  JAXMATCH_CUDA_CHECK(cudaMemsetAsync(control + kMeetingAt, 0, sizeof(Meeting), stream));
  bool resumed = o.resumed;
  int64_t budget = o.rounds > 0 ? o.rounds : std::numeric_limits<int64_t>::max();
  int device, processors;
  JAXMATCH_CUDA_CHECK(cudaGetDevice(&device));
  JAXMATCH_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device));
  int polls = Asked("JAXMATCH_POLLS", 8);
  const int blocks = std::min(processors, Asked("JAXMATCH_BLOCKS", processors));
  const int threads = std::min(kThreads, Asked("JAXMATCH_THREADS", kThreads));
  int most_bytes;
  JAXMATCH_CUDA_CHECK(
      cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
  constexpr int kStaticBytes = 64;
  const int64_t rows = std::min((std::min(n, m) + blocks - 1) / blocks,
                                int64_t(most_bytes - kStaticBytes) / GridTeam::kBytesOfRow);
  int cached_rows = int(rows);
  const auto kernel = reinterpret_cast<void*>(assignment_core_kernel<T>);
  // Always the same value: another thread may launch the same kernel.
  JAXMATCH_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           most_bytes - kStaticBytes));
  void* arguments[] = {&p, &results, &resumed, &budget, &polls, &cached_rows};
  JAXMATCH_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, blocks, threads, arguments,
                                                  cached_rows * GridTeam::kBytesOfRow, stream));
  return ffi::Error::Success();
}

ffi::Error LaunchOne(cudaStream_t stream, const LargeOperands& o, int64_t b) {
  switch (o.batch.cost_dtype) {
    case Dtype::kBF16:
      return Launch<BFloat16>(stream, o, b);
    case Dtype::kF16:
      return Launch<Float16>(stream, o, b);
    case Dtype::kF32:
      return Launch<float>(stream, o, b);
    case Dtype::kF64:
      return Launch<double>(stream, o, b);
    case Dtype::kS32:
      return Launch<int32_t>(stream, o, b);
    default:
      return ffi::Error::InvalidArgument("jaxmatch_assignment_core: unsupported dtype");
  }
}

ffi::Error AssignmentCore(cudaStream_t stream, ffi::RemainingArgs args, IndexResult col4row,
                          IndexResult row4col, RealResult value, RealResult row_dual,
                          RealResult col_dual, RealResult gap, IndexResult status,
                          IndexResult control, IndexResult scratch, int64_t given, bool maximize,
                          int64_t rounds) {
  const auto decoded = DecodeAssignment(args, col4row, row4col, value, row_dual, col_dual, gap,
                                        status, given, maximize);
  if (!decoded.has_value()) return decoded.error();
  LargeOperands o{*decoded,
                  control->typed_data(),
                  kControlWords,
                  reinterpret_cast<char*>(scratch->typed_data()),
                  0,
                  (given & kGivenState) != 0,
                  rounds};
  const int64_t batch = o.batch.batch;
  if (batch == 0) return ffi::Error::Success();
  o.scratch_bytes = int64_t(scratch->size_bytes()) / batch;
  int64_t needed;
  lay_out_core(nullptr, nullptr, o.batch.n, o.batch.m, o.batch.row_mask || o.batch.col_mask,
               &needed);
  if (o.scratch_bytes < needed || int64_t(control->size_bytes()) < batch * kControlWords * 4) {
    return ffi::Error::InvalidArgument("jaxmatch_assignment_core: the state is too small");
  }
  for (int64_t b = 0; b < batch; ++b) {
    const ffi::Error error = LaunchOne(stream, o, b);
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch

JAXMATCH_HANDLER(jaxmatch_assignment_core, jaxmatch::AssignmentCore,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .RemainingArgs()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::AnyBuffer>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Attr<int64_t>("given")
                     .Attr<bool>("maximize")
                     .Attr<int64_t>("rounds"),
                 {xla::ffi::Traits::kCmdBufferCompatible});
