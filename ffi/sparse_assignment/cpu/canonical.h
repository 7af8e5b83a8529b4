// Canonical form of a problem: a minimisation with costs in whole units. Leaving a row unmatched
// costs `stay` (the price of the row), and leaving a column unmatched costs nothing.
//
// For a row that must be matched, `stay` is kNever. The cost of leaving a column unmatched in the
// given problem is subtracted from the costs of the column's edges. If the column must be matched,
// this cost is a penalty that exceeds the cost of any change of other pairs. If the matching must
// be full and there are more rows than columns, rows and columns are swapped.
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

template <class Int>
struct EdgeOf {
  Int cost;
  int32_t col;
  int32_t place;  // index in col_ind
};

template <class Int>
struct CanonicalOf {
  int32_t rows = 0, cols = 0;
  bool transposed = false;
  bool all_matched = false;    // no row and no column may stay unmatched
  std::vector<int64_t> first;  // [rows + 1]
  std::vector<EdgeOf<Int>> edges;
  std::vector<Int> stay;    // [rows]
  std::vector<Int> offset;  // [cols] subtracted from the costs of a column's edges; empty if 0
  std::vector<bool> must;   // [cols] whether a column must be matched; empty if none must
  double scale = 1;         // factor from costs to units
  double tier = HUGE_VAL;   // costs of at least this are far above all others
  bool exact = true;        // true if no cost was rounded
  double rounding = 1;      // the unit to which costs were rounded, in units
  int64_t terms = 0;        // upper bound on the number of costs in a solution
};

template <class Int>
struct MatchingState;

// Builds the canonical form of a problem. Costs of at least `limit` count as +inf.
template <class T, class Int>
class CanonicalForm {
 public:
  CanonicalForm(const SparseProblem& p, double limit, CanonicalOf<Int>* out)
      : p_(p), cost_(static_cast<const T*>(p.cost)), c_(*out) {
    range_.limit = limit;
  }

