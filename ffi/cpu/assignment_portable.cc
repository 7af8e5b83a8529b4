// The solver for any processor.
#define JAXMATCH_ISA_NAMESPACE portable
#include "assignment_solver.inc.h"
