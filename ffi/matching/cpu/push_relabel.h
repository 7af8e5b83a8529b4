// Push-relabel for bipartite matching (Goldberg and Tarjan, J. ACM 1988), with free rows in FIFO
// order and global relabelling. This is the best variant in Kaya, Langguth, Manne and Ucar (Comput.
// Oper. Res. 2013).
#ifndef JAXMATCH_MATCHING_CPU_PUSH_RELABEL_H_
#define JAXMATCH_MATCHING_CPU_PUSH_RELABEL_H_

#include <algorithm>
#include <cstdint>

#include "matching/cpu/hopcroft_karp.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// The label of a vertex is a lower bound on the length of its alternating paths to free columns. A
// free row is matched to its neighbour with the smallest label, and the row that had this neighbour
// becomes free (a double push). The label of the neighbour rises. Labels never fall and are
// bounded, so the algorithm terminates. After every k (n + m) pushes, a breadth-first search from
// the free columns makes all labels exact. Rows without a path are then dropped.
class PushRelabel {
 public:
  PushRelabel(PartialMatching& s, HostArena& scratch, double k)
      : s_(s),
        scratch_(scratch),
        unreachable_(s.n + s.m),
        interval_(std::max<int64_t>(
            1, int64_t((k > 0 ? std::min(k, kMost) : kUsual) * (double(s.n) + s.m)))),
        row_label_(scratch.take<int32_t>(s.n, 0)),
        col_label_(scratch.take<int32_t>(s.m, 0)),
        active_(scratch.take<int32_t>(int64_t(s.n) + 1)),
        queue_(scratch.take<int32_t>(s.m)),
        old_label_(scratch.take<int32_t>(s.m)) {}

  // Returns null. If Hopcroft and Karp's algorithm had to finish, returns the columns that its last
  // search reached.
  Bitmap run() {
    for (int32_t i = 0; i < s_.n; ++i) {
      if (s_.col4row[i] < 0) activate(i);
    }
    int64_t pushes = interval_;
    int relabels = 0;
    while (begin_ != end_) {
      if (pushes >= interval_) {
        if (++relabels > kMaxRelabels) return HopcroftKarp(s_, scratch_).run(false);
        relabel_all();
        pushes = 0;
      }
      pushes += push(next_active());
      poll_.after(64);
    }
    return {};
  }

 private:
  static constexpr double kUsual = 0.5, kMost = 100;
  // Limit on global relabellings, far more than any graph needs. Without a limit, a graph whose two
  // directions (by rows and by columns) differ could take too long.
  static constexpr int kMaxRelabels = 1000;

  // Appends row i to the ring buffer active_. No row is in it twice.
  void activate(int32_t i) {
    active_[end_] = i;
    end_ = end_ == s_.n ? 0 : end_ + 1;
  }
  int32_t next_active() {
    const int32_t i = active_[begin_];
    begin_ = begin_ == s_.n ? 0 : begin_ + 1;
    return i;
  }

  // Matches the free row i to its neighbour with the smallest label. Returns false if no neighbour
  // has a path to a free column.
  bool push(int32_t i) {
    int32_t nearest = -1, label = unreachable_;
    for (int32_t k = s_.row_ptr[i]; k < s_.row_ptr[i + 1]; ++k) {
      const int32_t j = s_.col_ind[k];
      if (col_label_[j] >= label) continue;
      nearest = j;
      label = col_label_[j];
      if (label < row_label_[i]) break;  // no neighbour has a smaller label
    }
    if (nearest < 0) return false;
    const int32_t owner = s_.row4col[nearest];
    if (owner >= 0) {
      s_.col4row[owner] = -1;
      activate(owner);
    } else {
      ++s_.cardinality;
    }
    s_.match(i, nearest);
    row_label_[i] = label + 1;
    col_label_[nearest] = std::min(unreachable_, label + 2);
    return true;
  }

  // Sets the label of each vertex to its distance to the nearest free column. If the two directions
  // of the graph agree, no label falls. If they differ, the maximum of old and new label keeps the
  // labels of columns from falling.
  void relabel_all() {
    std::copy_n(col_label_, s_.m, old_label_);
    std::fill_n(row_label_, s_.n, unreachable_);
    int32_t end = 0;
    for (int32_t j = 0; j < s_.m; ++j) {
      col_label_[j] = unreachable_;
      if (s_.row4col[j] >= 0) continue;
      col_label_[j] = 0;
      queue_[end++] = j;
    }
    for (int32_t begin = 0; begin < end; ++begin) {
      const int32_t j = queue_[begin];
      for (int32_t k = s_.col_ptr[j]; k < s_.col_ptr[j + 1]; ++k) {
        const int32_t i = s_.row_ind[k];
        if (row_label_[i] != unreachable_) continue;
        row_label_[i] = col_label_[j] + 1;
        const int32_t mate = s_.col4row[i];
        if (mate < 0 || col_label_[mate] != unreachable_) continue;
        col_label_[mate] = col_label_[j] + 2;
        queue_[end++] = mate;
      }
    }
    for (int32_t j = 0; j < s_.m; ++j) col_label_[j] = std::max(col_label_[j], old_label_[j]);
  }

  PartialMatching& s_;
  HostArena& scratch_;
  const int32_t unreachable_;  // label of vertices without a path, more than any path's length
  const int64_t interval_;     // pushes from one global relabelling to the next
  int32_t* row_label_;         // [n]
  int32_t* col_label_;         // [m]
  int32_t* active_;            // [n + 1], the free rows that may have a path, in FIFO order
  int32_t* queue_;             // [m]
  int32_t* old_label_;         // [m]
  int32_t begin_ = 0, end_ = 0;
  Poll poll_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_PUSH_RELABEL_H_
