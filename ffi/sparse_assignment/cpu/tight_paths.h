// Finds disjoint augmenting paths along edges whose reduced cost is 0, by depth-first search
// (Hopcroft and Karp, An n^5/2 algorithm for maximum matchings in bipartite graphs, 1973).
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_TIGHT_PATHS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_TIGHT_PATHS_H_

#include <cstdint>
#include <vector>

#include "sparse_assignment/cpu/matching_state.h"

namespace jaxmatch::sparse_assignment {

template <class Int>
class TightPaths {
 public:
  // `pairs`: the number of pairs on the shortest path from each row. A path continues only to a row
  // with one pair less. So paths are short and leave more vertices to other paths. Sets the `pairs`
  // of visited rows to kVisited.
  TightPaths(MatchingState<Int>& s, std::vector<int32_t>& pairs) : s_(s), pairs_(pairs) {}

  // Augments along a maximal set of disjoint paths from free rows in `left`, and removes these rows
  // from `left`. A path may end at a row that then stays unmatched. Adds the number of scanned
  // edges to `work`.
  void match(std::vector<int32_t>* left, int64_t* work) {
    size_t kept = 0;
    for (const int32_t i : *left) {
      if (!augment(i)) (*left)[kept++] = i;
    }
    left->resize(kept);
    *work += work_;
  }

 private:
  static constexpr int32_t kVisited = 0;

  struct Step {
    int32_t row, pairs;
    int64_t edge;  // the edge on which the path leaves the row, or kStays
  };

  void push(int32_t i) {
    int32_t& pairs = pairs_[size_t(i)];
    path_.push_back({i, pairs, s_.c.first[size_t(i)] - 1});
    pairs = kVisited;
  }

  bool augment(int32_t start) {
    if (pairs_[size_t(start)] == kVisited) return false;
    path_.clear();
    push(start);
    while (!path_.empty()) {
      Step& last = path_.back();
      const bool is_end = last.pairs == 1;
      if (is_end ? leave_to_end(last) : leave_to_row(last)) {
        if (is_end) return flip();
        push(s_.row4col[size_t(s_.c.edges[size_t(last.edge)].col)]);
      } else {
        path_.pop_back();
      }
    }
    return false;
  }

  // Both functions set `step.edge` to the choice with which the path can leave row step.row next.
  // leave_to_end() looks for an edge to a free column or, if the row can stay unmatched, kStays.
  // leave_to_row() looks for an edge to a column whose row has one pair less. They return false if
  // there is no such choice left.
  bool leave_to_end(Step& step) {
    if (s_.u[size_t(step.row)] == s_.c.stay[size_t(step.row)]) {
      step.edge = kStays;
      return true;
    }
    return find_edge(step, [](int32_t holder) { return holder == kNone; });
  }
  bool leave_to_row(Step& step) {
    return find_edge(step, [&](int32_t holder) {
      return holder != kNone && pairs_[size_t(holder)] == step.pairs - 1;
    });
  }
  template <class F>
  bool find_edge(Step& step, const F& fits) {
    const int64_t end = s_.c.first[size_t(step.row) + 1];
    const Int u = s_.u[size_t(step.row)];
    s_.poll.after(16);
    while (++step.edge < end) {
      ++work_;
      const auto& e = s_.c.edges[size_t(step.edge)];
      if (s_.reduced(e) == u && fits(s_.row4col[size_t(e.col)])) return true;
    }
    return false;
  }

  bool flip() {
    for (const Step& step : path_) {
      s_.pair[size_t(step.row)] = step.edge;
      if (step.edge != kStays) s_.row4col[size_t(s_.c.edges[size_t(step.edge)].col)] = step.row;
    }
    return true;
  }

  MatchingState<Int>& s_;
  std::vector<int32_t>& pairs_;  // [rows]
  std::vector<Step> path_;
  int64_t work_ = 0;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_TIGHT_PATHS_H_
