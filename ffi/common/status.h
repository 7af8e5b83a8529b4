// The status codes of a solve. The build takes their values from jaxmatch/_common/status.py.
#ifndef JAXMATCH_STATUS_H_
#define JAXMATCH_STATUS_H_

#include <cstdint>

namespace jaxmatch {

enum Status : int32_t {
  kOptimal = JAXMATCH_STATUS_OPTIMAL,
  kInfeasible = JAXMATCH_STATUS_INFEASIBLE,
  kInvalidCost = JAXMATCH_STATUS_INVALID_COST,
  kOverflow = JAXMATCH_STATUS_OVERFLOW,
  kUnfinished = JAXMATCH_STATUS_UNFINISHED,
  kInvalidGraph = JAXMATCH_STATUS_INVALID_GRAPH,
  kInvalidCapacity = JAXMATCH_STATUS_INVALID_CAPACITY,
  kInvalidMass = JAXMATCH_STATUS_INVALID_MASS,
  kUnbalanced = JAXMATCH_STATUS_UNBALANCED,
  kTimeLimit = JAXMATCH_STATUS_TIME_LIMIT,
  kUnbounded = JAXMATCH_STATUS_UNBOUNDED,
};

}  // namespace jaxmatch

#endif  // JAXMATCH_STATUS_H_
