// Choice among the solvers that are compiled for different instruction sets.
#ifndef JAXMATCH_CPU_ASSIGNMENT_PICK_H_
#define JAXMATCH_CPU_ASSIGNMENT_PICK_H_

#include <cstdint>

#include "assignment/cpu/problem.h"

namespace jaxmatch::assignment {

// The fastest solver on this processor for problems whose longer side is `cols`.
SolveAssignment pick_assignment_solver(int64_t cols);

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CPU_ASSIGNMENT_PICK_H_
