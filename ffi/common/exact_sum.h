// Exact sums of doubles.
#ifndef JAXMATCH_EXACT_SUM_H_
#define JAXMATCH_EXACT_SUM_H_

#include <stdint.h>

#include "common/host_device.h"

namespace jaxmatch {
#include "common/exact_sum.inc.h"
}  // namespace jaxmatch

#endif  // JAXMATCH_EXACT_SUM_H_
