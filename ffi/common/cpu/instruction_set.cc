// Tells users which instruction set was chosen (`jaxmatch.show_config`).
#include "common/cpu/instruction_set.h"

#include "common/handler.h"

extern "C" JAXMATCH_EXPORT const char* jaxmatch_instruction_set() {
  using jaxmatch::InstructionSet;
  switch (jaxmatch::instruction_set()) {
    case InstructionSet::kAvx512:
      return "avx512";
    case InstructionSet::kAvx2:
      return "avx2";
    case InstructionSet::kPortable:
      break;
  }
  return "portable";
}
