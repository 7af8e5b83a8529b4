// The target jaxmatch_perturbed_jvp on CUDA: the derivative of the mean of assignments under noise,
// along a tangent. Both kernels generate the noise, instead of storing it. All sums have a fixed
// order.
#include <algorithm>

#include "common/cuda/check.h"
#include "perturbed/jvp_operands.h"

namespace jaxmatch::perturbed {
namespace {

constexpr int kThreads = 128;  // threads of a block of `weight_kernel`
constexpr int kGroups = 8;  // groups of threads in a block of `jvp_kernel`; they share the samples
constexpr int kPairs = 32;  // pairs of entries in a block of `jvp_kernel`
constexpr unsigned kWarp = 0xffffffff;

// The sum of x over the threads of a block. Only the first thread gets it.
__device__ float block_sum(float x) {
  __shared__ float of_warp[kThreads / 32];
  for (int half = 16; half > 0; half /= 2) x += __shfl_down_sync(kWarp, x, half);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < kThreads / 32; ++k) x += of_warp[k];
  }
  __syncthreads();
  return x;
}

// Computes the weights of the samples (JvpOperands::weight), with one block for each sample.
template <Noise kNoise>
__global__ void __launch_bounds__(kThreads) weight_kernel(const __grid_constant__ JvpOperands o) {
  const int64_t at = blockIdx.x, b = at / o.samples;
  const NoiseStream stream = o.stream[b];
  const uint32_t sample = stream.first_sample + uint32_t(at % o.samples);
  const int entries = int(o.entries), width = int(o.width), pairs = int(noise_pairs(entries));
  const uint32_t first = stream.problem * uint32_t(pairs);
  const float* const tangent = o.tangent + b * o.entries;
  const float* const reference = o.reference + b * o.entries;
  const int32_t* const col4row = o.col4row + at * o.n;
  float of_scores = 0, of_solution = 0;
  for (int k = int(threadIdx.x); o.by_solutions != 0 && k < pairs; k += kThreads) {
    const NoisePair g =
        noise_at<kNoise, true>(stream.key[0], stream.key[1], sample, first + uint32_t(k));
    of_scores += g.first * tangent[k];
    if (pairs + k < entries) of_scores += g.second * tangent[pairs + k];
  }
  for (int e = int(threadIdx.x); o.by_scores != 0 && e < entries; e += kThreads) {
    of_solution -= reference[e] * tangent[e];
  }
  for (int i = int(threadIdx.x); i < int(o.n); i += kThreads) {
    if (col4row[i] >= 0) of_solution += tangent[i * width + col4row[i]];
  }
  of_scores = block_sum(of_scores);
  of_solution = block_sum(of_solution);
  if (threadIdx.x == 0) {
    o.weight[2 * at] = o.by_solutions * of_scores;
    o.weight[2 * at + 1] = o.by_scores * of_solution;
  }
}

// Partial sums of one thread over its samples: for the two entries of a pair, and of the weights
// by_solutions <g_s, d>. The total of the weights multiplies the reference.
struct PairSums {
  float first, second, of_scores;
};

