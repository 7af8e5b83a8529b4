// Distance metrics for costs between points. This header holds no templates and no functions, for
// the reason given in assignment/cpu/problem.h.
#ifndef JAXMATCH_METRIC_H_
#define JAXMATCH_METRIC_H_

#include <cstdint>

namespace jaxmatch::assignment {

// kCosine expects unit vectors.
enum class Metric { kSqeuclidean, kEuclidean, kL1, kCosine };

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_METRIC_H_
