// Hopcroft and Karp (SIAM J. Comput. 1973), and Duff and Wiberg's second sweep (ACM TOMS 1988).
#ifndef JAXMATCH_CPU_MATCHING_HOPCROFT_KARP_H_
#define JAXMATCH_CPU_MATCHING_HOPCROFT_KARP_H_

#include <algorithm>
#include <cstdint>

#include "matching_state.h"

namespace jaxmatch {

// A phase builds the levels of a breadth-first search from all free rows up to the first that sees
// a free column, then augments along disjoint paths that go down one level an edge. O(e sqrt(n)).
class HopcroftKarp {
 public:
  HopcroftKarp(MatchingState& s, Scratch& scratch)
      : s_(s),
        level_(scratch.take(s.n)),
        queue_(scratch.take(s.n)),
        next_(scratch.take(s.n)),
        parent_(scratch.take(s.m)),
        seen_(scratch.take_bitmap(s.m)) {}

  // Returns the columns that the last search, which failed, has seen.
  Bitmap run(bool duff_wiberg) {
    while (find_levels()) {
      std::copy_n(s_.row_ptr, s_.n, next_);
      for (int32_t k = 0; k < num_free_; ++k) dive<true>(queue_[k]);
      if (!duff_wiberg) continue;
      // The rows that are still free look for longer paths, whatever the levels say.
      std::fill_n(level_, s_.n, kUnseen);
      std::copy_n(s_.row_ptr, s_.n, next_);
      for (int32_t k = 0; k < num_free_; ++k) {
        if (s_.col4row[queue_[k]] < 0) dive<false>(queue_[k]);
      }
    }
    return seen_;
  }

 private:
  static constexpr int32_t kDone = -1;   // this row is on a path or leads to none
  static constexpr int32_t kUnseen = 0;  // in a sweep without levels

  // Levels of the rows; false if no free column can be reached.
  bool find_levels() {
    std::fill_n(level_, s_.n, kDone);
    seen_.clear_all(s_.m);
    int32_t end = 0;
    for (int32_t i = 0; i < s_.n; ++i) {
      if (s_.col4row[i] >= 0) continue;
      level_[i] = 0;
      queue_[end++] = i;
    }
    num_free_ = end;
    bool found = false;
    for (int32_t begin = 0, level = 0; begin < end && !found; ++level) {
      last_level_ = level;
      for (const int32_t level_end = end; begin < level_end; ++begin) {
        const int32_t i = queue_[begin];
        for (int32_t k = s_.row_ptr[i]; k < s_.row_ptr[i + 1]; ++k) {
          const int32_t j = s_.col_ind[k];
          if (seen_[j]) continue;
          seen_.set(j);
          const int32_t r = s_.row4col[j];
          if (r < 0) {
            found = true;
          } else {
            level_[r] = level + 1;
            queue_[end++] = r;
          }
        }
      }
    }
    return found;
  }

  // Depth first from the free row `root`, and augments if it meets a free column. A row is entered
  // once a sweep, so all dives of a sweep together look at each edge once.
  template <bool kByLevel>
  void dive(int32_t root) {
    int32_t i = root;
    if (!kByLevel) level_[i] = kDone;
    while (true) {
      const int32_t j = next_column<kByLevel>(i);
      if (j < 0) {
        level_[i] = kDone;
        if (i == root) return;
        i = parent_[s_.col4row[i]];
        continue;
      }
      parent_[j] = i;
      const int32_t r = s_.row4col[j];
      if (r < 0) {
        close_path(j);
        s_.augment(j, parent_);
        return;
      }
      i = r;
      if (!kByLevel) level_[i] = kDone;
    }
  }

  // The next column of row i that is free or whose row may be entered; -1 if there is none left.
  template <bool kByLevel>
  int32_t next_column(int32_t i) {
    for (const int32_t end = s_.row_ptr[i + 1]; next_[i] < end;) {
      const int32_t j = s_.col_ind[next_[i]++];
      const int32_t r = s_.row4col[j];
      if (r < 0) return j;
      if (kByLevel ? level_[i] < last_level_ && level_[r] == level_[i] + 1 : level_[r] != kDone) {
        return j;
      }
    }
    return -1;
  }

  // No later dive of the phase enters the rows of the path that ends in column j.
  void close_path(int32_t j) {
    while (j >= 0) {
      level_[parent_[j]] = kDone;
      j = s_.col4row[parent_[j]];
    }
  }

  MatchingState& s_;
  int32_t* level_;   // [n]
  int32_t* queue_;   // [n], the free rows first
  int32_t* next_;    // [n], the next edge to look at
  int32_t* parent_;  // [m], the row from which a dive came
  Bitmap seen_;      // [m], by the last search in breadth
  int32_t num_free_ = 0;
  int32_t last_level_ = 0;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CPU_MATCHING_HOPCROFT_KARP_H_
