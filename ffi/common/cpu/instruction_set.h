// Choice of the instruction set for vectorised loops on the CPU.
#ifndef JAXMATCH_INSTRUCTION_SET_H_
#define JAXMATCH_INSTRUCTION_SET_H_

#include <cstdlib>
#include <string_view>

namespace jaxmatch {

enum class InstructionSet { kPortable, kAvx2, kAvx512 };

// The instruction set that the environment variable JAXMATCH_ISA=portable|avx2|avx512 requests, for
// tests and measurements. Without the variable, the best instruction set is used.
struct RequestedInstructionSet {
  InstructionSet most = InstructionSet::kAvx512;
  bool by_name = false;
};
inline RequestedInstructionSet requested_instruction_set() {
  const char* const name = std::getenv("JAXMATCH_ISA");
  const std::string_view asked(name ? name : "");
  if (asked == "portable") return {InstructionSet::kPortable, true};
  if (asked == "avx2") return {InstructionSet::kAvx2, true};
  return {InstructionSet::kAvx512, asked == "avx512"};
}

// The best instruction set of this processor that is not above the requested one. Here AVX2
// includes FMA and F16C, and AVX-512 includes its extensions DQ, BW and VL.
inline InstructionSet instruction_set() {
  static const InstructionSet best = [] {
    InstructionSet found = InstructionSet::kPortable;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        __builtin_cpu_supports("f16c")) {
      found = InstructionSet::kAvx2;
      if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
        found = InstructionSet::kAvx512;
      }
    }
#endif
    const InstructionSet most = requested_instruction_set().most;
    return found < most ? found : most;
  }();
  return best;
}

#define JAXMATCH_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__)
template <class F>
__attribute__((target("avx2"))) void with_avx2(const F& f) {
  f();
}
template <class F>
__attribute__((target("avx2,avx512f,avx512dq,avx512bw,avx512vl"))) void with_avx512(const F& f) {
  f();
}
#endif

// Runs f, compiled for the instruction set in use. The compiler must inline f and each function
// that the loops of f call. So pass f as `[&]() JAXMATCH_VECTORIZED {...}`, and mark the functions
// JAXMATCH_INLINE.
#define JAXMATCH_VECTORIZED __attribute__((always_inline))
template <class F>
void vectorized(const F& f) {
#if defined(__x86_64__)
  if (instruction_set() == InstructionSet::kAvx512) return with_avx512(f);
  if (instruction_set() == InstructionSet::kAvx2) return with_avx2(f);
#endif
  f();
}

}  // namespace jaxmatch

#endif  // JAXMATCH_INSTRUCTION_SET_H_
