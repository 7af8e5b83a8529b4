// Reads and writes numbers of arrays whose dtype is known only at run time.
#ifndef JAXMATCH_REALS_H_
#define JAXMATCH_REALS_H_

#include <cstdint>

#include "common/dtype.h"
#include "common/host_device.h"

namespace jaxmatch {
#include "common/reals.inc.h"
}  // namespace jaxmatch

#endif  // JAXMATCH_REALS_H_
