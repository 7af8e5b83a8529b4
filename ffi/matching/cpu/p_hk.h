// P-HK: Hopcroft and Karp's phases on many threads (Azad, Halappanavar, Rajamanickam, Boman, Khan
// and Pothen, IPDPS 2012).
#ifndef JAXMATCH_MATCHING_CPU_P_HK_H_
#define JAXMATCH_MATCHING_CPU_P_HK_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <utility>

#include "matching/cpu/parallel.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// Levels are built one after another, each by all threads; then every free row searches down the
// levels, depth first, and claims the columns on its way. Searches may block one another, so a
// phase need not find a maximal set of paths. It finds at least one: a failed search has scanned
// every row it entered to the end, so without any success the claims of the phase would cover all
// that the levels reach.
class PHopcroftKarp {
 public:
  PHopcroftKarp(PartialMatching& s, HostArena& scratch)
      : s_(s),
        scratch_(scratch),
        free_rows_(s, scratch),
        level_(scratch.take<int32_t>(s.n)),
        frontier_(scratch.take<int32_t>(s.n)),
        found_rows_(scratch.take<int32_t>(s.n)),
        next_(scratch.take<int32_t>(s.n)),
        parent_(scratch.take<int32_t>(s.m)),
        taken_(s.m, scratch) {}

  // Returns the columns reached by the last search, which found no path.
  Bitmap run(const Spread& spread) {
    while (find_levels(spread)) {
      taken_.next_phase();
      spread(free_rows_.count(), kSearchNs, [&](int64_t first, int64_t last) {
        Poll poll;
        for (int64_t k = first; k < last; ++k) dive(free_rows_[k], poll);
      });
      s_.cardinality += free_rows_.drop_matched();
    }
    return taken_.taken_columns(scratch_);
  }

 private:
  static constexpr int32_t kFar = -1;
  static constexpr double kRowNs = 20;

  // Levels of the rows; false if no free column can be reached.
  bool find_levels(const Spread& spread) {
    taken_.next_phase();
    spread(s_.n, 0.3, [&](int64_t first, int64_t last) {
      std::fill(level_ + first, level_ + last, kFar);
      std::copy(s_.row_ptr + first, s_.row_ptr + last, next_ + first);
    });
    int32_t width = free_rows_.count();
    for (int32_t k = 0; k < width; ++k) {
      frontier_[k] = free_rows_[k];
      level_[frontier_[k]] = 0;
    }
    std::atomic<bool> found{false};
    for (last_level_ = 0; width > 0; ++last_level_) {
      std::atomic<int32_t> end{0};
      spread(width, kRowNs, [&](int64_t first, int64_t last) {
        if (expand(first, last, &end)) found.store(true, std::memory_order_relaxed);
      });
      if (found) return true;
      std::swap(frontier_, found_rows_);
      width = end;
    }
    return false;
  }

  // Expands rows [first, last) of the frontier. True if they reach a free column.
  bool expand(int64_t first, int64_t last, std::atomic<int32_t>* end) {
    constexpr int32_t kBuffer = 256;
    int32_t buffer[kBuffer], filled = 0;
    bool found = false;
    const auto flush = [&] {
      std::copy_n(buffer, filled, found_rows_ + end->fetch_add(filled, std::memory_order_relaxed));
      filled = 0;
    };
    for (int64_t t = first; t < last; ++t) {
      const int32_t i = frontier_[t];
      for (int32_t k = s_.row_ptr[i]; k < s_.row_ptr[i + 1]; ++k) {
        const int32_t j = s_.col_ind[k];
        if (!taken_.claim(j)) continue;
        const int32_t r = s_.row4col[j];
        if (r < 0) {
          found = true;
          continue;
        }
        level_[r] = last_level_ + 1;
        buffer[filled++] = r;
        if (filled == kBuffer) flush();
      }
    }
    flush();
    return found;
  }

  // Depth first from the free row `root` down the levels; augments if it reaches a free column.
  void dive(int32_t root, Poll& poll) {
    int32_t i = root;
    while (true) {
      poll.after(32);
      const int32_t j = next_column(i);
      if (j < 0) {
        if (i == root) return;
        i = parent_[s_.col4row[i]];
        continue;
      }
      parent_[j] = i;
      const int32_t r = s_.row4col[j];
      if (r < 0) return s_.flip(j, parent_);
      i = r;
    }
  }

  // The next column of row i that is free or leads one level down, claimed; or -1.
  int32_t next_column(int32_t i) {
    for (const int32_t end = s_.row_ptr[i + 1]; next_[i] < end;) {
      const int32_t j = s_.col_ind[next_[i]++];
      const int32_t r = load_relaxed(s_.row4col + j);
      const bool down = r < 0 || (level_[i] < last_level_ && level_[r] == level_[i] + 1);
      if (down && taken_.claim(j)) return j;
    }
    return -1;
  }

  PartialMatching& s_;
  HostArena& scratch_;
  FreeRows free_rows_;
  int32_t* level_;       // [n], of the rows
  int32_t* frontier_;    // [n], the rows of a level
  int32_t* found_rows_;  // [n], the rows of the next level
  int32_t* next_;        // [n], the next edge of each row
  int32_t* parent_;      // [m], the row from which a column was reached
  Claims
      taken_;  // [m], columns claimed by the breadth-first search, then by the depth-first searches
  int32_t last_level_ = 0;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_P_HK_H_
