// Matches most rows by bids without epsilon, which keep complementary slackness exact (augmenting
// row reduction: Jonker and Volgenant, A shortest augmenting path algorithm for dense and sparse
// linear assignment problems, 1987).
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_BIDS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_BIDS_H_

#include <cstdint>
#include <vector>

#include "sparse_assignment/cpu/matching_state.h"

namespace jaxmatch::sparse_assignment {

// The two cheapest choices of a row. A choice is an edge, or kStays to leave the row unmatched.
template <class Int>
struct Choice {
  Int least = kNeverOf<Int>, next = kNeverOf<Int>;
  int64_t edge = kFree, other = kFree;  // choices with costs `least` and `next`

  void include(Int x, int64_t e) {
    if (x < least) {
      next = least;
      other = edge;
      least = x;
      edge = e;
    } else if (x < next) {
      next = x;
      other = e;
    }
  }
};

template <class Int>
Choice<Int> best_of(const MatchingState<Int>& s, int32_t i) {
  Choice<Int> found;
  for (int64_t k = s.c.first[size_t(i)]; k < s.c.first[size_t(i) + 1]; ++k) {
    found.include(s.reduced(s.c.edges[size_t(k)]), k);
  }
  if (s.c.stay[size_t(i)] != kNeverOf<Int>) found.include(s.c.stay[size_t(i)], kStays);
  return found;
}

// Runs the bids. Returns the rows that are still free: rows without a choice, rows whose bid would
// displace another row without lowering the column's price, and all rows left when the budget of
// bids is used up.
template <class Int>
std::vector<int32_t> hold_bids(MatchingState<Int>& s) {
  constexpr int64_t kBidsPerRow = 16;
  std::vector<int32_t> waiting, left;
  for (int32_t i = s.c.rows; i-- > 0;) {
    if (s.pair[size_t(i)] == kFree) waiting.push_back(i);
  }
  for (int64_t budget = kBidsPerRow * s.c.rows; !waiting.empty(); --budget) {
    const int32_t i = waiting.back();
    waiting.pop_back();
    if (budget <= 0) {
      left.push_back(i);
      continue;
    }
    ++s.bids;
    s.poll.after(16 + s.c.first[size_t(i) + 1] - s.c.first[size_t(i)]);
    Choice<Int> best = best_of(s, i);
    if (best.edge == kStays) {
      s.pair[size_t(i)] = kStays;
      s.u[size_t(i)] = best.least;
      continue;
    }
    // Between two equal choices, prefer a free column or staying unmatched. If a row has a single
    // choice, take it only if its column is free.
    const auto holder = [&](int64_t e) { return s.row4col[size_t(s.c.edges[size_t(e)].col)]; };
    const bool drops = best.least < best.next && best.next != kNeverOf<Int>;
    if (best.edge != kFree && !drops && holder(best.edge) != kNone) {
      if (best.next == best.least && best.other == kStays) {
        s.pair[size_t(i)] = kStays;
        s.u[size_t(i)] = best.least;
        continue;
      }
      const bool other = best.next == best.least && best.other != kFree;
      if (other && holder(best.other) == kNone) {
        best.edge = best.other;
      } else {
        best.edge = kFree;
      }
    }
    if (best.edge == kFree) {
      left.push_back(i);
      continue;
    }
    const int32_t j = s.c.edges[size_t(best.edge)].col, before = s.row4col[size_t(j)];
    if (drops) s.v[size_t(j)] -= best.next - best.least;
    s.u[size_t(i)] = drops ? best.next : best.least;
    s.pair[size_t(i)] = best.edge;
    s.row4col[size_t(j)] = i;
    if (before != kNone) {
      s.pair[size_t(before)] = kFree;
      waiting.push_back(before);
    }
  }
  return left;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_BIDS_H_
