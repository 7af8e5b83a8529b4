#include "noise_fill.h"

#include <cstdlib>
#include <string_view>

namespace jaxmatch {
namespace {

template <Noise kNoise>
inline __attribute__((always_inline)) void fill(const NoiseStream& stream, uint32_t sample,
                                                uint32_t place, int64_t count, float* out) {
  const uint32_t key0 = stream.key[0], key1 = stream.key[1];
  for (int64_t k = 0; k < count; ++k) {
    out[k] = noise_at<kNoise>(key0, key1, sample, place + uint32_t(k));
  }
}

using Fill = void (*)(const NoiseStream&, uint32_t, uint32_t, int64_t, float*);

// One source, compiled for both; the bits are the same.
template <Noise kNoise>
void fill_portable(const NoiseStream& stream, uint32_t sample, uint32_t place, int64_t count,
                   float* out) {
  fill<kNoise>(stream, sample, place, count, out);
}

#if defined(__x86_64__)
template <Noise kNoise>
__attribute__((target("avx2"))) void fill_avx2(const NoiseStream& stream, uint32_t sample,
                                               uint32_t place, int64_t count, float* out) {
  fill<kNoise>(stream, sample, place, count, out);
}
#endif

template <Noise kNoise>
Fill pick() {
#if defined(__x86_64__)
  const char* asked = std::getenv("JAXMATCH_ISA");
  __builtin_cpu_init();
  if ((asked == nullptr || std::string_view(asked) != "portable") &&
      __builtin_cpu_supports("avx2")) {
    return fill_avx2<kNoise>;
  }
#endif
  return fill_portable<kNoise>;
}

}  // namespace

void fill_noise(Noise noise, const NoiseStream& stream, uint32_t sample, uint32_t place,
                int64_t count, float* out) {
  static const Fill normal = pick<Noise::kNormal>(), gumbel = pick<Noise::kGumbel>();
  (noise == Noise::kNormal ? normal : gumbel)(stream, sample, place, count, out);
}

}  // namespace jaxmatch
