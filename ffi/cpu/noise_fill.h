// Runs of noise, on the best instruction set that the processor has.
#ifndef JAXMATCH_CPU_NOISE_FILL_H_
#define JAXMATCH_CPU_NOISE_FILL_H_

#include <cstdint>

#include "jaxmatch/noise.h"

namespace jaxmatch {

// out[k] = the noise at place + k, for k < count.
void fill_noise(Noise noise, const NoiseStream& stream, uint32_t sample, uint32_t place,
                int64_t count, float* out);

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_NOISE_FILL_H_
