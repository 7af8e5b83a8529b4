// A tree of boxes over the columns, in the order in which they are given: neighbours in this order
// share a leaf. Points that are sorted along a space-filling curve give small boxes.
#ifndef JAXMATCH_NEAREST_CPU_TREE_H_
#define JAXMATCH_NEAREST_CPU_TREE_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/cpu/thread_pool.h"
#include "common/reals.h"
#include "nearest/problem.h"

namespace jaxmatch::nearest {

constexpr int kLeaf = 8;  // columns of a leaf
constexpr int kFan = 8;   // children of a node

// The columns of a leaf. Missing columns at the end of the last leaf have the price -inf.
template <int kDims>
struct Leaf {
  double at[kDims][kLeaf], price[kLeaf];
};

// Sibling nodes: for each its box and the largest of its prices. Missing nodes have an empty box
// and the price -inf. NaN has no place in a box, as nothing is found at such a coordinate.
template <int kDims>
struct Siblings {
  double least[kDims][kFan], most[kDims][kFan], price[kFan];

  Siblings() {
    for (int c = 0; c < kFan; ++c) {
      for (int a = 0; a < kDims; ++a) {
        least[a][c] = HUGE_VAL;
        most[a][c] = -HUGE_VAL;
      }
      price[c] = -HUGE_VAL;
    }
  }
  void include(int c, const Leaf<kDims>& leaf, int64_t count) {
    for (int s = 0; s < count; ++s) {
      for (int a = 0; a < kDims; ++a) {
        least[a][c] = leaf.at[a][s] < least[a][c] ? leaf.at[a][s] : least[a][c];
        most[a][c] = leaf.at[a][s] > most[a][c] ? leaf.at[a][s] : most[a][c];
      }
      price[c] = leaf.price[s] > price[c] ? leaf.price[s] : price[c];
    }
  }
  void include(int c, const Siblings& children) {
    for (int s = 0; s < kFan; ++s) {
      for (int a = 0; a < kDims; ++a) {
        least[a][c] = std::min(least[a][c], children.least[a][s]);
        most[a][c] = std::max(most[a][c], children.most[a][s]);
      }
      price[c] = std::max(price[c], children.price[s]);
    }
  }
};

// Nodes are numbered from left to right on each level. The children of node v are the siblings
// number v of the level below, or leaf v on level 0.
template <int kDims>
class Tree {
 public:
  static constexpr int kMostLevels = 12;  // 8^12 nodes

  template <class Pool>
  Tree(Pool& pool, const NearestProblem& p) : p_(p) {
    leaves_.resize(size_t(parts(p.m, kLeaf)));
    int64_t groups = 0;
    for (int64_t nodes = int64_t(leaves_.size());; nodes = parts(nodes, kFan)) {
      first_[levels_++] = groups;
      groups += parts(nodes, kFan);
      if (nodes <= kFan) break;
    }
    first_[levels_] = groups;
    siblings_.resize(size_t(groups));
    for_each_range(pool, size_of_level(0), 500, [&](int64_t first, int64_t last) {
      for (int64_t g = first; g < last; ++g) fill(g);
    });
    for (int level = 1; level < levels_; ++level) {
      for_each_range(pool, size_of_level(level), 200, [&](int64_t first, int64_t last) {
        for (int64_t g = first; g < last; ++g) gather(level, g);
      });
    }
  }
  int levels() const { return levels_; }
  const Siblings<kDims>& siblings(int level, int64_t g) const {
    return siblings_[size_t(first_[level] + g)];
  }
  const Leaf<kDims>& leaf(int64_t v) const { return leaves_[size_t(v)]; }

 private:
  static int64_t parts(int64_t count, int64_t of) { return (count + of - 1) / of; }
  int64_t size_of_level(int level) const { return first_[level + 1] - first_[level]; }
  Siblings<kDims>& siblings_at(int level, int64_t g) {
    return siblings_[size_t(first_[level] + g)];
  }

  void fill(int64_t g) {
    for (int c = 0; c < kFan && g * kFan + c < int64_t(leaves_.size()); ++c) {
      Leaf<kDims>& leaf = leaves_[size_t(g * kFan + c)];
      const int64_t first = (g * kFan + c) * kLeaf, count = std::min<int64_t>(kLeaf, p_.m - first);
      for (int s = 0; s < kLeaf; ++s) {
        for (int a = 0; a < kDims; ++a) {
          const bool is_there = s < count && a < p_.dims;
          leaf.at[a][s] = is_there ? read_real(p_.y, p_.dtype, (first + s) * p_.dims + a) : 0;
        }
        leaf.price[s] = s < count ? read_real(p_.price, p_.price_dtype, first + s) : -HUGE_VAL;
      }
      siblings_at(0, g).include(c, leaf, count);
    }
  }
  void gather(int level, int64_t g) {
    for (int c = 0; c < kFan && g * kFan + c < size_of_level(level - 1); ++c) {
      siblings_at(level, g).include(c, siblings(level - 1, g * kFan + c));
    }
  }

  const NearestProblem& p_;
  std::vector<Leaf<kDims>> leaves_;
  std::vector<Siblings<kDims>> siblings_;  // all levels, from `first_` on
  int64_t first_[kMostLevels + 1];
  int levels_ = 0;
};

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_NEAREST_CPU_TREE_H_
