// Decides, by cost, when to switch from single searches to one search from all free rows.
#ifndef JAXMATCH_MATCHING_CPU_BUDGET_H_
#define JAXMATCH_MATCHING_CPU_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace jaxmatch::matching {

// Each pass searches from the rows that are still free, with a higher bound on the edges per search
// than the last pass. Work is counted in edges and compared with a scan of the whole graph. Such a
// scan is the maximum cost of a phase of searching from all rows at once.
class SearchBudget {
 public:
  SearchBudget(int64_t edges, int32_t num_free)
      : walk_(edges), sample_(edges / 8), work_left_(4 * edges), num_free_(num_free) {}

  int64_t bound() const { return bound_; }
  // Up to this much work, too_expensive() is false.
  int64_t sample() const { return sample_; }

  // True if the remaining rows of this pass would cost more than a scan of the graph, extrapolated
  // from the settled rows, which took `work`. Also true if the total budget is used up.
  bool too_expensive(int64_t work, int64_t settled) const {
    if (work <= sample_) return false;
    const double open = double(num_free_ - settled);
    return work > work_left_ || double(work) * open > double(walk_) * double(settled);
  }

  // Ends a pass that has not settled `left` of its rows. True if another pass is worthwhile.
  bool next_pass(int64_t work, int32_t left) {
    // Beyond the sample, the bound is lifted, because unbounded searches settle more rows.
    bound_ = bound_ * kGrowth > sample_ ? walk_ : bound_ * kGrowth;
    // A row that was cut off is likely to be cut off again, at the cost of the new bound.
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
