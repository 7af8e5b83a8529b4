// Solves a sparse assignment problem. If all rows and columns must be matched, an auction sets the
// prices first. Bids then match most rows. Shortest augmenting paths and global price updates match
// the rest.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVER_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVER_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sparse_assignment/cpu/as_matrix.h"
#include "sparse_assignment/cpu/auction.h"
#include "sparse_assignment/cpu/feasible.h"
#include "sparse_assignment/cpu/finish.h"
#include "sparse_assignment/cpu/leftovers.h"
#include "sparse_assignment/cpu/solve.h"

namespace jaxmatch::sparse_assignment {

// Sets the prices to the given start duals if no dual is too large. Returns whether it did. Only
// for problems in which all rows and columns must be matched: others need prices of 0 at free
// columns.
template <class Int>
bool start_warm(const SparseProblem& p, MatchingState<Int>& s) {
  const double most = std::ldexp(1.0, UnitLimits<Int>::kMostOnPathBits - 2);
  if (!p.start_dual) return false;
  const auto units = [&](int64_t j) {
    return real_at(p.start_dual, p.result_dtype, j) * s.c.scale;
  };
  for (int64_t j = 0; j < s.c.cols; ++j) {
    if (!(std::fabs(units(j)) < most)) return false;
  }
  for (int64_t j = 0; j < s.c.cols; ++j) s.v[size_t(j)] = Int(std::rint(units(j)));
  return true;
}

// Returns false if not all that must be matched can be. `warm`: the prices are nearly optimal.
template <class Int>
bool match_all(MatchingState<Int>& s, bool warm) {
  std::optional<PriceUpdates<Int>> updates;
  // If columns may stay unmatched, the prices of free columns must be 0, which an auction would
  // violate.
  if (s.c.all_matched && !Auction<Int>(s, updates).run(warm)) return false;
  std::vector<int32_t> left = hold_bids(s);
  if (!left.empty() && !s.c.all_matched && !can_match_rows(s)) return false;
  if (!Leftovers<Int>(s, updates, std::move(left)).match()) return false;
  for (size_t j = 0; j < s.c.must.size(); ++j) {
    if (s.c.must[j] && s.row4col[j] == kNone) return false;
  }
  return true;
}

// True if rounding to units changes the cost by at most `part` of the sum of the chosen costs.
template <class Int>
bool is_fine(const MatchingState<Int>& s, double part) {
  if (s.c.exact) return true;
  double sum = 0;
  for (size_t i = 0; i < s.pair.size(); ++i) {
    if (s.pair[i] >= 0) {
      const auto& e = s.c.edges[size_t(s.pair[i])];
      sum += std::fabs(double(e.cost + (s.c.offset.empty() ? Int(0) : s.c.offset[size_t(e.col)])));
    }
    if (s.pair[i] == kStays) sum += std::fabs(double(s.c.stay[i]));
  }
  return double(s.c.terms) * s.c.rounding <= part * sum;
}

template <class T>
class Solver {
 public:
  Solver(const SparseProblem& p, double part) : p_(p), part_(part) {}

  void solve() {
    CanonicalOf<int64_t> canonical;
    CanonicalForm<T, int64_t> form(p_, HUGE_VAL, &canonical);
    if (const Status status = form.read(); status != kOptimal) return write_failure(p_, status);
    if (!form.is_integral()) find_limits(form);
    if (limits_.empty()) {
      if (is_ordinary(form) && AsMatrix<T>(p_).solve(part_)) return;
      if (form.build() == kOptimal) return solve_plain(canonical);
      find_limits(form);  // integer costs do not fit into 64-bit units
    }
    for (size_t k = first_feasible_limit(); k < limits_.size(); ++k) {
      // With k > 0, costs of higher tiers are allowed as well. 64-bit units are then rarely fine
      // enough for the lowest tier.
      if ((k == 0 || form.is_integral()) && solve_below<int64_t>(limits_[k])) return;
      if (solve_below<Wide>(limits_[k])) return;
    }
    if (form.is_integral()) return write_failure(p_, kOverflow);
    solve_below<Wide>(HUGE_VAL);
  }

 private:
  using Wide = __int128;

  // The solver of matrices is less exact for huge and tiny numbers.
  static bool is_ordinary(CanonicalForm<T, int64_t>& form) {
    return form.fits() && form.range().least > 0x1p-900 && form.range().most < 0x1p900;
  }

