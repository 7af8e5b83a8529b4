// Decides, by cost, when to switch from separate searches, one per free row, to joint searches from
// all free rows at once.
#ifndef JAXMATCH_MATCHING_CPU_BUDGET_H_
#define JAXMATCH_MATCHING_CPU_BUDGET_H_

#include <algorithm>
#include <cstdint>

namespace jaxmatch::matching {

// Separate searches run in passes, each over all rows that are still free. The bound on the edges
// that one search may scan grows from pass to pass. Work is counted in scanned edges and compared
// with a scan of the whole graph, the maximum cost of one joint search.
class SearchBudget {
 public:
  SearchBudget(int64_t edges, int32_t num_free)
      : walk_(edges), sample_(edges / 8), work_left_(4 * edges), num_free_(num_free) {}

  int64_t bound() const { return bound_; }
  // too_expensive() is false until a pass has done more than this much work.
  int64_t sample() const { return sample_; }

  // A row is settled if it is matched or has no path. So far, this pass has settled `settled` rows
  // and scanned `work` edges. True if settling its other rows at this rate would cost more than a
  // scan of the graph, or if the total budget is used up.
  bool too_expensive(int64_t work, int64_t settled) const {
    if (work <= sample_) return false;
    const double open = double(num_free_ - settled);
    return work > work_left_ || double(work) * open > double(walk_) * double(settled);
  }

  // Ends a pass after which `left` of its rows still need a search. Returns true if another pass is
  // worthwhile.
  bool next_pass(int64_t work, int32_t left) {
    // A bound above sample_ is replaced by the size of the whole graph, because searches without a
    // bound settle more rows.
    bound_ = bound_ * kGrowth > sample_ ? walk_ : bound_ * kGrowth;
    // A search that was cut off at the old bound is likely to be cut off again. It then costs as
    // much as the new bound.
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
