// Initial matchings: one given by the caller, a greedy one, and the one of Karp and Sipser.
#ifndef JAXMATCH_MATCHING_CPU_START_H_
#define JAXMATCH_MATCHING_CPU_START_H_

#include <algorithm>
#include <cstdint>

#include "matching/cpu/state.h"

namespace jaxmatch::matching {

inline bool has_edge(const PartialMatching& s, int32_t row, int32_t col) {
  const int32_t* end = s.col_ind + s.row_ptr[row + 1];
  return std::find(s.col_ind + s.row_ptr[row], end, col) != end;
}

// Starts from those pairs of the caller's col4row, `start`, that are edges. If several rows have
// the same column, the lowest row keeps it. `start` may be null, and its entries are unchecked.
inline void start_from(PartialMatching& s, const int32_t* start) {
  std::fill_n(s.col4row, s.n, -1);
  std::fill_n(s.row4col, s.m, -1);
  s.cardinality = 0;
  if (!start) return;
  for (int32_t i = 0; i < s.n; ++i) {
    const int32_t j = start[i];
    if (j < 0 || j >= s.m || s.row4col[j] >= 0 || !has_edge(s, i, j)) continue;
    s.match(i, j);
    ++s.cardinality;
  }
}

// Matches each free row to its first free neighbour, if it has one.
inline void cheap_matching(PartialMatching& s) {
  for (int32_t i = 0; i < s.n; ++i) {
    if (s.col4row[i] >= 0) continue;
    for (int32_t k = s.row_ptr[i]; k < s.row_ptr[i + 1]; ++k) {
      const int32_t j = s.col_ind[k];
      if (s.row4col[j] >= 0) continue;
      s.match(i, j);
      ++s.cardinality;
      break;
    }
  }
}

// Karp and Sipser (FOCS 1981): a free vertex with exactly one free neighbour is matched to it,
// because some maximum matching of the free vertices contains this pair. If there is no such
// vertex, the next free row takes its first free neighbour.
class KarpSipser {
 public:
  KarpSipser(PartialMatching& s, HostArena& scratch)
      : s_(s),
        row_degree_(scratch.take<int32_t>(s.n)),
        col_degree_(scratch.take<int32_t>(s.m)),
        waiting_(scratch.take<int32_t>(int64_t(s.n) + s.m)) {}

  void run() {
    count_degrees(s_.n, s_.row_ptr, s_.col_ind, s_.col4row, s_.row4col, row_degree_);
    count_degrees(s_.m, s_.col_ptr, s_.row_ind, s_.row4col, s_.col4row, col_degree_);
    for (int32_t i = 0; i < s_.n; ++i) {
      if (row_degree_[i] == 1) push(i);
    }
    for (int32_t j = 0; j < s_.m; ++j) {
      if (col_degree_[j] == 1) push(~j);
    }
    match_single();
    for (int32_t i = 0; i < s_.n; ++i) {
      if (s_.col4row[i] >= 0 || row_degree_[i] <= 0) continue;
      const int32_t j = free_neighbour(s_.row_ptr, s_.col_ind, s_.row4col, i);
      if (j < 0) continue;
      take(i, j);
      match_single();
    }
  }

 private:
  // Sets `degree` to the number of free neighbours of each free vertex, and to 0 for matched
  // vertices.
  static void count_degrees(int32_t count, const int32_t* ptr, const int32_t* ind,
                            const int32_t* mate, const int32_t* other_mate, int32_t* degree) {
    for (int32_t v = 0; v < count; ++v) {
      degree[v] = 0;
      if (mate[v] >= 0) continue;
      for (int32_t k = ptr[v]; k < ptr[v + 1]; ++k) degree[v] += other_mate[ind[k]] < 0;
    }
  }
  static int32_t free_neighbour(const int32_t* ptr, const int32_t* ind, const int32_t* other_mate,
                                int32_t v) {
    for (int32_t k = ptr[v]; k < ptr[v + 1]; ++k) {
      if (other_mate[ind[k]] < 0) return ind[k];
    }
    return -1;
  }

  // Degrees only fall, so the degree of a vertex becomes 1 at most once, and no vertex is pushed
  // twice.
  void push(int32_t vertex) { waiting_[end_++] = vertex; }

  void match_single() {
    while (begin_ < end_) {
      const int32_t vertex = waiting_[begin_++];
      const int32_t i =
          vertex >= 0 ? vertex : free_neighbour(s_.col_ptr, s_.row_ind, s_.col4row, ~vertex);
      const int32_t j =
          vertex >= 0 ? free_neighbour(s_.row_ptr, s_.col_ind, s_.row4col, vertex) : ~vertex;
      if (i < 0 || j < 0 || s_.col4row[i] >= 0 || s_.row4col[j] >= 0) continue;
      take(i, j);
    }
  }

  void take(int32_t i, int32_t j) {
    s_.match(i, j);
    ++s_.cardinality;
    for (int32_t k = s_.row_ptr[i]; k < s_.row_ptr[i + 1]; ++k) {
      const int32_t c = s_.col_ind[k];
      if (--col_degree_[c] == 1 && s_.row4col[c] < 0) push(~c);
    }
    for (int32_t k = s_.col_ptr[j]; k < s_.col_ptr[j + 1]; ++k) {
      const int32_t r = s_.row_ind[k];
      if (--row_degree_[r] == 1 && s_.col4row[r] < 0) push(r);
    }
  }

  PartialMatching& s_;
  int32_t* row_degree_;
  int32_t* col_degree_;
  int32_t* waiting_;  // [n + m] queue of vertices of degree 1: row i as i, column j as ~j
  int32_t begin_ = 0, end_ = 0;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_START_H_
