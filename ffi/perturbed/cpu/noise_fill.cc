#include "perturbed/cpu/noise_fill.h"

#include "common/cpu/instruction_set.h"

namespace jaxmatch::perturbed {
namespace {

template <Noise kNoise, bool kScores>
JAXMATCH_INLINE void fill(const NoiseStream& stream, uint32_t sample, int64_t entries, float* out) {
  const uint32_t key0 = stream.key[0], key1 = stream.key[1];
  const uint32_t first = stream.problem * uint32_t(noise_pairs(entries));
  const int64_t pairs = noise_pairs(entries), whole = entries - pairs;
  float* second = out + pairs;
  for (int64_t k = 0; k < whole; ++k) {
    const NoisePair z = noise_at<kNoise, kScores>(key0, key1, sample, first + uint32_t(k));
    out[k] = z.first;
    second[k] = z.second;
  }
  if (whole < pairs) {
    out[whole] = noise_at<kNoise, kScores>(key0, key1, sample, first + uint32_t(whole)).first;
  }
}

// Dot product, with one partial sum for each lane of the widest vector. The order of additions is
// fixed, so that all instruction sets return the same bits.
JAXMATCH_INLINE float dot(const float* x, const float* y, int64_t size) {
  constexpr int kLanes = 16;
  float sums[kLanes] = {};
  int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += x[k + lane] * y[k + lane];
  }
  for (int lane = 0; k < size; ++k, ++lane) sums[lane] += x[k] * y[k];
  for (int half = kLanes / 2; half > 0; half /= 2) {
    for (int lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

JAXMATCH_INLINE void add_scaled(float factor, const float* x, int64_t size, float* sum) {
  for (int64_t k = 0; k < size; ++k) sum[k] += factor * x[k];
}

// The loops above, compiled for the instruction set that `attribute` (a function attribute) names.
#define JAXMATCH_LOOPS_FOR(Isa, attribute)                                                         \
  template <Noise kNoise>                                                                          \
  struct Isa {                                                                                     \
    attribute static void fill_noise(const NoiseStream& stream, uint32_t sample, int64_t entries,  \
                                     float* out) {                                                 \
      fill<kNoise, false>(stream, sample, entries, out);                                           \
    }                                                                                              \
    attribute static void fill_scores(const NoiseStream& stream, uint32_t sample, int64_t entries, \
                                      float* out) {                                                \
      fill<kNoise, true>(stream, sample, entries, out);                                            \
    }                                                                                              \
    attribute static float dot_of(const float* x, const float* y, int64_t size) {                  \
      return dot(x, y, size);                                                                      \
    }                                                                                              \
    attribute static void add(float factor, const float* x, int64_t size, float* sum) {            \
      add_scaled(factor, x, size, sum);                                                            \
    }                                                                                              \
    static constexpr NoiseLoops kLoops{fill_noise, fill_scores, dot_of, add};                      \
  };

JAXMATCH_LOOPS_FOR(Portable, )
#if defined(__x86_64__)
JAXMATCH_LOOPS_FOR(Avx2, __attribute__((target("avx2"))))
JAXMATCH_LOOPS_FOR(Avx512, __attribute__((target("avx512f,avx512vl"))))
#endif

template <Noise kNoise>
NoiseLoops pick() {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::kAvx512) return Avx512<kNoise>::kLoops;
  if (instruction_set() == InstructionSet::kAvx2) return Avx2<kNoise>::kLoops;
#endif
  return Portable<kNoise>::kLoops;
}

}  // namespace

const NoiseLoops& noise_loops(Noise noise) {
  static const NoiseLoops normal = pick<Noise::kNormal>(), gumbel = pick<Noise::kGumbel>();
  return noise == Noise::kNormal ? normal : gumbel;
}

}  // namespace jaxmatch::perturbed
