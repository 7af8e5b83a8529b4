// Limits that Python checks as well. The build takes their values from jaxmatch/_common/limits.py.
#ifndef JAXMATCH_LIMITS_H_
#define JAXMATCH_LIMITS_H_

#include <cstdint>

namespace jaxmatch {

constexpr int64_t kMostVertices = JAXMATCH_LIMIT_MOST_VERTICES;
constexpr int64_t kMostGraphEdges = JAXMATCH_LIMIT_MOST_GRAPH_EDGES;
constexpr int64_t kMostNetworkEdges = JAXMATCH_LIMIT_MOST_NETWORK_EDGES;
constexpr int64_t kMostCells = JAXMATCH_LIMIT_MOST_CELLS;

// Loop counters may exceed the length of an array by up to this number.
constexpr int64_t kMostOvershoot = 2048;
static_assert(kMostGraphEdges <= INT32_MAX - kMostOvershoot, "counters have 32 bits");
static_assert(2 * kMostNetworkEdges <= INT32_MAX - kMostOvershoot, "counters have 32 bits");

}  // namespace jaxmatch

#endif  // JAXMATCH_LIMITS_H_
