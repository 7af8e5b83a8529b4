// The noise of perturbed estimators, as jaxmatch/estimators/_noise.py documents it: a function of
// key, sample and place. The same operations on every processor; loops over places vectorise.
//
// Nothing here may come from the C++ standard library: see cpu/assignment.h.
#ifndef JAXMATCH_NOISE_H_
#define JAXMATCH_NOISE_H_

#include <cstdint>

#if defined(__CUDACC__)
#define JAXMATCH_NOISE_FN __host__ __device__ inline
#else
#define JAXMATCH_NOISE_FN static inline __attribute__((always_inline))
#endif

namespace jaxmatch {

// In the order of NOISES in jaxmatch/estimators/_noise.py.
enum class Noise : int32_t { kNormal, kGumbel, kCount };

// What noise of one problem is made from: four words, an operand for each problem.
struct NoiseStream {
  uint32_t key[2];
  uint32_t first_sample;
  uint32_t problem;  // where it stands in the batch
};

// The two output words of Threefry-2x32 with 20 rounds, combined (Salmon et al., SC 2011).
JAXMATCH_NOISE_FN uint32_t threefry(uint32_t key0, uint32_t key1, uint32_t x, uint32_t y) {
  const uint32_t keys[3] = {key0, key1, key0 ^ key1 ^ 0x1bd11bdau};
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  x += keys[0];
  y += keys[1];
#if defined(__CUDACC__)
#pragma unroll
#endif
  for (uint32_t group = 0; group < 5; ++group) {
#if defined(__CUDACC__)
#pragma unroll
#endif
    for (int k = 0; k < 4; ++k) {
      const int turn = kRotations[group % 2][k];
      x += y;
      y = (y << turn | y >> (32 - turn)) ^ x;
    }
    x += keys[(group + 1) % 3];
    y += keys[(group + 2) % 3] + group + 1;
  }
  return x ^ y;
}

// (k + 1/2) / 2^23, exactly.
JAXMATCH_NOISE_FN float uniform_of(uint32_t bits) {
  return (float(int32_t(bits >> 9)) + 0.5f) * 0x1p-23f;
}

// The natural logarithm of a positive normal number to 2 ulp: the exponent, and the series of
// 2 artanh((m - 1) / (m + 1)) for m in [sqrt(1/2), sqrt(2)), whose next term is below 2^-31.
JAXMATCH_NOISE_FN float log_of(float x) {
  int32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const int32_t exponent = (bits - 0x3f3504f3) >> 23;  // 0 from the root of 1/2 on
  bits -= exponent << 23;
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

// sqrt(2) erfinv(2u - 1), by the single-precision polynomials of Giles, Approximating the erfinv
// function (GPU Computing Gems, 2011), table 5.
JAXMATCH_NOISE_FN float normal_of(float u) {
  const float x = 2 * u - 1, w = -log_of(4 * u * (1 - u)), near = w - 2.5f;
  // For u in (0, 1) w is above -1e-7, and its root matters from 5 on.
  const float far = root_of(w > 1 ? w : 1.0f) - 3;
  float p = 2.81022636e-08f;
  p = 3.43273939e-07f + p * near;
  p = -3.5233877e-06f + p * near;
  p = -4.39150654e-06f + p * near;
  p = 0.00021858087f + p * near;
  p = -0.00125372503f + p * near;
  p = -0.00417768164f + p * near;
  p = 0.246640727f + p * near;
  p = 1.50140941f + p * near;
  float q = -0.000200214257f;
  q = 0.000100950558f + q * far;
  q = 0.00134934322f + q * far;
  q = -0.00367342844f + q * far;
  q = 0.00573950773f + q * far;
  q = -0.0076224613f + q * far;
  q = 0.00943887047f + q * far;
  q = 1.00167406f + q * far;
  q = 2.83297682f + q * far;
  return 1.41421356f * ((w < 5 ? p : q) * x);
}

JAXMATCH_NOISE_FN float negative_gumbel_of(float u) { return log_of(-log_of(u)); }

// At the flat place `place` of the whole batch.
template <Noise kNoise>
JAXMATCH_NOISE_FN float noise_at(uint32_t key0, uint32_t key1, uint32_t sample, uint32_t place) {
  const float u = uniform_of(threefry(key0, key1, sample, place));
  return kNoise == Noise::kNormal ? normal_of(u) : negative_gumbel_of(u);
}

}  // namespace jaxmatch

#endif  // JAXMATCH_NOISE_H_
