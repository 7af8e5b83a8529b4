// The solver for processors with AVX2.
#define JAXMATCH_AVX2 1
#define JAXMATCH_ISA_NAMESPACE avx2
#include "k_best/cpu/solver.inc.h"
