// The solver for processors with AVX-512.
#define JAXMATCH_AVX512 1
#define JAXMATCH_ISA_NAMESPACE avx512
#include "k_best/cpu/solver.inc.h"
