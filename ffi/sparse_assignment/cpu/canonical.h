// Canonical form: a minimisation in whole units, in which each row has a price at which it may stay
// alone, and columns may stay alone for nothing.
//
// A row that must be matched has the price kNever. What a column pays to stay is subtracted from
// its edges; a column that must be matched pays more than any rearrangement costs. If all columns
// must be matched and not all rows can be, rows and columns change places.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_CANONICAL_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_CANONICAL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/cpu/index_checks.h"
#include "common/float16.h"
#include "common/status.h"
#include "sparse_assignment/units.h"

namespace jaxmatch::sparse_assignment {

template <class T>
double as_double(T x) {
  if constexpr (sizeof(T) == 2) {
    return double(single(x));
  } else {
    return double(x);
  }
}

struct Edge {
  int64_t cost;
  int32_t col;
  int32_t place;  // in col_ind
};

struct Canonical {
  int32_t rows = 0, cols = 0;
  bool transposed = false;
  bool all_matched = false;    // no row and no column can stay
  bool all_may_stay = false;   // of the rows; then no dual exceeds the price of that
  std::vector<int64_t> first;  // [rows + 1]
  std::vector<Edge> edges;
  std::vector<int64_t> stay;    // [rows]
  std::vector<int64_t> offset;  // [cols] subtracted from the edges of a column; empty: nothing
  std::vector<bool> must;       // [cols] columns that must be matched; empty: none
  double scale = 1;             // from costs to units
  bool exact = true;            // no cost was rounded
  int64_t terms = 0;            // most costs of a solution
};

template <class T>
class CanonicalForm {
 public:
  CanonicalForm(const SparseProblem& p, Canonical* out)
      : p_(p), cost_(static_cast<const T*>(p.cost)), c_(*out) {}

  Status build() {
    if (!is_sound()) return kInvalidGraph;
    if (const Status status = summarize(); status != kOptimal) return status;
    const bool gives_price = p_.unmatched_cost != nullptr;
    c_.transposed = !gives_price && !is_maximum() && exist_[0] > exist_[1];
    c_.rows = int32_t(c_.transposed ? p_.m : p_.n);
    c_.cols = int32_t(c_.transposed ? p_.n : p_.m);
    const bool all_exist = exist_[0] == p_.n && exist_[1] == p_.m;
    c_.all_matched = !gives_price && !is_maximum() && all_exist && p_.n == p_.m && p_.n > 0;
    c_.all_may_stay = is_maximum();
    c_.terms = gives_price ? p_.n + p_.m : std::min(p_.n, p_.m);
    if (!choose_units(p_, range_, std::is_integral_v<T>, musts_, &units_)) return kOverflow;
    c_.scale = units_.scale;
    set_stays();
    if (c_.transposed) {
      fill_transposed();
    } else {
      fill();
    }
    if (c_.all_matched) coarsen();
    return kOptimal;
  }

 private:
  bool is_maximum() const { return p_.cardinality == Cardinality::kMaximum; }
  bool has_row(int64_t i) const { return !p_.row_mask || p_.row_mask[i]; }
  bool has_col(int64_t j) const { return !p_.col_mask || p_.col_mask[j]; }
  double sign() const { return p_.maximize ? -1 : 1; }
  double row_price(int64_t i) const {
    return sign() * real_at(p_.unmatched_cost, p_.unmatched_dtype, i);
  }
  double col_price(int64_t j) const {
    return sign() * real_at(p_.unmatched_col_cost, p_.unmatched_col_dtype, j);
  }

  bool is_sound() const {
    return p_.row_ptr[0] == 0 && is_non_decreasing(p_.row_ptr, 0, p_.n) &&
           p_.row_ptr[p_.n] <= p_.capacity &&
           are_below(p_.col_ind, 0, p_.row_ptr[p_.n], int32_t(p_.m));
  }

  // Finds the greatest magnitude, and invalid costs.
  Status summarize() {
    for (int64_t i = 0; i < p_.n; ++i) exist_[0] += has_row(i);
    for (int64_t j = 0; j < p_.m; ++j) exist_[1] += has_col(j);
    for (int64_t i = 0; i < p_.n; ++i) {
      if (!has_row(i)) continue;
      for (int64_t k = p_.row_ptr[i]; k < p_.row_ptr[i + 1]; ++k) {
        if (has_col(p_.col_ind[k])) range_.include(sign() * as_double(cost_[k]));
      }
    }
    for (int64_t i = 0; p_.unmatched_cost && i < p_.n; ++i) {
      if (has_row(i)) range_.include(row_price(i));
    }
    for (int64_t j = 0; p_.unmatched_col_cost && j < p_.m; ++j) {
      if (!has_col(j)) continue;
      range_.include(col_price(j));
      musts_ |= col_price(j) == INFINITY;
    }
    return range_.invalid ? kInvalidCost : kOptimal;
  }

