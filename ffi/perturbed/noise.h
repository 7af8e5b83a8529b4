// The noise of perturbed estimators: a function of key, sample and position, which
// jaxmatch/estimators/_noise.py documents. CPUs and GPUs compute it by the same operations, and
// loops over positions vectorise.
//
// This header must not use the C++ standard library: see assignment/cpu/problem.h.
#ifndef JAXMATCH_NOISE_H_
#define JAXMATCH_NOISE_H_

#include <cstdint>

#if defined(__CUDACC__)
#define JAXMATCH_NOISE_FN __host__ __device__ inline
#else
#define JAXMATCH_NOISE_FN static inline __attribute__((always_inline))
#endif

namespace jaxmatch::perturbed {

enum class Noise : int32_t { kNormal, kGumbel };

// The seed of the noise of one problem: four words of the operand `stream`.
struct NoiseStream {
  uint32_t key[2];
  uint32_t first_sample;
  uint32_t problem;  // index of the problem in the batch
};

struct Words {
  uint32_t first, second;
};

// Threefry-2x32 with 13 rounds (Salmon et al., SC 2011).
JAXMATCH_NOISE_FN Words threefry(uint32_t key0, uint32_t key1, uint32_t x, uint32_t y) {
  const uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1bd11bdau};
  constexpr int kRotations[8] = {13, 15, 26, 6, 17, 29, 16, 24};
  x += keys[0];
  y += keys[1];
#if defined(__CUDA_ARCH__)
#pragma unroll
#elif !defined(__CUDACC__)
#pragma GCC unroll 13
#endif
  for (uint32_t round = 0; round < 13; ++round) {
    const int turn = kRotations[round % 8];
    x += y;
    y = (y << turn | y >> (32 - turn)) ^ x;
    if (round % 4 == 3) {
      const uint32_t group = round / 4 + 1;
      x += keys[group % 3];
      y += keys[(group + 1) % 3] + group;
    }
  }
  return {x, y};
}

// (k + 1/2) / 2^23, exactly, where k is the number in the upper 23 bits of `bits`.
JAXMATCH_NOISE_FN float uniform_of(uint32_t bits) {
  return (float(int32_t(bits >> 9)) + 0.5f) * 0x1p-23f;
}

// The natural logarithm of a positive normal number, to 2 ulp. With x = m * 2^exponent and m in
// [sqrt(1/2), sqrt(2)), log(m) = 2 artanh((m - 1) / (m + 1)), which is computed by its series. The
// first omitted term is below 2^-31.
JAXMATCH_NOISE_FN float log_of(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const int32_t exponent = (bits - 0x3f3504f3) >> 23;  // 0 for x in [sqrt(1/2), sqrt(2))
  bits -= exponent * (1 << 23);                        // a negative number must not be shifted left
  float m;
  __builtin_memcpy(&m, &bits, 4);
  const float s = (m - 1) / (m + 1), t = s * s;
  const float series = 2.0f / 3 + t * (2.0f / 5 + t * (2.0f / 7 + t * (2.0f / 9)));
  return float(exponent) * 0.693147182f + (2 * s + s * t * series);
}

JAXMATCH_NOISE_FN float root_of(float x) {
#if defined(__CUDA_ARCH__)
  return __fsqrt_rn(x);
#else
  return __builtin_sqrtf(x);
#endif
}

struct NoisePair {
  float first, second;
};

// Two normal numbers from two uniform numbers (Box and Muller, Annals of Mathematical Statistics
// 29, 1958). The angle is a whole number of quarter turns plus f quarter turns, |f| <= 1/2. Sine
// and cosine of f quarter turns are approximated by polynomials, accurate to 1 ulp.
JAXMATCH_NOISE_FN NoisePair normals_of(float u, float v) {
  const float radius = root_of(-2 * log_of(u));
  const int32_t quarters = int32_t(4 * v + 0.5f);
  const float a = 1.57079633f * (4 * v - float(quarters)), t = a * a;
  const float sine = a + a * t * (-0.166666667f + t * (8.33333333e-3f + t * -1.95152959e-4f));
  const float cosine =
      1 + t * (-0.5f + t * (4.16666418e-2f + t * (-1.38873162e-3f + t * 2.44331571e-5f)));
  const bool odd = quarters & 1;
  const float x = odd ? sine : cosine, y = odd ? cosine : sine;
  return {radius * ((quarters + 1) & 2 ? -x : x), radius * (quarters & 2 ? -y : y)};
}

JAXMATCH_NOISE_FN float negative_gumbel_of(float u) { return log_of(-log_of(u)); }

// The two noise values for the counter (sample, pair). With kScores, returns their scores instead:
// the derivatives of -log of the density of the noise.
template <Noise kNoise, bool kScores = false>
JAXMATCH_NOISE_FN NoisePair noise_at(uint32_t key0, uint32_t key1, uint32_t sample, uint32_t pair) {
  const Words words = threefry(key0, key1, sample, pair);
  const float u = uniform_of(words.first), v = uniform_of(words.second);
  if (kNoise == Noise::kNormal) return normals_of(u, v);  // their scores are the numbers themselves
  if (kScores) return {-log_of(u) - 1, -log_of(v) - 1};   // exp(z) - 1 for z = log(-log u)
  return {negative_gumbel_of(u), negative_gumbel_of(v)};
}

// Number of pairs of noise values for `entries` entries. Pair k gives the noise of entry k, and of
// entry pairs + k if there is one.
JAXMATCH_NOISE_FN int64_t noise_pairs(int64_t entries) { return (entries + 1) / 2; }

}  // namespace jaxmatch::perturbed

#endif  // JAXMATCH_NOISE_H_
