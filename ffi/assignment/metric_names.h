// Names of the metrics, as Python passes them.
#ifndef JAXMATCH_METRIC_NAMES_H_
#define JAXMATCH_METRIC_NAMES_H_

#include "assignment/metric.h"
#include "common/attributes.h"

namespace jaxmatch::assignment {

constexpr Name<Metric> kMetrics[] = {{"sqeuclidean", Metric::kSqeuclidean},
                                     {"euclidean", Metric::kEuclidean},
                                     {"l1", Metric::kL1},
                                     {"cosine", Metric::kCosine}};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_METRIC_NAMES_H_
