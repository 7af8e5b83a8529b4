// The solver for any processor.
#define JAXMATCH_ISA_NAMESPACE portable
#include "assignment/cpu/solver.inc.h"
