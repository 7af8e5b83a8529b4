// The status codes of a solve. The same numbers stand in jaxmatch/_common/status.py.
#ifndef JAXMATCH_STATUS_H_
#define JAXMATCH_STATUS_H_

#include <cstdint>

namespace jaxmatch {

enum Status : int32_t {
  kOptimal = 0,
  kInfeasible = 1,
  kInvalidCost = 2,
  kOverflow = 3,
  kUnfinished = 4,
  kInvalidGraph = 5,
  kInvalidCapacity = 6,
};

}  // namespace jaxmatch

#endif  // JAXMATCH_STATUS_H_
