// Tests, by a maximum matching, whether all rows that must be matched can be matched. In an auction
// or a price update, an infeasible problem would show only after prices have moved very far.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_FEASIBLE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_FEASIBLE_H_

#include <cstdint>
#include <vector>

#include "matching/cpu/pothen_fan.h"
#include "sparse_assignment/cpu/matching_state.h"

namespace jaxmatch::sparse_assignment {

// The maximum matching is computed from a copy of the pairs of `s`.
template <class Int>
bool can_match_rows(const MatchingState<Int>& s) {
  const CanonicalOf<Int>& c = s.c;
  std::vector<int32_t> first{0}, col, col4row, row4col(size_t(c.cols), kNone);
  int32_t pairs = 0;
  for (int32_t i = 0; i < c.rows; ++i) {
    if (c.stay[size_t(i)] != kNeverOf<Int>) continue;
    for (int64_t k = c.first[size_t(i)]; k < c.first[size_t(i) + 1]; ++k) {
      col.push_back(c.edges[size_t(k)].col);
    }
    first.push_back(int32_t(col.size()));
    col4row.push_back(kNone);
    if (s.pair[size_t(i)] < 0) continue;
    col4row.back() = c.edges[size_t(s.pair[size_t(i)])].col;
    row4col[size_t(col4row.back())] = int32_t(col4row.size()) - 1;
    ++pairs;
  }
  const int32_t rows = int32_t(col4row.size());
  if (pairs == rows) return true;
  matching::PartialMatching matching{rows,    c.cols,         first.data(),   col.data(), nullptr,
                                     nullptr, col4row.data(), row4col.data(), pairs};
  HostArena scratch;
  matching::PothenFan<matching::Marks>(matching, scratch).run(Spread(nullptr));
  return matching.cardinality == rows;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_FEASIBLE_H_
