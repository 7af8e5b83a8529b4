// The candidate set of a row: the columns with the least reduced costs in each column class.
#ifndef JAXMATCH_LARGE_CORE_CANDIDATES_H_
#define JAXMATCH_LARGE_CORE_CANDIDATES_H_

#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

// The best columns of one class for one row. Ties are broken by a hash of row and column, so that
// identical rows get different candidate sets.
struct Candidates {
  uint32_t scatter;
  double x[kCandidatesPerClass];
  int32_t col[kCandidatesPerClass];

  JAXMATCH_DEVICE void begin(int64_t row) {
    scatter = uint32_t(row) * 0x85EBCA77u;
    JAXMATCH_UNROLL
    for (int b = 0; b < kCandidatesPerClass; ++b) {
      x[b] = kNone;
      col[b] = -1;
    }
  }
  // False for a forbidden column; true for a tie with the last candidate.
  JAXMATCH_DEVICE bool may_enter(double cost) const { return cost <= x[kCandidatesPerClass - 1]; }
  JAXMATCH_INLINE void insert(double cost, int32_t j) {
    const uint32_t mine = place(j);
    bool before[kCandidatesPerClass];
    JAXMATCH_UNROLL
    for (int b = 0; b < kCandidatesPerClass; ++b) {
      before[b] = (cost < x[b]) | ((cost == x[b]) & (mine < place(col[b])));
    }
    JAXMATCH_UNROLL
    for (int b = kCandidatesPerClass - 1; b > 0; --b) {
      x[b] = before[b - 1] ? x[b - 1] : before[b] ? cost : x[b];
      col[b] = before[b - 1] ? col[b - 1] : before[b] ? j : col[b];
    }
    x[0] = before[0] ? cost : x[0];
    col[0] = before[0] ? j : col[0];
  }
  template <class P>
  JAXMATCH_DEVICE void write(const P& p, const double* v, int64_t at) const {
    write(p, v, p.s.core_col + at, p.s.core_key + at);
  }
  template <class P>
  JAXMATCH_DEVICE void write(const P& p, const double* v, ClassCols* to_cols,
                             ClassKeys* to_keys) const {
    ClassCols cols;
    ClassKeys keys;
    JAXMATCH_UNROLL
    for (int b = 0; b < kCandidatesPerClass; ++b) {
      const int32_t j = col[b];
      cols.x[b] = j;
      keys.x[b] = j < 0 ? 0 : int64_t(x[b] + v[j - p.col_id(0)]);
    }
    *to_cols = cols;
    *to_keys = keys;
  }
  // A lower bound on the reduced costs of the class's columns that are not candidates.
  JAXMATCH_DEVICE double horizon() const {
    return col[kCandidatesPerClass - 1] < 0 ? infinity() : x[kCandidatesPerClass - 1];
  }

 private:
  JAXMATCH_DEVICE uint32_t place(int32_t j) const {
    const uint32_t x = uint32_t(j) * 0x9E3779B1u + scatter;
    return (x ^ x >> 15) * 0x2C1B3C6Du;
  }
  static constexpr double kNone = 1.7976931348623157e308;  // less than the cost of a forbidden pair
};

// The rotation of the classes in a block of columns, which has one column of each class. It depends
// on the block and on the selection, so columns that share a class in one selection need not share
// one in the next. If the rotation is 1, the first column of the block belongs to the last class.
JAXMATCH_DEVICE inline uint32_t rotation_of(int block, uint32_t rotation) {
  return uint32_t(block) * rotation >> 16;
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CORE_CANDIDATES_H_
