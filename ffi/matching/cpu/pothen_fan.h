// The algorithm of Pothen and Fan (ACM TOMS 1990) as improved by Duff, Kaya and Ucar (ACM TOMS
// 2011): depth-first search with lookahead and fairness.
#ifndef JAXMATCH_MATCHING_CPU_POTHEN_FAN_H_
#define JAXMATCH_MATCHING_CPU_POTHEN_FAN_H_

#include <algorithm>
#include <cstdint>

#include "matching/cpu/parallel.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// A phase searches from every free row. Its searches share no column. Lookahead: when a search
// enters a row, it first looks for a free column among the row's neighbours. A matched column never
// becomes free again. So each lookahead of a row starts where the row's previous lookahead stopped,
// and all lookaheads together scan an edge at most once. Fairness: every other phase scans the
// neighbours of rows in reverse order, so that searches do not fail in the same region each time.
// The algorithm takes O(n e) time for n rows and e edges; in practice, a few phases suffice.
// `Taken` is Marks for one thread, or Claims for many (the method P-PFP); see parallel.h.
template <class Taken>
class PothenFan {
 public:
  PothenFan(PartialMatching& s, HostArena& scratch)
      : s_(s),
        scratch_(scratch),
        free_rows_(s, scratch),
        ahead_(scratch.take<int32_t>(s.n)),
        next_(scratch.take<int32_t>(s.n)),
        parent_(scratch.take<int32_t>(s.m)),
        taken_(s.m, scratch) {}

  // Returns the columns reached by the last phase, which found no path.
  Bitmap run(const Spread& spread) {
    std::copy_n(s_.row_ptr, s_.n, ahead_);
    int32_t found = 0;
    bool backwards = false;
    do {
      taken_.next_phase();
      spread(free_rows_.count(), kSearchNs, [&](int64_t first, int64_t last) {
        Poll poll;
        for (int64_t k = first; k < last; ++k) {
          backwards ? search<true>(free_rows_[k], poll) : search<false>(free_rows_[k], poll);
        }
      });
      found = free_rows_.drop_matched();
      s_.cardinality += found;
      backwards = !backwards;
    } while (found > 0);
    return taken_.taken_columns(scratch_);
  }

 private:
  // Searches depth first from the free row `root`. Augments if it reaches a free column.
  template <bool kBackwards>
  void search(int32_t root, Poll& poll) {
    int32_t i = root;
    enter<kBackwards>(i);
    while (true) {
      poll.after(32);
      int32_t j = free_column(i);
      if (j >= 0) {
        parent_[j] = i;
        s_.flip(j, parent_);
        return;
      }
      while ((j = next_column<kBackwards>(i)) < 0) {
        if (i == root) return;
        i = parent_[s_.col4row[i]];
      }
      parent_[j] = i;
      i = s_.row4col[j];
      enter<kBackwards>(i);
    }
  }

  template <bool kBackwards>
  void enter(int32_t i) {
    next_[i] = kBackwards ? s_.row_ptr[i + 1] : s_.row_ptr[i];
  }

  // Lookahead: claims and returns a free neighbour of row i; -1 if there is none.
  int32_t free_column(int32_t i) {
    for (const int32_t end = s_.row_ptr[i + 1]; ahead_[i] < end; ++ahead_[i]) {
      const int32_t j = s_.col_ind[ahead_[i]];
      if (load_relaxed(s_.row4col + j) < 0 && taken_.claim(j)) return j;
    }
    return -1;
  }

  // Claims and returns the next neighbour of row i that is not yet claimed in this phase; -1 if
  // there is none.
  template <bool kBackwards>
  int32_t next_column(int32_t i) {
    if (kBackwards) {
      for (const int32_t begin = s_.row_ptr[i]; next_[i] > begin;) {
        const int32_t j = s_.col_ind[--next_[i]];
        if (taken_.claim(j)) return j;
      }
    } else {
      for (const int32_t end = s_.row_ptr[i + 1]; next_[i] < end;) {
        const int32_t j = s_.col_ind[next_[i]++];
        if (taken_.claim(j)) return j;
      }
    }
    return -1;
  }

  PartialMatching& s_;
  HostArena& scratch_;
  FreeRows free_rows_;
  int32_t* ahead_;  // [n], the next edge that the lookahead of each row scans
  int32_t* next_;  // [n], the next edge that the search scans from each row; backwards, one past it
  int32_t* parent_;  // [m], the row from which each column was reached
  Taken taken_;      // [m], columns claimed in this phase
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_POTHEN_FAN_H_
