// Global updates of prices (Goldberg and Kennedy, Global price updates help, 1997).
//
// The distance of a row is the length of the shortest alternating path to an end: a free column, or
// a row that can stay unmatched. An update raises the dual of each row by its distance and lowers
// the price of the column matched to it by the same amount. Then no reduced cost becomes negative,
// the prices of free columns do not change, and the shortest paths from all rows become tight (all
// their reduced costs are 0). If distances are capped at a bound, only paths up to this bound
// become tight.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_PRICE_UPDATES_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_PRICE_UPDATES_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "sparse_assignment/cpu/matching_state.h"

namespace jaxmatch::sparse_assignment {

template <class Int>
class PriceUpdates {
 public:
  explicit PriceUpdates(MatchingState<Int>& s)
      : s_(s),
        first_(size_t(s.c.cols) + 2, 0),
        edges_(s.c.edges.size()),
        dist_(size_t(s.c.rows)),
        pairs_(size_t(s.c.rows)) {
    for (const auto& e : s.c.edges) ++first_[size_t(e.col) + 2];
    for (size_t j = 2; j < first_.size(); ++j) first_[j] += first_[j - 1];
    for (int32_t i = 0; i < s.c.rows; ++i) {
      for (int64_t k = s.c.first[size_t(i)]; k < s.c.first[size_t(i) + 1]; ++k) {
        const auto& e = s.c.edges[size_t(k)];
        edges_[size_t(first_[size_t(e.col) + 1]++)] = {e.cost, i};
      }
    }
  }

  // Makes the shortest paths of the nearer half of the free rows tight. The farther half would take
  // most of the work, and by the next update some of its rows will be nearer. Adds the number of
  // scanned edges to `work`. Returns false if fewer than half of the free rows have a path.
  bool update(int64_t free_rows, int64_t* work) {
    begin();
    Int most = 0;
    for (int64_t wanted = (free_rows + 1) / 2; wanted > 0;) {
      if (next_ == level_.size()) {
        if (heap_.empty()) return false;
        most = begin_level();
        continue;
      }
      const Label at = level_[next_++];
      if (at.dist != dist_[size_t(at.row)] || at.pairs != pairs_[size_t(at.row)]) continue;
      const int64_t pair = s_.pair[size_t(at.row)];
      if (pair == kFree) {
        --wanted;
      } else {
        relax(s_.c.edges[size_t(pair)].col, at);
      }
    }
    move_prices(most);
    *work += work_;
    return true;
  }

  // [rows] the number of pairs on the shortest path of each row; the smallest such number if
  // several paths are shortest.
  std::vector<int32_t>& pairs() { return pairs_; }

 private:
  static constexpr Int kNever = kNeverOf<Int>;

  struct ByCol {
    Int cost;
    int32_t row;
  };

  struct Label {
    Int dist;
    int32_t pairs, row;

    bool operator>(const Label& other) const {
      return dist != other.dist ? dist > other.dist : pairs > other.pairs;
    }
  };

  template <class F>
  void each_edge(int32_t j, const F& f) {
    const int64_t last = first_[size_t(j) + 1];
    work_ += last - first_[size_t(j)];
    s_.poll.after(4 * (last - first_[size_t(j)]));
    for (int64_t q = first_[size_t(j)]; q < last; ++q) f(edges_[size_t(q)]);
  }

  // Labels the rows that are next to an end (a free column, or staying unmatched).
  void begin() {
    work_ = s_.c.rows;
    level_.clear();
    heap_.clear();
    next_ = 0;
    for (size_t i = 0; i < dist_.size(); ++i) {
      dist_[i] = s_.c.stay[i] == kNever ? kNever : s_.c.stay[i] - s_.u[i];
    }
    for (int32_t j = 0; j < s_.c.cols; ++j) {
      if (s_.row4col[size_t(j)] != kNone) continue;
      each_edge(j, [&](const ByCol& e) {
        Int& dist = dist_[size_t(e.row)];
        dist = std::min<Int>(dist, e.cost - s_.v[size_t(j)] - s_.u[size_t(e.row)]);
      });
    }
    for (int32_t i = 0; i < s_.c.rows; ++i) {
      const Int dist = dist_[size_t(i)];
      const bool is_near = dist != kNever && s_.pair[size_t(i)] != kStays;
      pairs_[size_t(i)] = is_near;
      if (is_near) (dist == 0 ? level_ : heap_).push_back({dist, 1, i});
    }
    std::make_heap(heap_.begin(), heap_.end(), std::greater<>());
  }

  // Moves the nearest rows from the heap to `level_`, those with the fewest pairs first. Returns
  // their distance.
  Int begin_level() {
    const Int dist = heap_.front().dist;
    level_.clear();
    next_ = 0;
    while (!heap_.empty() && heap_.front().dist == dist) {
      level_.push_back(heap_.front());
      std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
      heap_.pop_back();
    }
    return dist;
  }

  // Relaxes the edges of column j, which is matched to row at.row and has the same distance as this
  // row.
  void relax(int32_t j, const Label& at) {
    const Int base = at.dist - s_.v[size_t(j)];
    const int32_t pairs = at.pairs + 1;
    each_edge(j, [&](const ByCol& e) {
      const size_t i = size_t(e.row);
      const Int dist = base + e.cost - s_.u[i];
      if (dist > dist_[i] || (dist == dist_[i] && pairs >= pairs_[i])) return;
      if (s_.pair[i] == kStays) return;
      dist_[i] = dist;
      pairs_[i] = pairs;
      if (dist == at.dist) {
        level_.push_back({dist, pairs, e.row});
      } else {
        heap_.push_back({dist, pairs, e.row});
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
    });
  }

  void move_prices(Int most) {
    // The duals of rows without a path rise in every update. So the sum of all rises is limited, to
    // keep duals within the range of Int.
    most = std::min(most, kMostMoved - moved_);
    moved_ += most;
    if (most == 0) return;
    for (size_t i = 0; i < dist_.size(); ++i) {
      if (s_.pair[i] == kStays) continue;
      const int64_t pair = s_.pair[i];
      const Int by = std::min(dist_[i], most);
      s_.u[i] += by;
      if (pair != kFree) s_.v[size_t(s_.c.edges[size_t(pair)].col)] -= by;
    }
  }

  static constexpr Int kMostMoved = Int(1) << UnitLimits<Int>::kMostOnPathBits;

  MatchingState<Int>& s_;
  std::vector<int64_t> first_;  // [cols + 2] where each column's edges begin in `edges_`
  std::vector<ByCol> edges_;
  std::vector<Int> dist_;            // [rows]
  std::vector<int32_t> pairs_;       // [rows] see pairs(); 0 if no path is known
  std::vector<Label> heap_, level_;  // `level_`: queue of rows at one distance, from `next_` on
  size_t next_ = 0;
  int64_t work_ = 0;
  Int moved_ = 0;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_PRICE_UPDATES_H_