// Computes the jvp from the weights. Threads with the same threadIdx.x share a pair of entries.
// Each of these threads sums over every kGroups-th sample, and the first thread adds their partial
// sums.
template <Noise kNoise>
__global__ void __launch_bounds__(kPairs* kGroups)
    jvp_kernel(const __grid_constant__ JvpOperands o, int tiles) {
  const int64_t b = blockIdx.x / tiles;
  const int pairs = int(noise_pairs(o.entries)), n = int(o.n), width = int(o.width);
  const int pair = int(blockIdx.x % tiles) * kPairs + int(threadIdx.x);
  const int e0 = pair, e1 = pairs + pair;
  const bool has_first = pair < pairs, has_second = has_first && e1 < int(o.entries);
  const int row0 = has_first ? e0 / width : 0, col0 = has_first ? e0 - row0 * width : -2;
  const int row1 = has_second ? e1 / width : 0, col1 = has_second ? e1 - row1 * width : -2;
  const NoiseStream stream = o.stream[b];
  const uint32_t counter = stream.problem * uint32_t(pairs) + uint32_t(pair);
  const float* const weight = o.weight + 2 * b * o.samples;
  const int32_t* const col4row = o.col4row + b * o.samples * o.n;
  PairSums sums{0, 0, 0};
  for (int64_t s = threadIdx.y; s < o.samples; s += kGroups) {
    const float of_scores = weight[2 * s], of_solution = weight[2 * s + 1];
    if (o.by_scores != 0) {
      const NoisePair g = noise_at<kNoise, true>(stream.key[0], stream.key[1],
                                                 stream.first_sample + uint32_t(s), counter);
      sums.first += of_solution * g.first;
      sums.second += of_solution * g.second;
    }
    if (o.by_solutions != 0) {
      if (col4row[s * n + row0] == col0) sums.first += of_scores;
      if (col4row[s * n + row1] == col1) sums.second += of_scores;
      sums.of_scores += of_scores;
    }
  }
  __shared__ PairSums of_group[kGroups][kPairs];
  of_group[threadIdx.y][threadIdx.x] = sums;
  __syncthreads();
  if (threadIdx.y > 0) return;
  for (int group = 1; group < kGroups; ++group) {
    const PairSums other = of_group[group][threadIdx.x];
    sums.first += other.first;
    sums.second += other.second;
    sums.of_scores += other.of_scores;
  }
  const float* const reference = o.reference + b * o.entries;
  float* const jvp = o.jvp + b * o.entries;
  if (has_first) jvp[e0] = sums.first - sums.of_scores * reference[e0];
  if (has_second) jvp[e1] = sums.second - sums.of_scores * reference[e1];
}

template <Noise kNoise>
ffi::Error launch(const JvpOperands& o, cudaStream_t stream) {
  const int64_t tiles = (noise_pairs(o.entries) + kPairs - 1) / kPairs;
  if (o.batch * o.samples > INT32_MAX || o.batch * tiles > INT32_MAX) {
    return ffi::Error::InvalidArgument("jaxmatch_perturbed_jvp: too many problems");
  }
  if (o.samples > 0) {
    weight_kernel<kNoise><<<unsigned(o.batch * o.samples), kThreads, 0, stream>>>(o);
    JAXMATCH_CUDA_CHECK(cudaGetLastError());
  }
  jvp_kernel<kNoise>
      <<<unsigned(o.batch * tiles), dim3(kPairs, kGroups), 0, stream>>>(o, int(tiles));
  JAXMATCH_CUDA_CHECK(cudaGetLastError());
  return ffi::Error::Success();
}

ffi::Error Jvp(cudaStream_t stream, ffi::Buffer<ffi::U32> noise_stream,
               ffi::Buffer<ffi::F32> tangent, ffi::Buffer<ffi::F32> reference,
               ffi::Buffer<ffi::S32> col4row, ffi::Result<ffi::Buffer<ffi::F32>> jvp,
               WeightResult weight, ffi::Dictionary attributes) {
  const auto decoded =
      decode_jvp(noise_stream, tangent, reference, col4row, jvp, weight, attributes);
  if (!decoded.has_value()) return decoded.error();
  return decoded->noise == Noise::kNormal ? launch<Noise::kNormal>(*decoded, stream)
                                          : launch<Noise::kGumbel>(*decoded, stream);
}

}  // namespace
}  // namespace jaxmatch::perturbed

JAXMATCH_HANDLER(jaxmatch_perturbed_jvp, jaxmatch::perturbed::Jvp,
                 xla::ffi::Ffi::Bind().Ctx<xla::ffi::PlatformStream<cudaStream_t>>()
                     JAXMATCH_JVP_BINDING,
                 {xla::ffi::Traits::kCmdBufferCompatible});
