// Names of the metrics, as Python passes them.
#ifndef JAXMATCH_COSTS_METRIC_NAMES_H_
#define JAXMATCH_COSTS_METRIC_NAMES_H_

#include "common/attributes.h"
#include "costs/metric.h"

namespace jaxmatch {

constexpr Name<Metric> kMetrics[] = {{"sqeuclidean", Metric::kSqeuclidean},
                                     {"euclidean", Metric::kEuclidean},
                                     {"l1", Metric::kL1},
                                     {"cosine", Metric::kCosine}};

}  // namespace jaxmatch

#endif  // JAXMATCH_COSTS_METRIC_NAMES_H_
