// The target jaxmatch_perturbed_assignment on CUDA: as many samples at once as the workspace holds,
// each a problem of its own for the kernels that solve batches.
#include <algorithm>

#include "assignment/cuda/launch.h"
#include "assignment/cuda/plan.h"
#include "common/cuda/check.h"
#include "common/status.h"
#include "perturbed/operands.h"

namespace jaxmatch::perturbed {
namespace {

// A part of the samples of all problems, which are numbered one problem after another.
struct Part {
  int64_t first, count;
};

// The problems of a part, in the workspace.
struct NoisyProblems {
  float *cost, *leave;
  uint8_t *row_mask, *col_mask;
  int32_t* row4col;
  float *row_dual, *col_dual, *gap;
  void* copy;
  int64_t words;  // of all that

  NoisyProblems(const PerturbedOperands& o, int64_t count, int64_t copy_words, int32_t* base)
      : words(0) {
    const auto take = [&](int64_t each) {
      int32_t* const at = base + words;
      words += (count * each + 3) / 4 * 4;
      return at;
    };
    cost = reinterpret_cast<float*>(take(o.n * o.m));
    leave = reinterpret_cast<float*>(take(o.may_leave ? o.n : 0));
    row_mask = reinterpret_cast<uint8_t*>(take(o.row_mask ? o.n : 0));
    col_mask = reinterpret_cast<uint8_t*>(take(o.col_mask ? o.m : 0));
    row4col = take(o.m);
    row_dual = reinterpret_cast<float*>(take(o.n));
    col_dual = reinterpret_cast<float*>(take(o.m));
    gap = reinterpret_cast<float*>(take(1));
    copy = take(copy_words);
  }
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
  // Here rather than by a memset, which would be one more launch.
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

// Counts the pairs, and names the rows that are left. Sums of ones are exact in any order, as far
// as float32 counts: 2^24 samples.
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

ffi::Error SolvePart(const PerturbedOperands& o, Part part, const NoisyProblems& p,
                     int64_t copy_words, cudaStream_t stream) {
  constexpr int kThreads = 128, kEach = 4;  // pairs
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
  b.workspace_words = copy_words;
  if (ffi::Error error = LaunchAssignment(b, stream); error.failure()) return error;
  count_kernel<<<unsigned(part.count), 64, 0, stream>>>(o, part);
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

// `copy_words`: of the workspace that the solver needs for one problem.
ffi::Error Perturbed(cudaStream_t stream, ffi::Buffer<ffi::U32> noise_stream,
                     ffi::Buffer<ffi::F32> strength, ffi::Buffer<ffi::F32> cost,
                     ffi::RemainingArgs masks, ffi::Result<ffi::Buffer<ffi::F32>> total,
                     IndexResult col4row, ffi::Result<ffi::Buffer<ffi::F32>> value,
                     IndexResult status, IndexResult workspace, int64_t given, int64_t noise,
                     bool may_leave, int64_t at_once, int64_t copy_words) {
  const auto decoded = DecodePerturbed(noise_stream, strength, cost, masks, total, col4row, value,
                                       status, given, noise, may_leave);
  if (!decoded.has_value()) return decoded.error();
  const PerturbedOperands& o = *decoded;
  const int64_t problems = o.batch * o.samples;
  if (problems == 0) return ffi::Error::Success();
  at_once = std::min(at_once, problems);
  const NoisyProblems p(o, at_once, copy_words, workspace->typed_data());
  if (at_once < 1 || at_once > INT32_MAX || p.words > int64_t(workspace->element_count())) {
    return ffi::Error::InvalidArgument("jaxmatch_perturbed_assignment: the workspace is too small");
  }
  for (int64_t first = 0; first < problems; first += at_once) {
    const Part part{first, std::min(at_once, problems - first)};
    ffi::Error error = SolvePart(o, part, p, copy_words, stream);
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
                     .Attr<int64_t>("given")
                     .Attr<int64_t>("noise")
                     .Attr<bool>("may_leave")
                     .Attr<int64_t>("at_once")
                     .Attr<int64_t>("copy_words"),
                 {xla::ffi::Traits::kCmdBufferCompatible});
