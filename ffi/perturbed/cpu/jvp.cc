// The target jaxmatch_perturbed_jvp on CPU: the derivative of the mean of assignments under noise,
// along a tangent.
#include <algorithm>
#include <atomic>
#include <memory>
#include <new>

#include "common/cpu/thread_pool.h"
#include "perturbed/cpu/noise_fill.h"
#include "perturbed/jvp_operands.h"

namespace jaxmatch::perturbed {
namespace {

// Divides the samples of each problem into parts: ranges of samples, each of which one thread sums.
// The division depends on the shape only, so that the order of additions is the same on all
// machines. All problems together have at most 64 parts, or one part each if there are more than 64
// problems.
struct Parts {
  int64_t count, samples;  // parts per problem; samples per part

  explicit Parts(const JvpOperands& o) {
    const int64_t wanted = std::max<int64_t>(1, std::min(64 / o.batch, o.samples / 8));
    samples = std::max<int64_t>(1, (o.samples + wanted - 1) / wanted);
    count = std::max<int64_t>(1, (o.samples + samples - 1) / samples);
  }
};

// Adds the terms of samples [first, last) to `sum` (see JvpOperands), except the terms
// -by_solutions r <g_s, d>, which add_parts() adds. `scores` is scratch memory.
void add_samples(const JvpOperands& o, int64_t b, int64_t first, int64_t last, float* scores,
                 float* sum) {
  const NoiseLoops& loops = noise_loops(o.noise);
  const NoiseStream& stream = o.stream[b];
  const float* tangent = o.tangent + b * o.entries;
  const bool needs_scores_along = o.by_solutions != 0;
  const float of_reference =
      o.by_scores == 0 ? 0 : loops.dot(o.reference + b * o.entries, tangent, o.entries);
  for (int64_t s = first; s < last; ++s) {
    loops.fill_scores(stream, stream.first_sample + uint32_t(s), o.entries, scores);
    const int32_t* col4row = o.col4row + (b * o.samples + s) * o.n;
    const float of_scores =
        needs_scores_along ? o.by_solutions * loops.dot(scores, tangent, o.entries) : 0;
    float of_solution = 0;
    for (int64_t i = 0; i < o.n; ++i) {
      if (uint32_t(col4row[i]) >= uint32_t(o.width)) continue;
      of_solution += tangent[i * o.width + col4row[i]];
      sum[i * o.width + col4row[i]] += of_scores;
    }
    of_solution = o.by_scores * (of_solution - of_reference);
    if (of_solution != 0) loops.add_scaled(of_solution, scores, o.entries, sum);
    float* weight = o.weight + 2 * (b * o.samples + s);
    weight[0] = of_scores;
    weight[1] = of_solution;
  }
}

// Adds to the jvp of problem b, which holds the sum of the first part, the sums of its other parts
// (`sums`) and the terms -by_solutions r <g_s, d> of all samples.
void add_parts(const JvpOperands& o, int64_t b, const Parts& parts, const float* sums) {
  float* jvp = o.jvp + b * o.entries;
  const float* reference = o.reference + b * o.entries;
  const NoiseLoops& loops = noise_loops(o.noise);
  for (int64_t part = 1; part < parts.count; ++part, sums += o.entries) {
    loops.add_scaled(1, sums, o.entries, jvp);
  }
  float weight = 0;
  for (int64_t s = 0; s < o.samples; ++s) weight += o.weight[2 * (b * o.samples + s)];
  loops.add_scaled(-weight, reference, o.entries, jvp);
}

ffi::Error Jvp(ffi::ThreadPool pool, ffi::Buffer<ffi::U32> stream, ffi::Buffer<ffi::F32> tangent,
               ffi::Buffer<ffi::F32> reference, ffi::Buffer<ffi::S32> col4row,
               ffi::Result<ffi::Buffer<ffi::F32>> jvp, WeightResult weight,
               ffi::Dictionary attributes) {
  const auto decoded = decode_jvp(stream, tangent, reference, col4row, jvp, weight, attributes);
  if (!decoded.has_value()) return decoded.error();
  const JvpOperands& o = *decoded;
  const Parts parts(o);
  // The first part of each problem is summed directly in the result `jvp`, the other parts in
  // `sums`.
  const int64_t rest = parts.count - 1;
  const std::unique_ptr<float[]> sums(
      new (std::nothrow) float[size_t(std::max<int64_t>(1, o.batch * rest * o.entries))]);
  std::atomic<bool> out_of_memory{sums == nullptr};
  const auto sum_of = [&](int64_t b, int64_t part) {
    return part == 0 ? o.jvp + b * o.entries : sums.get() + (b * rest + part - 1) * o.entries;
  };
  const auto add_range = [&](int64_t first, int64_t last) {
    const std::unique_ptr<float[]> scores(new (std::nothrow) float[size_t(o.entries)]);
    if (!scores) out_of_memory = true;
    for (int64_t k = first; k < last && !out_of_memory; ++k) {
      const int64_t b = k / parts.count, part = k % parts.count;
      float* sum = sum_of(b, part);
      std::fill_n(sum, o.entries, 0.0f);
      const int64_t end = std::min(o.samples, (part + 1) * parts.samples);
      add_samples(o, b, part * parts.samples, end, scores.get(), sum);
    }
  };
  const double entries = double(o.entries);
  if (!out_of_memory) {
    for_each_range(pool, o.batch * parts.count, 100 + 1.5 * entries * double(parts.samples),
                   add_range);
  }
  if (out_of_memory) {
    return ffi::Error(ffi::ErrorCode::kResourceExhausted,
                      "jaxmatch_perturbed_jvp: no memory for the workspace");
  }
  const auto finish_range = [&](int64_t first, int64_t last) {
    for (int64_t b = first; b < last; ++b)
      add_parts(o, b, parts, sums.get() + b * rest * o.entries);
  };
  for_each_range(pool, o.batch, entries * double(parts.count), finish_range);
  return ffi::Error::Success();
}

}  // namespace
}  // namespace jaxmatch::perturbed

JAXMATCH_HANDLER(jaxmatch_perturbed_jvp, jaxmatch::perturbed::Jvp,
                 xla::ffi::Ffi::Bind().Ctx<xla::ffi::ThreadPool>() JAXMATCH_JVP_BINDING);
