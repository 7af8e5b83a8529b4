// The solver for processors with AVX-2.
#define JAXMATCH_AVX2 1
#define JAXMATCH_ISA_NAMESPACE avx2
#include "assignment/cpu/solver.inc.h"