  // Checks the graph and finds the range of the costs.
  Status read() { return is_sound() ? summarize() : kInvalidGraph; }
  // Writes the canonical form. Must follow read().
  Status build() {
    const bool gives_price = p_.unmatched_cost != nullptr;
    c_.transposed = !gives_price && exist_[0] > exist_[1];
    c_.rows = int32_t(c_.transposed ? p_.m : p_.n);
    c_.cols = int32_t(c_.transposed ? p_.n : p_.m);
    const bool all_exist = exist_[0] == p_.n && exist_[1] == p_.m;
    c_.all_matched = !gives_price && all_exist && p_.n == p_.m && p_.n > 0;
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
  const CostRange& range() const { return range_; }
  // Whether sums of costs fit into units, which only integers may not. Must follow read().
  bool fits() { return choose_units(p_, range_, std::is_integral_v<T>, musts_, &units_); }
  bool is_integral() const { return std::is_integral_v<T> && range_.whole; }
  // The exponents of all nonzero costs below the limit.
  Exponents exponents() const {
    Exponents found{};
    const double limit = range_.limit;
    each_cost([&](double x) {
      if (x == 0 || !(x < limit)) return;
      const int at = Exponents::place_of(x);
      found.word[at / 32] |= uint32_t(1) << (at % 32);
    });
    return found;
  }
  // True if the duals prove that no edge or unmatched vertex with a cost of `limit` or more would
  // improve the solution: the reduced costs of all of these are at least 0.
  bool can_spare(const MatchingState<Int>& s) const {
    constexpr double kRoundings = 1 - 0x1p-40;
    const double scale = std::fabs(c_.scale) * kRoundings;
    bool spares = true;
    const auto expect = [&](double cost, double duals) {
      spares &= cost < range_.limit || cost == INFINITY || duals <= cost * scale;
    };
    const auto of_col = [&](int64_t j) {
      return double(s.v[size_t(j)] + (c_.offset.empty() ? Int(0) : c_.offset[size_t(j)]));
    };
    each_edge([&](int32_t i, int32_t j, int64_t k) {
      const double x = cost_at(k);
      if (x < range_.limit) return;
      const int64_t row = c_.transposed ? j : i, col = c_.transposed ? i : j;
      expect(x, double(s.u[size_t(row)]) + of_col(col));
    });
    for (int64_t i = 0; p_.unmatched_cost && i < p_.n; ++i) {
      if (has_row(i)) expect(row_price(i), double(s.u[size_t(i)]));
    }
    for (int64_t j = 0; p_.unmatched_col_cost && j < p_.m; ++j) {
      if (has_col(j)) expect(col_price(j), of_col(j));
    }
    return spares;
  }

 private:
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

  // Counts the unmasked vertices and finds the range of the costs.
  Status summarize() {
    for (int64_t i = 0; i < p_.n; ++i) exist_[0] += has_row(i);
    for (int64_t j = 0; j < p_.m; ++j) exist_[1] += has_col(j);
    each_cost([&](double x) { range_.include(x); });
    for (int64_t j = 0; p_.unmatched_col_cost && j < p_.m; ++j) {
      musts_ |= has_col(j) && !(col_price(j) < range_.limit);
    }
    return range_.invalid ? kInvalidCost : kOptimal;
  }
  // Calls f(cost) for the cost of each edge and for the cost of leaving each vertex unmatched.
  // Ignores masked vertices. Costs of a maximisation are negated.
  template <class F>
  void each_cost(const F& f) const {
    each_edge([&](int32_t, int32_t, int64_t k) { f(cost_at(k)); });
    for (int64_t i = 0; p_.unmatched_cost && i < p_.n; ++i) {
      if (has_row(i)) f(row_price(i));
    }
    for (int64_t j = 0; p_.unmatched_col_cost && j < p_.m; ++j) {
      if (has_col(j)) f(col_price(j));
    }
  }

  Int units_at(const void* costs, Dtype dtype, int64_t k) {
    bool rounded = false;
    const Int units = units_.at(costs, dtype, k, &rounded);
    c_.exact &= !rounded;
    return units;
  }
  Int units_at(int64_t k) { return units_at(cost_, p_.cost_dtype, k); }
  double cost_at(int64_t k) const { return sign() * as_double(cost_[k]); }

  void set_stays() {
    c_.stay.assign(size_t(c_.rows), kNeverOf<Int>);
    for (int64_t i = 0; i < c_.rows; ++i) {
      const bool exists = c_.transposed ? has_col(i) : has_row(i);
      if (!exists) {
        c_.stay[i] = 0;
      } else if (p_.unmatched_cost && row_price(i) < range_.limit) {
        c_.stay[i] = units_at(p_.unmatched_cost, p_.unmatched_dtype, i);
      }
    }
    if (!p_.unmatched_col_cost) return;
    c_.offset.assign(size_t(c_.cols), 0);
    c_.must.assign(size_t(c_.cols), false);
    for (int64_t j = 0; j < c_.cols; ++j) {
      if (!has_col(j)) continue;
      c_.must[j] = !(col_price(j) < range_.limit);
      c_.offset[j] =
          c_.must[j] ? units_.must : units_at(p_.unmatched_col_cost, p_.unmatched_col_dtype, j);
    }
  }

  template <class F>
  void each_edge(const F& f) const {
    for (int32_t i = 0; i < p_.n; ++i) {
      if (!has_row(i)) continue;
      for (int64_t k = p_.row_ptr[i]; k < p_.row_ptr[i + 1]; ++k) {
        const int32_t j = p_.col_ind[k];
        if (has_col(j)) f(i, j, k);
      }
    }
  }
  template <class F>
  void each_allowed(const F& f) const {
    each_edge([&](int32_t i, int32_t j, int64_t k) {
      if (cost_at(k) < range_.limit) f(i, j, k);
    });
  }
  void fill() {
    c_.first.assign(size_t(c_.rows) + 1, 0);
    c_.edges.reserve(size_t(p_.row_ptr[p_.n]));
    each_allowed([&](int32_t i, int32_t j, int64_t k) {
      const Int less = c_.offset.empty() ? 0 : c_.offset[j];
      c_.edges.push_back({units_at(k) - less, j, int32_t(k)});
      c_.first[i + 1] = int64_t(c_.edges.size());
    });
    for (int64_t i = 0; i < c_.rows; ++i) c_.first[i + 1] = std::max(c_.first[i + 1], c_.first[i]);
  }
  void fill_transposed() {
    c_.first.assign(size_t(c_.rows) + 2, 0);
    each_allowed([&](int32_t, int32_t j, int64_t) { ++c_.first[j + 2]; });
    for (int64_t j = 0; j < c_.rows; ++j) c_.first[j + 2] += c_.first[j + 1];
    c_.edges.resize(size_t(c_.first[c_.rows + 1]));
    each_allowed([&](int32_t i, int32_t j, int64_t k) {
      c_.edges[size_t(c_.first[j + 1]++)] = {units_at(k), i, int32_t(k)};
    });
  }

  // Changes the unit to the largest power of two that divides all costs. The auction may set a
  // price to any whole number of units. With a coarse unit, this number has few bits, so that the
  // floats of the result represent the price exactly.
  void coarsen() {
    unsigned __int128 all = 0;
    for (const EdgeOf<Int>& e : c_.edges) all |= (unsigned __int128)(e.cost);
    if (all == 0) return;
    const bool is_low = uint64_t(all) != 0;
    const int zeros = is_low ? __builtin_ctzll(uint64_t(all)) : 64 + __builtin_ctzll(all >> 64);
    const int finite = std::ilogb(c_.scale) + 1000;  // keeps 1 / scale finite
    const int shift = std::min(zeros, finite);
    for (EdgeOf<Int>& e : c_.edges) e.cost >>= shift;
    c_.scale = std::ldexp(c_.scale, -shift);
    c_.rounding = std::ldexp(1.0, -shift);
  }

  const SparseProblem& p_;
  const T* cost_;
  CanonicalOf<Int>& c_;
  int64_t exist_[2] = {0, 0};  // numbers of unmasked rows and columns
  CostRange range_;
  bool musts_ = false;  // some column must be matched
  UnitsOf<Int> units_;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_CANONICAL_H_
