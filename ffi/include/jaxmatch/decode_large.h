// Decodes the buffers of the targets that solve large assignments, one problem after another.
#ifndef JAXMATCH_DECODE_LARGE_H_
#define JAXMATCH_DECODE_LARGE_H_

#include "jaxmatch/decode_assignment.h"

namespace jaxmatch {

// The bits of `given`, in the order of the operands: masks, then the state of an earlier step.
constexpr int64_t kGivenState = 16;

struct LargeOperands {
  AssignmentOperands batch;
  int32_t* control;       // [batch, control words]
  int64_t control_words;  // of one problem
  char* scratch;          // [batch, bytes]
  int64_t scratch_bytes;  // of one problem
  bool resumed;           // control and scratch are those of an earlier step
  int64_t rounds;         // at most; 0: to the end
};

}  // namespace jaxmatch

#endif  // JAXMATCH_DECODE_LARGE_H_
