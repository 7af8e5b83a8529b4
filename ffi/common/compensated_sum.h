// Sums of doubles that keep what their additions round away.
#ifndef JAXMATCH_COMPENSATED_SUM_H_
#define JAXMATCH_COMPENSATED_SUM_H_

#if defined(__CUDACC__)
#define JAXMATCH_SUM_FN __host__ __device__
#else
#define JAXMATCH_SUM_FN
#endif

namespace jaxmatch {
#include "common/compensated_sum.inc.h"
}  // namespace jaxmatch

#endif  // JAXMATCH_COMPENSATED_SUM_H_
