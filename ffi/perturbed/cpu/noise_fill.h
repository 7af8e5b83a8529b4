// Loops over the noise of one sample, compiled for the best instruction set of the processor.
#ifndef JAXMATCH_CPU_NOISE_FILL_H_
#define JAXMATCH_CPU_NOISE_FILL_H_

#include <cstdint>

#include "perturbed/noise.h"

namespace jaxmatch::perturbed {

// The results have the same bits on every instruction set.
struct NoiseLoops {
  // Fills `out` with the noise of one sample, or with its scores, for a problem of `entries`
  // entries.
  void (*fill)(const NoiseStream&, uint32_t sample, int64_t entries, float* out);
  void (*fill_scores)(const NoiseStream&, uint32_t sample, int64_t entries, float* out);
  float (*dot)(const float* x, const float* y, int64_t size);
  void (*add_scaled)(float factor, const float* x, int64_t size, float* sum);
};

const NoiseLoops& noise_loops(Noise noise);

}  // namespace jaxmatch::perturbed

#endif  // JAXMATCH_CPU_NOISE_FILL_H_
