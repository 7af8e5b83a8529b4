// Runs of rising edge numbers, a proof that edges are distinct that needs no memory for each edge.
#ifndef JAXMATCH_FLOW_CPU_EDGE_RUNS_H_
#define JAXMATCH_FLOW_CPU_EDGE_RUNS_H_

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

namespace jaxmatch::flow {

// The edges of one kind, in the order in which they are read.
struct EdgeRun {
  int32_t first = -1, last = -1;  // -1 if there is none
  bool rises = true;

  void add(int32_t edge) {
    if (first < 0) first = edge;
    rises &= edge > last;
    last = edge;
  }
};

// Several threads may add runs.
class EdgeRuns {
 public:
  void add(const EdgeRun* runs, int count) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (int k = 0; k < count; ++k) {
      if (runs[k].first >= 0) runs_.push_back(runs[k]);
    }
  }
  // True if the runs prove that no edge is in two of them or twice in one.
  bool prove_distinct() {
    std::sort(runs_.begin(), runs_.end(),
              [](const EdgeRun& x, const EdgeRun& y) { return x.first < y.first; });
    int32_t last = -1;
    for (const EdgeRun& run : runs_) {
      if (!run.rises || run.first <= last) return false;
      last = run.last;
    }
    return true;
  }

 private:
  std::mutex mutex_;
  std::vector<EdgeRun> runs_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_EDGE_RUNS_H_
