// The vertex cover that proves that a matching is maximum (König's theorem).
#ifndef JAXMATCH_MATCHING_CPU_COVER_H_
#define JAXMATCH_MATCHING_CPU_COVER_H_

#include <algorithm>
#include <cstdint>

#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// The columns reachable from free rows by alternating paths. None of them is free if the matching
// is maximum.
inline Bitmap reach_from_free_rows(const PartialMatching& s, HostArena& scratch) {
  Bitmap reached(s.m, scratch);
  int32_t* queue = scratch.take<int32_t>(s.n);
  int32_t end = 0;
  for (int32_t i = 0; i < s.n; ++i) {
    if (s.col4row[i] < 0) queue[end++] = i;
  }
  for (int32_t begin = 0; begin < end; ++begin) {
    const int32_t i = queue[begin];
    for (int32_t k = s.row_ptr[i]; k < s.row_ptr[i + 1]; ++k) {
      const int32_t j = s.col_ind[k];
      if (reached[j]) continue;
      reached.set(j);
      if (s.row4col[j] >= 0) queue[end++] = s.row4col[j];
    }
  }
  return reached;
}

// Writes the vertex cover: the reached columns, and the rows matched to columns that are not
// reached. A row outside the cover is free or matched to a reached column. So alternating paths
// from free rows reach this row, and all its neighbours are reached columns. Each matched pair has
// exactly one vertex in the cover.
inline void write_cover(const PartialMatching& s, Bitmap reached, bool* row_cover,
                        bool* col_cover) {
  std::fill_n(col_cover, s.m, false);
  for (int32_t i = 0; i < s.n; ++i) row_cover[i] = s.col4row[i] >= 0;
  reached.for_each(s.m, [&](int32_t j) {
    col_cover[j] = true;
    if (s.row4col[j] >= 0) row_cover[s.row4col[j]] = false;
  });
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_COVER_H_
