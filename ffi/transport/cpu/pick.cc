#include "common/cpu/instruction_set.h"
#include "transport/cpu/problem.h"

namespace jaxmatch::transport {

SolveTransport pick_transport_solver() {
  static const SolveTransport best = [] {
    SolveTransport solve = portable::solve_transport;
#if defined(JAXMATCH_HAVE_AVX2)
    if (instruction_set() >= InstructionSet::kAvx2) solve = avx2::solve_transport;
#endif
#if defined(JAXMATCH_HAVE_AVX512)
    if (instruction_set() == InstructionSet::kAvx512) solve = avx512::solve_transport;
#endif
    return solve;
  }();
  return best;
}

}  // namespace jaxmatch::transport
