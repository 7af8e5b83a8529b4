// Distance metrics for costs between points. This header has no templates and no functions, because
// the CPU's solvers include it once per instruction set (see assignment/cpu/problem.h).
#ifndef JAXMATCH_COSTS_METRIC_H_
#define JAXMATCH_COSTS_METRIC_H_

#include <cstdint>

namespace jaxmatch {

// kCosine expects unit vectors.
enum class Metric { kSqeuclidean, kEuclidean, kL1, kCosine };

// Size in bytes of the cache of computed cost rows in assignment/cpu/points.h and
// transport/cpu/point_costs.h.
constexpr int64_t kCachedBytes = int64_t{16} << 20;

}  // namespace jaxmatch

#endif  // JAXMATCH_COSTS_METRIC_H_
