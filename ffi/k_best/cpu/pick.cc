#include "common/cpu/instruction_set.h"
#include "k_best/cpu/problem.h"

namespace jaxmatch::k_best {

SolveKBest pick_k_best_solver() {
  static const SolveKBest best = [] {
    SolveKBest solve = portable::solve_k_best;
#if defined(JAXMATCH_HAVE_AVX2)
    if (instruction_set() >= InstructionSet::kAvx2) solve = avx2::solve_k_best;
#endif
#if defined(JAXMATCH_HAVE_AVX512)
    if (instruction_set() == InstructionSet::kAvx512) solve = avx512::solve_k_best;
#endif
    return solve;
  }();
  return best;
}

}  // namespace jaxmatch::k_best
