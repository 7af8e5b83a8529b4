// Classes that the multicore algorithms share: claims on columns, which keep concurrent searches
// disjoint, and the list of free rows (Azad, Halappanavar, Rajamanickam, Boman, Khan and Pothen,
// IPDPS 2012).
#ifndef JAXMATCH_MATCHING_CPU_PARALLEL_H_
#define JAXMATCH_MATCHING_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/parallel_for.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// The columns that searches have claimed in the current phase, for use by one thread.
class Marks {
 public:
  Marks(int32_t count, HostArena& scratch) : count_(count), bits_(count, scratch) {}
  void next_phase() { bits_.clear_all(count_); }
  // Returns true if no search has claimed column j in this phase. The calling search then owns the
  // column, the row matched to it, and the array entries of both.
  bool claim(int32_t j) {
    if (bits_[j]) return false;
    bits_.set(j);
    return true;
  }
  Bitmap taken_columns(HostArena&) const { return bits_; }

 private:
  int32_t count_;
  Bitmap bits_;
};

// The columns that searches have claimed in the current phase, for use by many threads. The
// searches of a phase do not read each other's results, so relaxed memory order suffices.
class Claims {
 public:
  Claims(int32_t count, HostArena& scratch)
      : count_(count), phase_of_(scratch.take<int32_t>(count, 0)) {}
  void next_phase() { ++phase_; }
  bool taken(int32_t j) const { return load_relaxed(phase_of_ + j) == phase_; }
  bool claim(int32_t j) { return !taken(j) && exchange_relaxed(phase_of_ + j, phase_) != phase_; }
  Bitmap taken_columns(HostArena& scratch) const {
    Bitmap bits(count_, scratch);
    for (int32_t j = 0; j < count_; ++j) {
      if (phase_of_[j] == phase_) bits.set(j);
    }
    return bits;
  }

 private:
  int32_t count_;
  int32_t* phase_of_;  // [count] the last phase in which each column was claimed
  int32_t phase_ = 0;
};

// A list of the free rows that have edges. Rows matched later stay in it until drop_matched() or
// keep() removes them.
class FreeRows {
 public:
  FreeRows(const PartialMatching& s, HostArena& scratch)
      : s_(s), rows_(scratch.take<int32_t>(s.n)) {
    for (int32_t i = 0; i < s.n; ++i) {
      if (s.col4row[i] < 0 && s.row_ptr[i] < s.row_ptr[i + 1]) rows_[count_++] = i;
    }
  }
  int32_t count() const { return count_; }
  int32_t operator[](int64_t k) const { return rows_[k]; }
  // Removes the rows that are matched by now, and returns their number.
  int32_t drop_matched() {
    return keep([&](int32_t k) { return s_.col4row[rows_[k]] < 0; });
  }
  // Keeps only the rows at those positions k of the list for which open(k) is true. Returns how
  // many rows of the old list are matched.
  template <class F>
  int32_t keep(F open) {
    int32_t left = 0, matched = 0;
    for (int32_t k = 0; k < count_; ++k) {
      matched += s_.col4row[rows_[k]] >= 0;
      if (open(k)) rows_[left++] = rows_[k];
    }
    count_ = left;
    return matched;
  }

 private:
  const PartialMatching& s_;
  int32_t* rows_;
  int32_t count_ = 0;
};

// Rough duration of one search in nanoseconds, by which the thread pool decides how to divide the
// searches among threads.
constexpr double kSearchNs = 1000;

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_PARALLEL_H_
