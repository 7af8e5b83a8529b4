// Compensated sums of doubles.
#ifndef JAXMATCH_COMPENSATED_SUM_H_
#define JAXMATCH_COMPENSATED_SUM_H_

#include "common/host_device.h"

namespace jaxmatch {
#include "common/compensated_sum.inc.h"
}  // namespace jaxmatch

#endif  // JAXMATCH_COMPENSATED_SUM_H_
