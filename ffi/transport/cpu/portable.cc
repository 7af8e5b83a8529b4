// The solver for any processor.
#define JAXMATCH_ISA_NAMESPACE portable
#include "transport/cpu/solver.inc.h"
