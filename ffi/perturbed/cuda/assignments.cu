// The target jaxmatch_perturbed_assignment on CUDA. The batched assignment kernels solve as many
// samples at once as the workspace holds. Each sample is a separate problem.
#include <algorithm>

#include "assignment/cuda/launch.h"
#include "assignment/cuda/plan.h"
#include "common/cuda/check.h"
#include "common/status.h"
#include "perturbed/cuda/layout.h"
#include "perturbed/operands.h"

namespace jaxmatch::perturbed {
namespace {

// A range of samples. Samples are numbered consecutively over all problems.
struct Part {
  int64_t first, count;
};

template <Noise kNoise>
__global__ void perturb_kernel(const __grid_constant__ PerturbedOperands o, Part part,
                               const __grid_constant__ NoisyProblems p) {
  const int64_t k = blockIdx.x, b = (part.first + k) / o.samples;
  const NoiseStream stream = o.stream[b];
  const uint32_t sample = stream.first_sample + uint32_t((part.first + k) % o.samples);
  const int entries = int(o.entries), width = int(o.width), m = int(o.m);
  const int pairs = int(noise_pairs(entries));
  const uint32_t first = stream.problem * uint32_t(pairs);
  const float strength = o.strength[b];
  const float* const cost = o.cost + b * o.entries;
  const int start = int(blockIdx.y * blockDim.x + threadIdx.x), step = int(gridDim.y * blockDim.x);
  const auto put = [&](int e, float z) {
    const float x = cost[e] + strength * z;
    if (!o.may_leave) {
      p.cost[k * entries + e] = x;
      return;
    }
    const int i = e / width, j = e - i * width;
    *(j < m ? p.cost + (k * o.n + i) * o.m + j : p.leave + k * o.n + i) = x;
  };
  // Clears the totals here, since a memset would be one more launch.
  const bool is_first = (part.first + k) % o.samples == 0;
  for (int e = start; is_first && e < entries; e += step) o.total[b * o.entries + e] = 0;
  for (int e = start; e < pairs; e += step) {
    const NoisePair z = noise_at<kNoise>(stream.key[0], stream.key[1], sample, first + uint32_t(e));
    put(e, z.first);
    if (pairs + e < entries) put(pairs + e, z.second);
  }
  for (int i = start; o.row_mask && i < o.n; i += step) {
    p.row_mask[k * o.n + i] = o.row_mask[b * o.n + i];
  }
  for (int j = start; o.col_mask && j < m; j += step) {
    p.col_mask[k * o.m + j] = o.col_mask[b * o.m + j];
  }
}

// Counts the chosen pairs. With may_leave, also sets the column of unmatched rows to m. The counts
// are float32: sums of ones are exact, in any order, up to 2^24.
__global__ void count_kernel(const __grid_constant__ PerturbedOperands o, Part part) {
  const int64_t at = part.first + blockIdx.x, b = at / o.samples;
  const bool solved = o.status[at] == kOptimal;
  for (int64_t i = threadIdx.x; i < o.n; i += blockDim.x) {
    int32_t j = o.col4row[at * o.n + i];
    const bool exists = !o.row_mask || o.row_mask[b * o.n + i];
    if (o.may_leave && solved && j < 0 && exists) {
      j = int32_t(o.m);
      o.col4row[at * o.n + i] = j;
    }
    if (j >= 0) atomicAdd(o.total + b * o.entries + i * o.width + j, 1.0f);
  }
}

ffi::Error solve_part(const PerturbedOperands& o, Part part, const NoisyProblems& p,
                      cudaStream_t stream) {
  constexpr int kThreads = 128, kEach = 4;  // kEach pairs of entries per thread
  const int64_t blocks =
      std::min<int64_t>((o.entries / 2 + kThreads * kEach - 1) / (kThreads * kEach), 64);
  const dim3 grid(unsigned(part.count), unsigned(std::max<int64_t>(blocks, 1)));
  const auto perturb =
      o.noise == Noise::kNormal ? perturb_kernel<Noise::kNormal> : perturb_kernel<Noise::kGumbel>;
  perturb<<<grid, kThreads, 0, stream>>>(o, part, p);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  AssignmentBatch b{};
  b.batch = part.count;
  b.n = o.n;
  b.m = o.m;
  b.cost = p.cost;
  b.cost_dtype = b.unmatched_dtype = b.result_dtype = Dtype::kF32;
  b.row_mask = o.row_mask ? p.row_mask : nullptr;
  b.col_mask = o.col_mask ? p.col_mask : nullptr;
  b.unmatched_cost = o.may_leave ? p.leave : nullptr;
  b.col4row = o.col4row + part.first * o.n;
  b.row4col = p.row4col;
  b.value = o.value + part.first;
  b.row_dual = p.row_dual;
  b.col_dual = p.col_dual;
  b.gap = p.gap;
  b.status = o.status + part.first;
  b.workspace = p.copy;
  b.workspace_costs = p.copy_words;
  if (ffi::Error error = launch_assignment(b, stream); error.failure()) return error;
  count_kernel<<<unsigned(part.count), 64, 0, stream>>>(o, part);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

ffi::Error Perturbed(cudaStream_t stream, ffi::Buffer<ffi::U32> noise_stream,
                     ffi::Buffer<ffi::F32> strength, ffi::Buffer<ffi::F32> cost,
                     ffi::RemainingArgs masks, ffi::Result<ffi::Buffer<ffi::F32>> total,
                     IndexResult col4row, ffi::Result<ffi::Buffer<ffi::F32>> value,
                     IndexResult status, IndexResult workspace, ffi::Dictionary attributes) {
  Attributes given("jaxmatch_perturbed_assignment", attributes);
  const auto decoded =
      decode_perturbed(noise_stream, strength, cost, masks, total, col4row, value, status, given);
  if (!decoded.has_value()) return decoded.error();
  const PerturbedOperands& o = *decoded;
  const int64_t problems = o.batch * o.samples;
  if (problems == 0) return ffi::Error::Success();
  const int64_t at_once = std::min(given.integer("at_once"), problems);
  if (given.failed()) return given.error();
  AssignmentOperands each{};
  each.n = o.n;
  each.m = o.m;
  each.cost_dtype = Dtype::kF32;
  each.row_mask = o.row_mask;
  each.col_mask = o.col_mask;
  each.unmatched_cost = o.may_leave ? o.cost : nullptr;
  const NoisyProblems p(each, at_once, reinterpret_cast<char*>(workspace->typed_data()));
  if (at_once < 1 || at_once > INT32_MAX || p.bytes > int64_t(workspace->size_bytes())) {
    return ffi::Error::InvalidArgument("jaxmatch_perturbed_assignment: the workspace is too small");
  }
  for (int64_t first = 0; first < problems; first += at_once) {
    const Part part{first, std::min(at_once, problems - first)};
    ffi::Error error = solve_part(o, part, p, stream);
    if (error.failure()) return error;
  }
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::perturbed

JAXMATCH_HANDLER(jaxmatch_perturbed_assignment, jaxmatch::perturbed::Perturbed,
                 xla::ffi::Ffi::Bind()
                     .Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     .Arg<xla::ffi::Buffer<xla::ffi::U32>>()
                     .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                     .Arg<xla::ffi::Buffer<xla::ffi::F32>>()
                     .RemainingArgs()
                     .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::F32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Ret<xla::ffi::Buffer<xla::ffi::S32>>()
                     .Attrs(),
                 {xla::ffi::Traits::kCmdBufferCompatible});
