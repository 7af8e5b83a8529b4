// The metrics of costs that are distances between points. No templates, no functions: see
// assignment/cpu/problem.h.
#ifndef JAXMATCH_METRIC_H_
#define JAXMATCH_METRIC_H_

#include <cstdint>

namespace jaxmatch::assignment {

// For the cosine points are unit vectors.
enum class Metric { kSqeuclidean, kEuclidean, kL1, kCosine };

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_METRIC_H_
