// What the multicore algorithms share: how work is spread, and how searches claim columns so that
// they stay disjoint (Azad, Halappanavar, Rajamanickam, Boman, Khan and Pothen, IPDPS 2012).
#ifndef JAXMATCH_MATCHING_CPU_PARALLEL_H_
#define JAXMATCH_MATCHING_CPU_PARALLEL_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/parallel_for.h"
#include "matching/cpu/state.h"

namespace jaxmatch::matching {

// Which columns the searches of a phase have taken, for one thread.
class Marks {
 public:
  Marks(int32_t count, Scratch& scratch) : count_(count), bits_(scratch.take_bitmap(count)) {}
  void next_phase() { bits_.clear_all(count_); }
  // True for the first who asks in a phase: the column, its row and their entries are its own.
  bool claim(int32_t j) {
    if (bits_[j]) return false;
    bits_.set(j);
    return true;
  }
  Bitmap taken_columns(Scratch&) const { return bits_; }

 private:
  int32_t count_;
  Bitmap bits_;
};

// The same for many threads. Nothing is handed from one search to another within a phase, so
// relaxed order is enough.
class Claims {
 public:
  Claims(int32_t count, Scratch& scratch) : count_(count), phase_of_(scratch.take(count, 0)) {}
  void next_phase() { ++phase_; }
  bool taken(int32_t j) const { return load_relaxed(phase_of_ + j) == phase_; }
  bool claim(int32_t j) { return !taken(j) && exchange_relaxed(phase_of_ + j, phase_) != phase_; }
  Bitmap taken_columns(Scratch& scratch) const {
    Bitmap bits = scratch.take_bitmap(count_);
    for (int32_t j = 0; j < count_; ++j) {
      if (phase_of_[j] == phase_) bits.set(j);
    }
    return bits;
  }

 private:
  int32_t count_;
  int32_t* phase_of_;  // [count], the last phase that has taken a column
  int32_t phase_ = 0;
};

// The free rows of a matching in the making.
class FreeRows {
 public:
  FreeRows(const MatchingState& s, Scratch& scratch) : s_(s), rows_(scratch.take(s.n)) {
    for (int32_t i = 0; i < s.n; ++i) {
      if (s.col4row[i] < 0 && s.row_ptr[i] < s.row_ptr[i + 1]) rows_[count_++] = i;
    }
  }
  int32_t count() const { return count_; }
  int32_t operator[](int64_t k) const { return rows_[k]; }
  // Forgets the rows that are matched by now, and returns how many they were.
  int32_t drop_matched() {
    return keep([&](int32_t k) { return s_.col4row[rows_[k]] < 0; });
  }
  // Forgets all but the rows whose place k open(k) holds for. Returns how many of those that go are
  // matched by now.
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
  const MatchingState& s_;
  int32_t* rows_;
  int32_t count_ = 0;
};

// A search as the pool's work: a guess, since nobody knows how far it goes.
constexpr double kSearchNs = 1000;

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CPU_PARALLEL_H_
