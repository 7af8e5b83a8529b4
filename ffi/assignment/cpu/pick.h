// Which of the compiled solvers runs.
#ifndef JAXMATCH_CPU_ASSIGNMENT_PICK_H_
#define JAXMATCH_CPU_ASSIGNMENT_PICK_H_

#include <cstdint>

#include "assignment/cpu/problem.h"

namespace jaxmatch::assignment {

// The best for this processor and problems whose longer side is `cols`.
SolveAssignment pick_assignment_solver(int64_t cols);

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CPU_ASSIGNMENT_PICK_H_
