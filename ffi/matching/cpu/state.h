// The state that all matching algorithms on the CPU share: a checked graph and the current
// matching.
#ifndef JAXMATCH_MATCHING_CPU_STATE_H_
#define JAXMATCH_MATCHING_CPU_STATE_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/cpu/poll.h"
#include "matching/operands.h"

namespace jaxmatch::matching {

// Atomic accesses, with relaxed order, to array entries that threads share.
inline int32_t load_relaxed(const int32_t* entry) {
  return __atomic_load_n(entry, __ATOMIC_RELAXED);
}
inline void store_relaxed(int32_t* entry, int32_t value) {
  __atomic_store_n(entry, value, __ATOMIC_RELAXED);
}
inline int32_t exchange_relaxed(int32_t* entry, int32_t value) {
  return __atomic_exchange_n(entry, value, __ATOMIC_RELAXED);
}

// A graph and a matching of it. Algorithms search for augmenting paths from rows; to search from
// columns, pass transposed().
struct PartialMatching {
  int32_t n, m;
  const int32_t* row_ptr;
  const int32_t* col_ind;
  const int32_t* col_ptr;
  const int32_t* row_ind;
  int32_t* col4row;  // [n] column of each row, -1 if the row is free
  int32_t* row4col;  // [m] row of each column, -1 if the column is free
  int32_t cardinality;

  int32_t edges() const { return row_ptr[n]; }
  PartialMatching transposed() const {
    return {m, n, col_ptr, row_ind, row_ptr, col_ind, row4col, col4row, cardinality};
  }

  // Other threads may read row4col[col] concurrently.
  void match(int32_t row, int32_t col) {
    col4row[row] = col;
    store_relaxed(row4col + col, row);
  }

  // Augments along the path from the free column `col` up to the row at the root of its search
  // tree. parent[c] is the row from which the search reached column c. Does not update the
  // cardinality.
  void flip(int32_t col, const int32_t* parent) {
    while (col >= 0) {
      const int32_t row = parent[col];
      const int32_t next = col4row[row];
      match(row, col);
      col = next;
    }
  }
  void augment(int32_t col, const int32_t* parent) {
    flip(col, parent);
    ++cardinality;
  }
};

// One bit per vertex: a million bits fit in the L2 cache, a million indices do not.
class Bitmap {
 public:
  Bitmap() = default;
  // Starts with no bit set.
  Bitmap(int64_t count, HostArena& scratch) : words_(scratch.take<uint64_t>(words_for(count), 0)) {}
  static int64_t words_for(int64_t count) { return (count + 63) / 64; }

  bool operator[](int32_t i) const { return words_[i >> 6] >> (i & 63) & 1; }
  void set(int32_t i) { words_[i >> 6] |= uint64_t{1} << (i & 63); }
  void clear(int32_t i) { words_[i >> 6] &= ~(uint64_t{1} << (i & 63)); }
  void clear_all(int64_t count) { std::fill_n(words_, words_for(count), uint64_t{0}); }
  void copy(const Bitmap& other, int64_t count) {
    std::copy_n(other.words_, words_for(count), words_);
  }
  // Calls f(i) for each set bit i.
  template <class F>
  void for_each(int64_t count, F f) const {
    for (int64_t k = 0; k < words_for(count); ++k) {
      for (uint64_t word = words_[k]; word != 0; word &= word - 1) {
        f(int32_t(64 * k + __builtin_ctzll(word)));
      }
    }
  }
  explicit operator bool() const { return words_ != nullptr; }

 private:
  uint64_t* words_ = nullptr;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_STATE_H_