  void solve_plain(const CanonicalOf<int64_t>& canonical) {
    MatchingState<int64_t> state(canonical);
    const bool warm = canonical.all_matched && start_warm(p_, state);
    if (!match_all(state, warm)) return write_failure(p_, kInfeasible);
    if (is_fine(state, part_)) return write_result<T>(p_, state);
    solve_below<Wide>(HUGE_VAL, &state);
  }

  // Solves the problem without costs of `limit` or more. Returns false if this does not solve the
  // whole problem: the duals do not prove that these costs are unnecessary, or the units are too
  // coarse. `rough`: a solution in 64-bit units, if one is known.
  template <class Int>
  bool solve_below(double limit, const MatchingState<int64_t>* rough = nullptr) {
    constexpr bool kNarrow = sizeof(Int) == 8;
    CanonicalOf<Int> canonical;
    if (!limits_.empty()) canonical.tier = limits_.front();
    CanonicalForm<T, Int> form(p_, limit, &canonical);
    if (form.read() != kOptimal || form.build() != kOptimal) return false;
    MatchingState<Int> state(canonical);
    bool warm = false;
    if (canonical.all_matched) {
      warm = rough ? take_prices(*rough, state) : start_warm(p_, state);
      if (!kNarrow && !warm) warm = start_rough(limit, state);
    }
    const bool solved = match_all(state, warm);
    if (limit < HUGE_VAL && !(solved && form.can_spare(state))) return false;
    if (kNarrow && !is_fine(state, kPartOfTier)) return false;
    if (solved) {
      write_result<T>(p_, state);
    } else {
      write_failure(p_, kInfeasible);
    }
    return true;
  }

  // Sets the prices to those of an auction in 64-bit units, which takes half of the time that one
  // in wide units takes. Returns whether it did.
  template <class Int>
  bool start_rough(double limit, MatchingState<Int>& state) const {
    if constexpr (sizeof(Int) == 8) {
      return false;
    } else {
      CanonicalOf<int64_t> canonical;
      canonical.tier = state.c.tier;
      CanonicalForm<T, int64_t> form(p_, limit, &canonical);
      if (form.read() != kOptimal || form.build() != kOptimal) return false;
      MatchingState<int64_t> rough(canonical);
      std::optional<PriceUpdates<int64_t>> updates;
      return Auction<int64_t>(rough, updates).run(false) && take_prices(rough, state);
    }
  }
  // Returns false if a price is too large. (Start duals may be far larger than any cost.)
  template <class Int>
  static bool take_prices(const MatchingState<int64_t>& rough, MatchingState<Int>& state) {
    const int shift = std::ilogb(state.c.scale) - std::ilogb(rough.c.scale);
    const double most = std::ldexp(1.0, UnitLimits<Int>::kMostOnPathBits - 2 - shift);
    for (const int64_t v : rough.v) {
      if (!(std::fabs(double(v)) < most)) return false;
    }
    for (size_t j = 0; j < rough.v.size(); ++j) {
      state.v[j] = shift < 0 ? Int(rough.v[j]) >> -shift : Int(rough.v[j]) * (Int(1) << shift);
    }
    return true;
  }

  // Finds the limits between tiers of costs, in increasing order (see tiers.h).
  void find_limits(const CanonicalForm<T, int64_t>& form) {
    const CostRange& range = form.range();
    const int width = width_between_tiers(std::min(p_.n, p_.m));
    if (!may_have_tiers(range, width)) return;
    const Exponents found = form.exponents();
    for (double at = found.next_limit(0, range.wanted, width); at < HUGE_VAL;
         at = found.next_limit(at, range.wanted, width)) {
      limits_.push_back(at);
    }
  }

  // The index of the first limit such that pairs with costs below it suffice to match all rows that
  // must be matched.
  size_t first_feasible_limit() const {
    const auto is_too_low = [&](double limit) {
      CanonicalOf<Wide> canonical;
      CanonicalForm<T, Wide> form(p_, limit, &canonical);
      if (form.read() != kOptimal || form.build() != kOptimal) return false;
      return !can_match_rows(MatchingState<Wide>(canonical));
    };
    return size_t(std::partition_point(limits_.begin(), limits_.end(), is_too_low) -
                  limits_.begin());
  }

  const SparseProblem& p_;
  const double part_;
  std::vector<double> limits_;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVER_H_
