// The few conversions of <cuda_fp16.h> that the kernels use; see cuda_emulator.h.
#pragma once

#include <cstdint>

struct __half {
  uint16_t bits;
};

inline __half __ushort_as_half(uint16_t bits) { return {bits}; }

inline float __half2float(__half half) {
  _Float16 x;
  __builtin_memcpy(&x, &half.bits, sizeof x);
  return float(x);
}
