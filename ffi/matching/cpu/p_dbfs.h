// P-DBFS: concurrent vertex-disjoint breadth-first searches (Azad, Halappanavar, Rajamanickam,
// Boman, Khan and Pothen, IPDPS 2012).
#ifndef JAXMATCH_MATCHING_CPU_P_DBFS_H_
#define JAXMATCH_MATCHING_CPU_P_DBFS_H_

#include <cstdint>

#include "matching/cpu/parallel.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// A phase starts a search from every free row. A search claims each column it reaches, and with it
// the column's row, and ends at the first free column. If no search of a phase finds one, the
// claimed columns are all that can be reached: every claimed row was scanned to its end. O(n e).
class PDbfs {
 public:
  PDbfs(PartialMatching& s, HostArena& scratch)
      : s_(s),
        scratch_(scratch),
        free_rows_(s, scratch),
        after_(scratch.take<int32_t>(s.n)),
        parent_(scratch.take<int32_t>(s.m)),
        taken_(s.m, scratch) {}

  // Returns the columns reached by the last phase, which found no path.
  Bitmap run(const Spread& spread) {
    int32_t found = 0;
    do {
      taken_.next_phase();
      spread(free_rows_.count(), kSearchNs, [&](int64_t first, int64_t last) {
        Poll poll;
        for (int64_t k = first; k < last; ++k) search(free_rows_[k], poll);
      });
      found = free_rows_.drop_matched();
      s_.cardinality += found;
    } while (found > 0);
    return taken_.taken_columns(scratch_);
  }

 private:
  // The queue is a linked list through after_: each row is in the queue of the one search that owns
  // it.
  void search(int32_t root, Poll& poll) {
    int32_t tail = root;
    after_[root] = -1;
    for (int32_t i = root; i >= 0; i = after_[i]) {
      poll.after(32 + s_.row_ptr[i + 1] - s_.row_ptr[i]);
      for (int32_t k = s_.row_ptr[i]; k < s_.row_ptr[i + 1]; ++k) {
        const int32_t j = s_.col_ind[k];
        if (!taken_.claim(j)) continue;
        parent_[j] = i;
        const int32_t r = s_.row4col[j];
        if (r < 0) return s_.flip(j, parent_);
        after_[tail] = r;
        after_[r] = -1;
        tail = r;
      }
    }
  }

  PartialMatching& s_;
  HostArena& scratch_;
  FreeRows free_rows_;
  int32_t* after_;   // [n], the next row of a search's queue
  int32_t* parent_;  // [m], the row from which a column was reached
  Claims taken_;     // [m], columns claimed in this phase
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_P_DBFS_H_
