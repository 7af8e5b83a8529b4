// 16-bit floats.
#ifndef JAXMATCH_FLOAT16_H_
#define JAXMATCH_FLOAT16_H_

#include <cstdint>
#include <cstring>

#include "common/host_device.h"

namespace jaxmatch {
#include "common/float16.inc.h"
}  // namespace jaxmatch

#endif  // JAXMATCH_FLOAT16_H_
