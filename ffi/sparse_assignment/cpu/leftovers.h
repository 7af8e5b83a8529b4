// The rows that bids leave. Where they are few or near an end, a search for each is the fastest
// way. Where many are far from one, as ties make them, searches go over the same vertices again and
// again: updates of prices and paths for all rows at once take turns with them.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_LEFTOVERS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_LEFTOVERS_H_

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sparse_assignment/cpu/bids.h"
#include "sparse_assignment/cpu/price_updates.h"
#include "sparse_assignment/cpu/search.h"
#include "sparse_assignment/cpu/tight_paths.h"

namespace jaxmatch::sparse_assignment {

template <class Int>
class Leftovers {
 public:
  Leftovers(MatchingState<Int>& s, std::vector<int32_t> left)
      : s_(s), whole_(int64_t(s.c.edges.size()) + s.c.rows), left_(std::move(left)), search_(s) {}

  // Matches all of them, or lets them stay. False if there is no way.
  bool match() {
    // What updates cost in vain is at most a part of what searches cost: these come first, and have
    // twice as long after updates that were slower.
    for (int64_t budget = whole_; !left_.empty();) {
      Rate recent;
      if (!search(budget, &recent)) return false;
      if (double(left_.size()) * recent.work < kLeast * double(whole_) * recent.rows) continue;
      bool helps = false;
      for (bool faster = true; faster && !left_.empty(); helps |= faster) {
        Rate now;
        if (!update(&now)) return false;
        faster = now.rows * recent.work >= recent.rows * now.work;
      }
      budget = helps ? whole_ / kParts : 2 * budget;
    }
    return true;
  }

 private:
  // Measured, in edges of a search: an edge of an update takes as long as kPerEdge; the first
  // update with its arrays as long as kLeast searches of the whole graph.
  static constexpr double kPerEdge = 4, kLeast = 8;
  static constexpr int64_t kParts = 4;

  struct Rate {
    double rows = 0, work = 0;
  };

  // Searches until the work exceeds the budget. `recent` becomes the rate of the last part of the
  // work, as searches take longer when fewer ends are left.
  bool search(int64_t budget, Rate* recent) {
    int64_t work = 0, before = 0;
    size_t left = left_.size();
    while (!left_.empty() && work <= budget) {
      // One that is left last comes last.
      const int32_t i = left_.back();
      left_.pop_back();
      if (!search_.augment(i, &work)) return false;
      if (work - before <= whole_ / kParts) continue;
      *recent = {double(left - left_.size()), double(work - before)};
      before = work;
      left = left_.size();
    }
    return true;
  }

  bool update(Rate* rate) {
    if (!updates_.has_value()) {
      if (!set_duals()) return false;
      updates_.emplace(s_);
    }
    const size_t before = left_.size();
    int64_t work = 0, of_paths = 0;
    if (!updates_->update(int64_t(before), &work)) return false;
    TightPaths<Int>(s_, updates_->pairs()).match(&left_, &of_paths);
    *rate = {double(before - left_.size()), kPerEdge * double(work) + double(of_paths)};
    return true;
  }

  // Of free rows, for which searches do it by themselves.
  bool set_duals() {
    for (const int32_t i : left_) {
      s_.u[size_t(i)] = best_of(s_, i).least;
      if (s_.u[size_t(i)] == kNeverOf<Int>) return false;
    }
    return true;
  }

  MatchingState<Int>& s_;
  const int64_t whole_;  // the work of a search that visits all
  std::vector<int32_t> left_;
  Search<Int> search_;
  std::optional<PriceUpdates<Int>> updates_;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_LEFTOVERS_H_
