// How long single searches pay before one search from all free rows is cheaper.
#ifndef JAXMATCH_MATCHING_CPU_BUDGET_H_
#define JAXMATCH_MATCHING_CPU_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace jaxmatch::matching {

// Passes over the rows that are still free, each with a higher bound on the edges that a search may
// look at. All work is counted in edges and compared with a walk over the whole graph, which is
// what a phase of a search from all rows costs at most.
class SearchBudget {
 public:
  SearchBudget(int64_t edges, int32_t num_free)
      : walk_(edges), sample_(edges / 8), work_left_(4 * edges), num_free_(num_free) {}

  int64_t bound() const { return bound_; }
  // Work after which it is worth to ask too_dear().
  int64_t sample() const { return sample_; }

  // Would the rows that are left in this pass cost more than a walk over the graph, if they go on
  // like those that `work` has settled?
  bool too_dear(int64_t work, int64_t settled) const {
    if (work <= sample_) return false;
    const double open = double(num_free_ - settled);
    return work > work_left_ || double(work) * open > double(walk_) * double(settled);
  }

  // Ends a pass that left so many rows open. True if another one is worth it.
  bool next_pass(int64_t work, int32_t left) {
    // A search that may be long might as well come to its end, and then settles more.
    bound_ = bound_ * kGrowth > sample_ ? walk_ : bound_ * kGrowth;
    // A row that was cut will most likely be cut again, at the new bound's price.
    const double cut = double(left) / std::max(1.0, double(num_free_));
    work_left_ -= work;
    num_free_ = left;
    return left > 0 && work_left_ > 0 && cut * double(left) * double(bound_) <= 3 * double(walk_);
  }

 private:
  static constexpr int64_t kFirstBound = 128, kGrowth = 16;

  const int64_t walk_, sample_;
  int64_t work_left_;
  int64_t bound_ = kFirstBound;
  int32_t num_free_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_BUDGET_H_
