// Finds the columns of least cost - price of a row by branch and bound in a tree of boxes.
//
// No bound needs an allowance for rounding. Rounding is monotone, so a sum of rounded terms that
// are each at most as large is at most as large, too, if it is computed by the same operations in
// the same order. The bound of a box is computed like the cost of a pair, from the distances to the
// box.
#ifndef JAXMATCH_NEAREST_CPU_SEARCH_H_
#define JAXMATCH_NEAREST_CPU_SEARCH_H_

#include <algorithm>
#include <cfloat>
#include <cmath>
#include <cstdint>

#include "nearest/costs.h"
#include "nearest/cpu/tree.h"

namespace jaxmatch::nearest {

// Real: of coordinates and costs. Points of fewer coordinates than kDims have zeros.
template <class Real, Metric kMetric, int kDims>
class Search {
 public:
  Search(const NearestProblem& p, const Tree<kDims>& tree) : p_(p), tree_(tree) {}

  // Finds the columns of row i, and writes them. Returns the number of nodes and leaves it visited.
  int64_t solve(int64_t i) {
    row_ = i;
    found_.count = 0;
    worst_ = DBL_MAX;
    worst_hash_ = INT32_MAX;
    work_ = 0;
    bool may_find = true;
    for (int a = 0; a < kDims; ++a) {
      at_[a] = a < p_.dims ? double(x()[i * p_.dims + a]) : 0;
      may_find &= kMetric == Metric::kCosine ? !std::isnan(at_[a]) : std::isfinite(at_[a]);
    }
    for (int64_t s = 0; s < p_.known; ++s) {
      const int32_t j = p_.near[i * p_.known + s];
      if (uint32_t(j) < uint32_t(p_.m)) include(reduced_cost(p_, i, j), j);
    }
    if (may_find) descend();
    write();
    return work_;
  }

 private:
  struct Node {
    double bound;
    int32_t number, level;
  };

  const Real* x() const { return static_cast<const Real*>(p_.x); }

  // The cost that follows from the sum over the coordinates.
  static double finish(double sum) {
    if (kMetric == Metric::kEuclidean) sum = std::sqrt(sum);
    if (kMetric == Metric::kCosine) sum = 1 - sum;
    return double(Real(sum));
  }

  void include(double x, int32_t j) {
    if (!(x <= worst_)) return;
    // With many columns alike, most end here.
    if (x == worst_ && assignment::pair_hash(uint32_t(row_), uint32_t(j)) > worst_hash_) return;
    for (int s = 0; s < found_.count; ++s) {
      if (found_.col[s] == j) return;  // was named near
    }
    found_.insert(row_, x, j, int(p_.k));
    if (found_.count < p_.k) return;
    worst_ = found_.reduced[p_.k - 1];
    worst_hash_ = assignment::pair_hash(uint32_t(row_), uint32_t(found_.col[p_.k - 1]));
  }

  void descend() {
    Node open[Tree<kDims>::kMostLevels * kFan];
    int count = push(open, 0, tree_.levels() - 1, 0);
    while (count > 0) {
      const Node node = open[--count];
      if (node.bound > worst_) continue;
      if (node.level == 0) {
        scan(node.number);
      } else {
        count = push(open, count, node.level - 1, node.number);
      }
    }
  }

  // Appends those of the siblings number g that may hold a column to take, the best one last.
  // Returns the number of open nodes.
  int push(Node* open, int count, int level, int64_t g) {
    const Siblings<kDims>& nodes = tree_.siblings(level, g);
    ++work_;
    double bound[kFan];
    for (int c = 0; c < kFan; ++c) bound[c] = 0;
    for (int a = 0; a < kDims; ++a) {
      for (int c = 0; c < kFan; ++c) {
        if (kMetric == Metric::kCosine) {
          bound[c] += std::max(at_[a] * nodes.least[a][c], at_[a] * nodes.most[a][c]);
        } else {
          const double before = nodes.least[a][c] - at_[a], after = at_[a] - nodes.most[a][c];
          const double apart = std::max(std::max(before, after), 0.0);
          bound[c] += kMetric == Metric::kL1 ? apart : apart * apart;
        }
      }
    }
    for (int c = 0; c < kFan; ++c) {
      // The product of 0 and infinity, or infinities of both signs, leave no bound.
      const bool is_number = kMetric != Metric::kCosine || bound[c] == bound[c];
      bound[c] = (is_number ? finish(bound[c]) : -HUGE_VAL) - nodes.price[c];
    }
    const int first = count;
    for (int c = 0; c < kFan; ++c) {
      if (!(bound[c] <= worst_)) continue;
      int at = count++;
      for (; at > first && open[at - 1].bound < bound[c]; --at) open[at] = open[at - 1];
      open[at] = {bound[c], int32_t(g * kFan + c), level};
    }
    return count;
  }

  void scan(int64_t v) {
    const Leaf<kDims>& leaf = tree_.leaf(v);
    ++work_;
    double x[kLeaf];
    for (int s = 0; s < kLeaf; ++s) x[s] = 0;
    for (int a = 0; a < kDims; ++a) {
      for (int s = 0; s < kLeaf; ++s) {
        const double apart = at_[a] - leaf.at[a][s];
        x[s] += kMetric == Metric::kL1       ? std::fabs(apart)
                : kMetric == Metric::kCosine ? at_[a] * leaf.at[a][s]
                                             : apart * apart;
      }
    }
    for (int s = 0; s < kLeaf; ++s) x[s] = finish(x[s]) - leaf.price[s];
    for (int s = 0; s < kLeaf; ++s) {
      if (x[s] <= worst_) include(x[s], int32_t(v * kLeaf + s));
    }
  }

  void write() const {
    const int64_t i = row_;
    int32_t col = 0;  // is written if there are fewer columns than k, or no finite cost
    for (int64_t s = 0; s < p_.k; ++s) {
      if (s < found_.count) col = found_.col[s];
      p_.col[i * p_.k + s] = col;
      write_real(p_.cost, p_.dtype, i * p_.k + s, cost_of(p_, i, col));
      if (s == 0) write_real(p_.reduced, p_.price_dtype, i, reduced_cost(p_, i, col));
    }
    const int32_t known = p_.near[i * p_.known];
    const bool is_column = uint32_t(known) < uint32_t(p_.m);
    write_real(p_.known_cost, p_.dtype, i, is_column ? cost_of(p_, i, known) : HUGE_VAL);
  }

  const NearestProblem& p_;
  const Tree<kDims>& tree_;
  int64_t row_ = 0, work_ = 0;
  double at_[kDims];  // of the row
  double worst_ = 0;  // a column that costs more than this, less its price, is not among the best k
  int32_t worst_hash_ = 0;  // of the worst of the best k, if k columns were found
  Found found_;
};

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_NEAREST_CPU_SEARCH_H_
