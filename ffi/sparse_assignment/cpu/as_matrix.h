// Graphs that hold at least half of all pairs of a row and a column are solved as matrices.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_AS_MATRIX_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_AS_MATRIX_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "assignment/cpu/pick.h"
#include "common/cpu/arena.h"
#include "sparse_assignment/cpu/canonical.h"
#include "sparse_assignment/cpu/finish.h"

namespace jaxmatch::sparse_assignment {

template <class T>
class AsMatrix {
 public:
  explicit AsMatrix(const SparseProblem& p) : p_(p), cost_(static_cast<const T*>(p.cost)) {}

  // Returns false if the graph has too few pairs, or if the solver of matrices cannot solve the
  // problem or proves a gap above `part` of the sum of the chosen costs. Results then mean nothing.
  bool solve(double part) {
    const int64_t edges = p_.row_ptr[p_.n], pairs = p_.n * p_.m;
    const bool can_be_matrix = !p_.unmatched_col_cost && takes_unmatched_cost();
    if (!can_be_matrix || pairs == 0 || edges < pairs / 2 || edges > p_.capacity) return false;
    const bool solved = is_complete() ? solve_matrix(cost_, p_.cost_dtype)
                                      : fill() && solve_matrix(matrix_.data(), kFilledDtype);
    return solved && is_fine(part);
  }

 private:
  // Missing pairs cost +inf (-inf in a maximisation), so integers become doubles.
  using Filled = std::conditional_t<(sizeof(T) <= 4 && !std::is_integral_v<T>), float, double>;
  static constexpr Dtype kFilledDtype = sizeof(Filled) == 4 ? Dtype::kF32 : Dtype::kF64;

  // The solver of matrices takes no 16-bit floats here, and rounds 64-bit integers beside floats.
  bool takes_unmatched_cost() const {
    return !p_.unmatched_cost ||
           (size_of(p_.unmatched_dtype) != 2 && p_.unmatched_dtype != Dtype::kS64);
  }
  // Whether `col_ind` lists all columns of each row in order, so that the costs are a matrix.
  bool is_complete() const {
    if (p_.row_ptr[p_.n] != p_.n * p_.m) return false;
    for (int64_t i = 0; i < p_.n; ++i) {
      if (p_.row_ptr[i] != i * p_.m) return false;
      for (int64_t j = 0; j < p_.m; ++j) {
        if (p_.col_ind[i * p_.m + j] != j) return false;
      }
    }
    return true;
  }
  // Returns false if the columns of a row do not increase, or if a cost is not exact as a double.
  bool fill() {
    constexpr int64_t kMostWhole = int64_t{1} << 53;
    const Filled inf = std::numeric_limits<Filled>::infinity(), missing = p_.maximize ? -inf : inf;
    matrix_.assign(size_t(p_.n * p_.m), missing);
    if (p_.row_ptr[0] != 0) return false;
    for (int64_t i = 0; i < p_.n; ++i) {
      const int64_t end = p_.row_ptr[i + 1];
      if (p_.row_ptr[i] > end || end > p_.row_ptr[p_.n]) return false;
      for (int64_t k = p_.row_ptr[i], last = -1; k < end; ++k) {
        const int64_t j = p_.col_ind[k];
        if (j <= last || j >= p_.m) return false;
        last = j;
        if constexpr (std::is_integral_v<T>) {
          if (cost_[k] > kMostWhole || cost_[k] < -kMostWhole) return false;
        }
        matrix_[size_t(i * p_.m + j)] = Filled(as_double(cost_[k]));
      }
    }
    return true;
  }

  bool solve_matrix(const void* cost, Dtype dtype) {
    assignment::AssignmentProblem q{};
    q.cost = cost;
    q.cost_dtype = dtype;
    q.n = p_.n;
    q.m = p_.m;
    q.maximize = p_.maximize;
    q.row_mask = p_.row_mask;
    q.col_mask = p_.col_mask;
    q.unmatched_cost = p_.unmatched_cost;
    q.unmatched_dtype = p_.unmatched_dtype;
    q.start_dual = p_.start_dual;
    q.result_dtype = p_.result_dtype;
    q.col4row = p_.col4row;
    q.row4col = p_.row4col;
    q.value = p_.value;
    q.row_dual = p_.row_dual;
    q.col_dual = p_.col_dual;
    q.gap = p_.gap;
    q.status = p_.status;
    alignas(64) char small[16 << 10];
    ScopedArena arena(small, sizeof small);
    if (!assignment::pick_assignment_solver(std::max(p_.n, p_.m))(q, &arena)) return false;
    if (*p_.status != kOptimal && *p_.status != kInfeasible) return false;
    for (int64_t i = 0; i < p_.n; ++i) p_.edge[i] = edge_of(i, p_.col4row[i]);
    if (*p_.status == kOptimal) write_real(p_.value, p_.result_dtype, 0, total_cost<T>(p_));
    p_.counts[kBids] = p_.counts[kRounds] = 0;
    return true;
  }
  bool is_fine(double part) const {
    if (*p_.status != kOptimal) return true;
    double sum = 0;
    for (int64_t i = 0; i < p_.n; ++i) {
      if (p_.row_mask && !p_.row_mask[i]) continue;
      if (p_.edge[i] >= 0) {
        sum += std::fabs(as_double(cost_[p_.edge[i]]));
      } else if (p_.unmatched_cost) {
        sum += std::fabs(real_at(p_.unmatched_cost, p_.unmatched_dtype, i));
      }
    }
    const double gap = real_at(p_.gap, p_.result_dtype, 0);
    return std::is_integral_v<T> ? gap == 0 : gap <= part * sum;
  }
  int32_t edge_of(int64_t i, int32_t j) const {
    if (j < 0) return kNone;
    const int32_t* const first = p_.col_ind + p_.row_ptr[i];
    return int32_t(std::lower_bound(first, p_.col_ind + p_.row_ptr[i + 1], j) - p_.col_ind);
  }

  const SparseProblem& p_;
  const T* cost_;
  std::vector<Filled> matrix_;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_AS_MATRIX_H_
