// Pairs and prices of a problem in canonical form.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_MATCHING_STATE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_MATCHING_STATE_H_

#include <cstdint>
#include <vector>

#include "common/cpu/poll.h"
#include "sparse_assignment/cpu/canonical.h"

namespace jaxmatch::sparse_assignment {

constexpr int64_t kFree = -1, kStays = -2;

// Invariants: every reduced cost c - u - v (u: dual of the row, v: price of the column) is at least
// 0, and is 0 for pairs. u is at most the row's cost of staying unmatched, and equals it for rows
// that stay. Unless all columns must be matched, v is at most 0, and 0 for free columns.
template <class Int>
struct MatchingState {
  using Edge = EdgeOf<Int>;

  const CanonicalOf<Int>& c;
  std::vector<Int> u, v;
  std::vector<int64_t> pair;     // [rows] an edge, kFree, or kStays if left unmatched
  std::vector<int32_t> row4col;  // [cols] a row or kNone
  int64_t bids = 0, searches = 0;
  Poll poll{};

  explicit MatchingState(const CanonicalOf<Int>& c)
      : c(c),
        u(size_t(c.rows)),
        v(size_t(c.cols), 0),
        pair(size_t(c.rows), kFree),
        row4col(size_t(c.cols), kNone) {}

  Int reduced(const Edge& e) const { return e.cost - v[size_t(e.col)]; }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_MATCHING_STATE_H_
