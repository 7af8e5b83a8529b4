// Assignments on sparse graphs: an auction for prices if all are matched, bids, then shortest
// augmenting paths and updates of prices for the rows that are left.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_

#include "sparse_assignment/cpu/auction.h"
#include "sparse_assignment/cpu/finish.h"
#include "sparse_assignment/cpu/leftovers.h"

namespace jaxmatch::sparse_assignment {

// Sets the prices to duals as given, if these are moderate.
inline bool start_warm(const SparseProblem& p, MatchingState& s) {
  constexpr double kMost = 0x1p59;
  if (!p.start_dual) return false;
  const auto units = [&](int64_t j) {
    return real_at(p.start_dual, p.result_dtype, j) * s.c.scale;
  };
  for (int64_t j = 0; j < s.c.cols; ++j) {
    if (!(std::fabs(units(j)) < kMost)) return false;
  }
  for (int64_t j = 0; j < s.c.cols; ++j) s.v[size_t(j)] = int64_t(std::rint(units(j)));
  return true;
}

inline bool match_all(const SparseProblem& p, MatchingState& s) {
  // Elsewhere prices of free columns must be 0.
  if (s.c.all_matched) Auction(s).hold(start_warm(p, s));
  if (!Leftovers(s, hold_bids(s)).match()) return false;
  for (size_t j = 0; j < s.c.must.size(); ++j) {
    if (s.c.must[j] && s.row4col[j] == kNone) return false;
  }
  return true;
}

template <class T>
void solve_sparse(const SparseProblem& p) {
  Canonical canonical;
  if (const Status status = CanonicalForm<T>(p, &canonical).build(); status != kOptimal) {
    return write_failure(p, status);
  }
  MatchingState state(canonical);
  if (!match_all(p, state)) return write_failure(p, kInfeasible);
  write_result<T>(p, state);
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_SOLVE_H_
