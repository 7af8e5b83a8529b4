// The solver for any processor.
#define JAXMATCH_ISA_NAMESPACE portable
#include "k_best/cpu/solver.inc.h"
