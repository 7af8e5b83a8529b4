// Finds shortest augmenting paths by Dijkstra's algorithm. A search visits only vertices that are
// nearer than the end of its path.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_SEARCH_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_SEARCH_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "sparse_assignment/cpu/matching_state.h"

namespace jaxmatch::sparse_assignment {

template <class Int>
class Search {
 public:
  explicit Search(MatchingState<Int>& s)
      : s_(s), dist_(size_t(s.c.cols), kNever), by_(size_t(s.c.cols), kFree) {}

  // Augments along a shortest path from row `start` to a free column, or to a row that then stays
  // unmatched. Adds the number of scanned edges to `work`. Returns false if there is no path.
  bool augment(int32_t start, int64_t* work) {
    ++s_.searches;
    work_ = 1;
    heap_.clear();
    ready_.clear();
    touched_.clear();
    end_ = kNever;
    end_col_ = kNone;
    end_row_ = kNone;
    Int least = s_.c.stay[size_t(start)];
    each_edge(start,
              [&](int64_t k) { least = std::min(least, s_.reduced(s_.c.edges[size_t(k)])); });
    if (least == kNever) return false;
    s_.u[size_t(start)] = least;
    relax(start, 0);
    // Columns at the current distance bypass the heap. With many ties, most columns do.
    Int dist = 0;
    for (size_t next = 0; dist < end_;) {
      if (next == ready_.size()) {
        if (heap_.empty()) break;
        std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
        const auto [nearest, j] = heap_.back();
        heap_.pop_back();
        if (nearest >= end_) break;
        if (nearest > dist_[size_t(j)]) continue;  // a shorter path to j was found since
        dist = nearest;
        ready_.push_back(j);
      }
      relax(s_.row4col[size_t(ready_[next++])], dist);
    }
    const bool found = end_ != kNever;
    if (found) {
      move_prices(start);
      flip(start);
    }
    for (const int32_t j : touched_) dist_[size_t(j)] = kNever;
    *work += work_;
    return found;
  }

 private:
  static constexpr Int kNever = kNeverOf<Int>;

  template <class F>
  void each_edge(int32_t i, const F& f) {
    const int64_t edges = s_.c.first[size_t(i) + 1] - s_.c.first[size_t(i)];
    work_ += edges;
    s_.poll.after(4 * edges);
    for (int64_t k = s_.c.first[size_t(i)]; k < s_.c.first[size_t(i) + 1]; ++k) f(k);
  }

  // Relaxes the edges of row i, whose distance is `base`.
  void relax(int32_t i, Int base) {
    const Int to_row = base - s_.u[size_t(i)];
    if (const Int stay = s_.c.stay[size_t(i)]; stay != kNever && to_row + stay < end_) {
      end_ = to_row + stay;
      end_row_ = i;
      end_col_ = kNone;
    }
    each_edge(i, [&](int64_t k) {
      const auto& e = s_.c.edges[size_t(k)];
      const size_t j = size_t(e.col);
      const Int dist = to_row + s_.reduced(e);
      if (dist >= end_ || dist >= dist_[j]) return;
      if (dist_[j] == kNever) touched_.push_back(e.col);
      dist_[j] = dist;
      by_[j] = k;
      if (s_.row4col[j] == kNone) {
        end_ = dist;
        end_col_ = e.col;
        end_row_ = kNone;
      } else if (dist == base) {
        ready_.push_back(e.col);
      } else {
        heap_.emplace_back(dist, e.col);
        std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
      }
    });
  }

  void move_prices(int32_t start) {
    for (const int32_t j : ready_) {
      const Int by = end_ - dist_[size_t(j)];
      s_.v[size_t(j)] -= by;
      s_.u[size_t(s_.row4col[size_t(j)])] += by;
    }
    s_.u[size_t(start)] += end_;
  }

  // The row of edge k.
  int32_t row_of(int64_t k) const {
    const auto& first = s_.c.first;
    return int32_t(std::upper_bound(first.begin(), first.begin() + s_.c.rows + 1, k) -
                   first.begin()) -
           1;
  }

  void flip(int32_t start) {
    int32_t j = end_col_;
    if (end_row_ != kNone) {
      const int64_t old = s_.pair[size_t(end_row_)];
      s_.pair[size_t(end_row_)] = kStays;
      if (end_row_ == start) return;
      j = s_.c.edges[size_t(old)].col;
    }
    for (;;) {
      const int64_t k = by_[size_t(j)];
      const int32_t i = row_of(k);
      const int64_t old = s_.pair[size_t(i)];
      s_.pair[size_t(i)] = k;
      s_.row4col[size_t(j)] = i;
      if (i == start) return;
      j = s_.c.edges[size_t(old)].col;
    }
  }

  MatchingState<Int>& s_;
  std::vector<Int> dist_;    // [cols]
  std::vector<int64_t> by_;  // [cols] last edge of the path to each column
  std::vector<std::pair<Int, int32_t>> heap_;
  std::vector<int32_t> ready_, touched_;
  Int end_ = kNever;
  int64_t work_ = 0;
  int32_t end_col_ = kNone, end_row_ = kNone;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_SEARCH_H_
