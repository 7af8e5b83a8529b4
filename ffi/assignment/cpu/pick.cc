#include "assignment/cpu/pick.h"

#include "common/cpu/instruction_set.h"

namespace jaxmatch::assignment {

SolveAssignment pick_assignment_solver(int64_t cols) {
  struct Choice {
    SolveAssignment narrow, wide;
  };
  static const Choice choice = [] {
    Choice best{portable::solve_assignment, portable::solve_assignment};
#if defined(JAXMATCH_HAVE_AVX2)
    if (instruction_set() >= InstructionSet::kAvx2) {
      best = {avx2::solve_assignment, avx2::solve_assignment};
    }
#endif
#if defined(JAXMATCH_HAVE_AVX512)
    if (instruction_set() == InstructionSet::kAvx512) {
      best.wide = avx512::solve_assignment;
      if (requested_instruction_set().by_name) best.narrow = best.wide;
    }
#endif
    return best;
  }();
  // The eight lanes of AVX-512 are faster on long rows only. All solvers return the same bits, so
  // the choice changes no result.
  constexpr int64_t kWide = 256;
  return cols < kWide ? choice.narrow : choice.wide;
}

}  // namespace jaxmatch::assignment
