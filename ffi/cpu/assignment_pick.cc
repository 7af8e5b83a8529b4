#include "assignment_pick.h"

#include <cstdlib>
#include <string_view>

namespace jaxmatch {

// The instruction sets that this processor has, best last. JAXMATCH_ISA=portable|avx2|avx512 asks
// for one of them, for tests and measurements.
SolveAssignment PickAssignmentSolver(int64_t cols) {
  struct Choice {
    SolveAssignment narrow, wide;
  };
  static const Choice choice = [] {
    const char* isa = std::getenv("JAXMATCH_ISA");
    const std::string_view asked(isa != nullptr ? isa : "");
    Choice best{portable::solve_assignment, portable::solve_assignment};
    if (asked == "portable") return best;
#if defined(__x86_64__)
    __builtin_cpu_init();
    const bool has_fma_f16c = __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
#if defined(JAXMATCH_HAVE_AVX2)
    if (has_fma_f16c && __builtin_cpu_supports("avx2")) {
      best = {avx2::solve_assignment, avx2::solve_assignment};
    }
#endif
#if defined(JAXMATCH_HAVE_AVX512)
    if (asked != "avx2" && has_fma_f16c && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl")) {
      best.wide = avx512::solve_assignment;
      if (asked == "avx512") best.narrow = best.wide;
    }
#endif
#endif
    return best;
  }();
  // Eight lanes pay where rows are long; all choices give the same bits.
  constexpr int64_t kWide = 256;
  return cols < kWide ? choice.narrow : choice.wide;
}

}  // namespace jaxmatch
