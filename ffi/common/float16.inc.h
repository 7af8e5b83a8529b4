// bfloat16 and float16 as bits, and their exact conversion to float.
//
// Included inside a namespace: by float16.h, and by the CPU's solvers once per instruction set. The
// solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

struct BFloat16 {
  uint16_t bits;
};
struct Float16 {
  uint16_t bits;
};

JAXMATCH_DEVICE inline float single(BFloat16 x) {
  const uint32_t bits = uint32_t(x.bits) << 16;
  float single;
  memcpy(&single, &bits, sizeof single);
  return single;
}
JAXMATCH_DEVICE inline float single(Float16 x) {
  float single;
#if defined(__CUDA_ARCH__)
  asm("cvt.f32.f16 %0, %1;" : "=f"(single) : "h"(x.bits));
  return single;
#else
  const uint32_t sign = uint32_t(x.bits & 0x8000) << 16;
  const uint32_t magnitude = uint32_t(x.bits & 0x7fff) << 13;
  uint32_t bits = magnitude + (112u << 23);
  if (magnitude >= 31u << 23) bits += 112u << 23;  // infinite or NaN
  if (magnitude < 1u << 23) {  // zero or denormal: adding and subtracting 2^-14 normalises it
    bits += 1u << 23;
    memcpy(&single, &bits, sizeof single);
    single -= 0x1p-14f;
    memcpy(&bits, &single, sizeof bits);
  }
  bits |= sign;
  memcpy(&single, &bits, sizeof single);
  return single;
#endif
}
