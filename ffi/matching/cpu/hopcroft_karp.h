// The algorithm of Hopcroft and Karp (SIAM J. Comput. 1973), optionally with the second sweep of
// Duff and Wiberg (ACM TOMS 1988).
#ifndef JAXMATCH_MATCHING_CPU_HOPCROFT_KARP_H_
#define JAXMATCH_MATCHING_CPU_HOPCROFT_KARP_H_

#include <algorithm>
#include <cstdint>

#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// A phase builds the levels of a breadth-first search from all free rows, up to the first level
// adjacent to a free column. It then augments along disjoint paths, which it searches backwards:
// from the free columns adjacent to this level to free rows, which have level 0. On such a path,
// each row is one level nearer to level 0 than the row before. Searching backwards visits only
// vertices from which a path leads to a free column. The algorithm takes O(e sqrt(n)) time for e
// edges.
//
// Duff and Wiberg add longer paths, from the free columns that the breadth-first search did not
// reach. Such a path may visit rows without a level. Once it reaches a row with a level, it moves
// towards level 0 one level at a time, and never away from it. So the edges that augmenting
// reverses open no shortcut between levels: the next phase still has more levels than this one, and
// the bound on the number of phases holds.
class HopcroftKarp {
 public:
  HopcroftKarp(PartialMatching& s, HostArena& scratch)
      : s_(s),
        level_(scratch.take<int32_t>(s.n)),
        queue_(scratch.take<int32_t>(s.n)),
        next_(scratch.take<int32_t>(s.m)),
        from_(scratch.take<int32_t>(s.n)),
        ends_(scratch.take<int32_t>(s.m)),
        seen_(s.m, scratch),
        entered_(s.n, scratch) {}

  // Returns the columns reached by the last search, which found no path.
  Bitmap run(bool duff_wiberg) {
    // A phase that augments along no path also ends the loop. It occurs only if the two directions
    // of the graph (by rows and by columns) differ.
    for (int32_t before = -1; find_levels() && s_.cardinality > before;) {
      before = s_.cardinality;
      for (int32_t k = 0; k < num_ends_; ++k) climb(ends_[k], last_level_);
      if (!duff_wiberg || !more_) continue;
      for (int32_t j = 0; j < s_.m; ++j) {
        if (s_.row4col[j] < 0 && !seen_[j]) climb(j, kNone);
      }
    }
    return seen_;
  }

 private:
  static constexpr int32_t kNone = INT32_MAX;  // level of rows beyond the last level

  // Sets the levels of the rows, and lists in ends_ the free columns adjacent to the last level.
  // Returns false if the search reaches no free column. A column has the level of the row that
  // first reached it; the row matched to the column has the next level.
  bool find_levels() {
    constexpr int32_t kAhead = 8;
    std::fill_n(level_, s_.n, kNone);
    seen_.clear_all(s_.m);
    entered_.clear_all(s_.n);
    num_ends_ = 0;
    int32_t end = 0;
    for (int32_t i = 0; i < s_.n; ++i) {
      if (s_.col4row[i] >= 0) continue;
      level_[i] = 0;
      queue_[end++] = i;
    }
    int32_t begin = 0;
    for (int32_t level = 0; begin < end && num_ends_ == 0; ++level) {
      last_level_ = level;
      for (const int32_t level_end = end; begin < level_end; ++begin) {
        if (begin + 2 * kAhead < end) {
          __builtin_prefetch(s_.row_ptr + queue_[begin + 2 * kAhead]);
          __builtin_prefetch(s_.col_ind + s_.row_ptr[queue_[begin + kAhead]]);
        }
        const int32_t i = queue_[begin];
        poll_.after(8 + s_.row_ptr[i + 1] - s_.row_ptr[i]);
        for (int32_t k = s_.row_ptr[i], last = s_.row_ptr[i + 1]; k < last; ++k) {
          const int32_t j = s_.col_ind[k];
          if (seen_[j]) continue;
          seen_.set(j);
          const int32_t r = s_.row4col[j];
          if (r < 0) {
            ends_[num_ends_++] = j;
          } else {
            level_[r] = level + 1;
            queue_[end++] = r;
          }
        }
      }
    }
    more_ = begin < end;
    return num_ends_ > 0;
  }

  // Searches depth first from the free column `root` back to a free row, and augments if it reaches
  // one. `level` is the level that the first row of the path must have; with kNone, any row will
  // do. Each row is entered at most once per phase.
  void climb(int32_t root, int32_t level) {
    int32_t j = root;
    next_[j] = s_.col_ptr[j];
    while (true) {
      poll_.after(32);
      const int32_t i = next_row(j, j == root ? level : level_above(s_.row4col[j]));
      if (i < 0) {
        if (j == root) return;
        j = from_[s_.row4col[j]];
        continue;
      }
      from_[i] = j;
      if (s_.col4row[i] < 0) return augment(i);
      j = s_.col4row[i];
      next_[j] = s_.col_ptr[j];
    }
  }

  // The level of the row from which the search reached the column matched to row i. kNone if it did
  // not reach this column.
  int32_t level_above(int32_t i) const { return level_[i] == kNone ? kNone : level_[i] - 1; }

  // Enters and returns the next neighbour of column j with this level; -1 if there is none left.
  // With kNone, any neighbour will do: the breadth-first search has not reached column j, so all
  // its neighbours are beyond the last level.
  int32_t next_row(int32_t j, int32_t level) {
    for (const int32_t end = s_.col_ptr[j + 1]; next_[j] < end;) {
      const int32_t i = s_.row_ind[next_[j]++];
      if (entered_[i] || (level != kNone && level_[i] != level)) continue;
      entered_.set(i);
      return i;
    }
    return -1;
  }

  // Augments along the path from the free row i back to the column where climb() began.
  void augment(int32_t i) {
    while (i >= 0) {
      const int32_t j = from_[i];
      const int32_t row = s_.row4col[j];
      s_.match(i, j);
      i = row;
    }
    ++s_.cardinality;
  }

  PartialMatching& s_;
  int32_t* level_;  // [n]
  int32_t* queue_;  // [n], rows in the order of the breadth-first search
  int32_t* next_;   // [m], next edge that climb() tries from each column
  int32_t* from_;   // [n], column from which climb() entered each row
  int32_t* ends_;   // [m], the free columns adjacent to the last level
  Bitmap seen_;     // [m], columns reached by the last breadth-first search
  Bitmap entered_;  // [n], rows entered in this phase
  int32_t num_ends_ = 0;
  int32_t last_level_ = 0;
  bool more_ = false;  // true if the search has reached rows beyond the last level
  Poll poll_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_HOPCROFT_KARP_H_
