// Matches the rows that bids leave free. If these rows are few or their augmenting paths are short,
// a search for each row is fastest. With many ties between costs, many rows have long paths, and
// searches visit the same vertices again and again. In that case, searches alternate with global
// price updates, which find paths for many rows at once.
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
  // `updates` is set by the first update.
  Leftovers(MatchingState<Int>& s, std::optional<PriceUpdates<Int>>& updates,
            std::vector<int32_t> left)
      : s_(s),
        whole_(int64_t(s.c.edges.size()) + s.c.rows),
        left_(std::move(left)),
        search_(s),
        updates_(updates) {}

  // Matches every remaining row, or leaves it unmatched at its cost. Returns false if a row has no
  // augmenting path.
  bool match() {
    // Searches run first. If updates match rows more slowly than searches, the next searches get
    // twice the budget of work. So slow updates take at most a fraction of the time of searches.
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
  // Measured: scanning an edge in an update takes as long as scanning kPerEdge edges in a search.
  // The first update, which builds arrays, takes as long as kLeast searches of the whole graph.
  static constexpr double kPerEdge = 4, kLeast = 8;
  static constexpr int64_t kParts = 4;

  struct Rate {
    double rows = 0, work = 0;
  };

  // Searches until the work exceeds the budget. Sets `recent` to the rows matched and the work of
  // only the last of these searches, because searches take longer as fewer free columns are left.
  bool search(int64_t budget, Rate* recent) {
    int64_t work = 0, before = 0;
    size_t left = left_.size();
    while (!left_.empty() && work <= budget) {
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
    if (!has_duals_ && !set_duals()) return false;
    has_duals_ = true;
    if (!updates_.has_value()) updates_.emplace(s_);
    const size_t before = left_.size();
    int64_t work = 0, of_paths = 0;
    if (!updates_->update(int64_t(before), &work)) return false;
    TightPaths<Int>(s_, updates_->pairs()).match(&left_, &of_paths);
    *rate = {double(before - left_.size()), kPerEdge * double(work) + double(of_paths)};
    return true;
  }

  // Sets the duals of the free rows, which updates need. (A search sets the dual of its row
  // itself.)
  bool set_duals() {
    for (const int32_t i : left_) {
      s_.u[size_t(i)] = best_of(s_, i).least;
      if (s_.u[size_t(i)] == kNeverOf<Int>) return false;
    }
    return true;
  }

  MatchingState<Int>& s_;
  const int64_t whole_;  // the work of a search of the whole graph
  std::vector<int32_t> left_;
  Search<Int> search_;
  std::optional<PriceUpdates<Int>>& updates_;
  bool has_duals_ = false;  // free rows have them, see set_duals()
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_LEFTOVERS_H_