  int64_t units_at(const void* costs, Dtype dtype, int64_t k) {
    bool rounded = false;
    const int64_t units = units_.at(costs, dtype, k, &rounded);
    c_.exact &= !rounded;
    return units;
  }
  int64_t units_at(int64_t k) { return units_at(cost_, p_.cost_dtype, k); }
  bool allowed(int64_t k) const { return sign() * as_double(cost_[k]) < INFINITY; }

  void set_stays() {
    c_.stay.assign(size_t(c_.rows), kNever);
    for (int64_t i = 0; i < c_.rows; ++i) {
      const bool exists = c_.transposed ? has_col(i) : has_row(i);
      if (!exists) {
        c_.stay[i] = 0;
      } else if (is_maximum()) {
        c_.stay[i] = units_.stay;
      } else if (p_.unmatched_cost && row_price(i) < INFINITY) {
        c_.stay[i] = units_at(p_.unmatched_cost, p_.unmatched_dtype, i);
      }
    }
    if (!p_.unmatched_col_cost) return;
    c_.offset.assign(size_t(c_.cols), 0);
    c_.must.assign(size_t(c_.cols), false);
    for (int64_t j = 0; j < c_.cols; ++j) {
      if (!has_col(j)) continue;
      c_.must[j] = !(col_price(j) < INFINITY);
      c_.offset[j] =
          c_.must[j] ? units_.must : units_at(p_.unmatched_col_cost, p_.unmatched_col_dtype, j);
    }
  }

  template <class F>
  void each_edge(const F& f) {
    for (int32_t i = 0; i < p_.n; ++i) {
      if (!has_row(i)) continue;
      for (int64_t k = p_.row_ptr[i]; k < p_.row_ptr[i + 1]; ++k) {
        const int32_t j = p_.col_ind[k];
        if (has_col(j) && allowed(k)) f(i, j, k);
      }
    }
  }
  void fill() {
    c_.first.assign(size_t(c_.rows) + 1, 0);
    c_.edges.reserve(size_t(p_.row_ptr[p_.n]));
    each_edge([&](int32_t i, int32_t j, int64_t k) {
      const int64_t less = c_.offset.empty() ? 0 : c_.offset[j];
      c_.edges.push_back({units_at(k) - less, j, int32_t(k)});
      c_.first[i + 1] = int64_t(c_.edges.size());
    });
    for (int64_t i = 0; i < c_.rows; ++i) c_.first[i + 1] = std::max(c_.first[i + 1], c_.first[i]);
  }
  void fill_transposed() {
    c_.first.assign(size_t(c_.rows) + 2, 0);
    each_edge([&](int32_t, int32_t j, int64_t) { ++c_.first[j + 2]; });
    for (int64_t j = 0; j < c_.rows; ++j) c_.first[j + 2] += c_.first[j + 1];
    c_.edges.resize(size_t(c_.first[c_.rows + 1]));
    each_edge([&](int32_t i, int32_t j, int64_t k) {
      c_.edges[size_t(c_.first[j + 1]++)] = {units_at(k), i, int32_t(k)};
    });
  }

  // Takes the greatest unit that divides all costs: prices of an auction are any number of units,
  // and results should hold them.
  void coarsen() {
    uint64_t bits = 0;
    for (const Edge& e : c_.edges) bits |= uint64_t(e.cost);
    if (bits == 0) return;
    const int finite = std::ilogb(c_.scale) + 1000;  // so that 1 / scale is
    const int shift = std::min(__builtin_ctzll(bits), finite);
    for (Edge& e : c_.edges) e.cost >>= shift;
    c_.scale = std::ldexp(c_.scale, -shift);
  }

  const SparseProblem& p_;
  const T* cost_;
  Canonical& c_;
  int64_t exist_[2] = {0, 0};  // rows and columns
  CostRange range_;
  bool musts_ = false;  // some column must be matched
  Units units_;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_CANONICAL_H_
