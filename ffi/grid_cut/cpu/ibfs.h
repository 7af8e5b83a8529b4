// Maximum flow on a grid by incremental breadth-first search (Goldberg, Hed, Kaplan, Tarjan and
// Werneck, "Maximum flows by incremental breadth-first search", ESA 2011), with implicit adjacency.
//
// The source forest is rooted at the cells with excess (more capacity from the source than to the
// sink), the sink forest at the cells with a deficit. Both grow level by level. Where they touch,
// flow is augmented along the path between two roots. Cells cut off from their root (orphans) take
// the possible parent with the lowest level. If no neighbour can be their parent, they leave the
// forest.
//
// Invariants between two augmentations:
// - The label of a cell in a forest is its level: zero for roots, else one more than its parent's.
// - The forest's level is the level of the cells that it scans now or next. No label exceeds it by
//   more than one, and labels never fall.
// - The residual arcs out of a scanned cell of the source forest lead to cells of the same forest
//   whose labels exceed the label of the scanned cell by at most one. In the sink forest, this
//   holds for the tails of residual arcs into a scanned cell.
//
// Termination, for any capacities: all numbers are integers, none overflows, and each augmentation
// carries at least one unit. Capacities are clipped at 2^60, and the net flow in either direction
// never exceeds the capacity of that direction. So residual capacities are at most 2^61. A cell's
// excess or deficit never grows.
#ifndef JAXMATCH_GRID_CUT_CPU_IBFS_H_
#define JAXMATCH_GRID_CUT_CPU_IBFS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "common/cpu/poll.h"
#include "grid_cut/cpu/memory.h"
#include "grid_cut/cpu/neighbours.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

// Thrown by a search that exceeds its limit on steps.
struct TooManySteps {};

// T is the type of excess and flow. `excess` is the capacity from the source minus the capacity to
// the sink for each cell, in the units of `capacities`. Of the shape in `capacities`, only the
// number of cells matters.
template <int kArcs, class T>
class GridSearch {
 public:
  GridSearch(const GridCapacities<T>& capacities, const Neighbours<kArcs>& neighbours, T* excess,
             GridMemory& memory)
      : capacities_(capacities),
        n_(capacities.shape.cells()),
        excess_(excess),
        exists_(neighbours.exists),
        node_(memory.take<uint8_t>(n_)),
        label_(memory.take<int32_t>(n_)),
        flow_(memory.take<T>(n_ * kHalf)) {
    std::copy_n(neighbours.offset, kArcs, offset_);
  }

  // Bytes of GridMemory that a search of n cells and its neighbours take.
  static int64_t bytes(int64_t n) {
    return GridMemory::bytes_for<DirectionBits<kArcs>>(n) + GridMemory::bytes_for<uint8_t>(n) +
           GridMemory::bytes_for<int32_t>(n) + GridMemory::bytes_for<T>(n * kHalf);
  }

  // Throws TooManySteps after about `most_steps` looks at arcs.
  void run(int64_t most_steps = INT64_MAX) {
    steps_left_ = most_steps;
    plant_roots();
    Forest &source = forest_[kSource], &sink = forest_[kSink];
    while (!source.now.empty() && !sink.now.empty()) {
      if (source.now.size() <= sink.now.size()) {
        grow<kSource>();
      } else {
        grow<kSink>();
      }
    }
    // One forest cannot grow any further, so the flow is maximum. The source forest grows until it
    // holds all cells reachable from the source, which are the source side of the cut.
    while (!source.now.empty()) grow<kSource>();
  }
  // The value of the flow modulo 2^64. If capacities were floats, it may exceed 2^64 units, but
  // then it is not used.
  uint64_t flow_value() const { return value_; }
  // Sets side[i] for the cells first .. last - 1.
  void write_sides(int64_t first, int64_t last, bool* side) const {
    for (int64_t i = first; i < last; ++i) side[i] = tree(i) == kSource;
  }
  // [arcs / 2, cells], net flow in directions k < arcs / 2. Initially zero. Before run(), the
  // caller may set it to any flow within the capacities that it has subtracted from the excess.
  T* flow() { return flow_; }
  const T* flow() const { return flow_; }

 private:
  static constexpr int kHalf = kArcs / 2;
  static constexpr int64_t kMostCapacity = int64_t{1} << 60;
  // An entry of node_ has the cell's forest in its lower two bits and the direction of the parent
  // above them. Two numbers that are no directions stand for cells without a parent.
  enum Tree : uint8_t { kFree = 0, kSource = 1, kSink = 2 };
  static constexpr int kRoot = kArcs > 8 ? kArcs : 8, kOrphan = kRoot + 1;

  struct Forest {
    int32_t level = 0;               // level of the cells in `now`; all lower levels are scanned
    std::vector<int32_t> now, next;  // cells of this level and of the next; some may have moved
  };

  uint8_t tree(int64_t i) const { return node_[i] & 3; }
  int parent(int64_t i) const { return node_[i] >> 2; }
  void set(int64_t i, uint8_t tree, int parent) { node_[i] = uint8_t(tree | parent << 2); }
  bool has_arc(int64_t i, int k) const { return exists_[i] >> k & 1; }

  int64_t residual(int64_t i, int k) const {
    const int64_t other = i + offset_[k];
    int64_t c = capacities_.template arc<kArcs>(i, other, k);
    if constexpr (sizeof(T) == 8) c = std::min(c, kMostCapacity);
    return k < kHalf ? c - flow_[int64_t(k) * n_ + i] : c + flow_[int64_t(k - kHalf) * n_ + other];
  }
  void push(int64_t i, int k, int64_t d) {
    if (k < kHalf) {
      flow_[int64_t(k) * n_ + i] += T(d);
    } else {
      flow_[int64_t(k - kHalf) * n_ + i + offset_[k]] -= T(d);
    }
  }
  // Residual capacity of the arc between i and its neighbour in direction k. outward() means away
  // from i in the source forest and towards i in the sink forest; inward() is the opposite
  // direction.
  template <Tree kTree>
  int64_t outward(int64_t i, int k) const {
    return kTree == kSource ? residual(i, k) : residual(i + offset_[k], opposite<kArcs>(k));
  }
  template <Tree kTree>
  int64_t inward(int64_t i, int k) const {
    return kTree == kSource ? residual(i + offset_[k], opposite<kArcs>(k)) : residual(i, k);
  }

  void plant_roots() {
    for (int64_t i = 0; i < n_; ++i) {
      const T e = excess_[i];
      node_[i] = uint8_t((e > 0) * (kSource | kRoot << 2) + (e < 0) * (kSink | kRoot << 2));
    }
    // A root whose neighbours are all roots of its own forest need not be scanned. At the end of a
    // row, a root is also compared with cells that are not its neighbours. At worst it is then
    // scanned in vain.
    int64_t reach = 0;
    for (int k = 0; k < kHalf; ++k) reach = std::max<int64_t>(reach, std::abs(offset_[k]));
    reach = std::min(reach, n_);
    constexpr int64_t kBlock = 1024;
    uint8_t differs[kBlock];
    for (int64_t first = 0; first < n_; first += kBlock) {
      const int64_t count = std::min(kBlock, n_ - first);
      if (first < reach || first + count > n_ - reach) {
        std::memset(differs, 1, kBlock);
      } else {
        const uint8_t* const at = &node_[first];
        std::memset(differs, 0, size_t(count));
        for (int k = 0; k < kArcs; ++k) {
          const uint8_t* const other = at + offset_[k];
          for (int64_t i = 0; i < count; ++i) differs[i] |= at[i] ^ other[i];
        }
      }
      for (int64_t i = 0; i < count; i += 8) {
        uint64_t any = 0;
        std::memcpy(&any, differs + i, 8);
        for (int64_t j = i; any != 0 && j < std::min(i + 8, count); ++j) {
          if (differs[j] && node_[first + j]) {
            forest_[tree(first + j)].now.push_back(int32_t(first + j));
          }
        }
      }
    }
  }

  // Scans all cells of the forest's current level.
  template <Tree kTree>
  void grow() {
    Forest& forest = forest_[kTree];
    for (size_t at = 0; at < forest.now.size(); ++at) scan<kTree>(forest.now[at]);
    forest.now.swap(forest.next);
    forest.next.clear();
    ++forest.level;
  }
  template <Tree kTree>
  void scan(int64_t i) {
    Forest& forest = forest_[kTree];
    const auto is_here = [&] { return tree(i) == kTree && label_[i] == forest.level; };
    if (!is_here()) return;  // the cell has changed its level or forest since it was listed
    count_steps(kArcs);
    for (int k = 0; k < kArcs; ++k) {
      if (!has_arc(i, k)) continue;
      const int64_t j = i + offset_[k];
      while (tree(j) != kTree && outward<kTree>(i, k) > 0) {
        if (tree(j) == kFree) {
          set(j, kTree, opposite<kArcs>(k));
          label_[j] = forest.level + 1;
          forest.next.push_back(int32_t(j));
          break;
        }
        if (kTree == kSource) {
          augment(i, k);
        } else {
          augment(j, opposite<kArcs>(k));
        }
        if (!is_here()) return;
      }
    }
  }

  // Augments along the path from the root of `from` to the root of its neighbour in direction k,
  // and repairs the forests.
  void augment(int64_t from, int k) {
    const int64_t to = from + offset_[k];
    int64_t d = residual(from, k), top = from, bottom = to;
    for (int p; (p = parent(top)) != kRoot; top += offset_[p]) {
      d = std::min(d, inward<kSource>(top, p));
    }
    for (int p; (p = parent(bottom)) != kRoot; bottom += offset_[p]) {
      d = std::min(d, inward<kSink>(bottom, p));
    }
    d = std::min({d, int64_t(excess_[top]), -int64_t(excess_[bottom])});
    int64_t length = 1;
    value_ += uint64_t(d);
    push(from, k, d);
    for (int64_t i = from; i != top; ++length) {
      const int p = parent(i);
      const int64_t above = i + offset_[p];
      push(above, opposite<kArcs>(p), d);
      if (inward<kSource>(i, p) == 0) set_orphan(i);
      i = above;
    }
    if ((excess_[top] -= T(d)) == 0) set_orphan(top);
    std::reverse(orphans_.begin(), orphans_.end());  // lower labels first
    adopt_all<kSource>();
    for (int64_t i = to; i != bottom; ++length) {
      const int p = parent(i);
      push(i, p, d);
      if (inward<kSink>(i, p) == 0) set_orphan(i);
      i += offset_[p];
    }
    if ((excess_[bottom] += T(d)) == 0) set_orphan(bottom);
    std::reverse(orphans_.begin(), orphans_.end());
    adopt_all<kSink>();
    count_steps(4 * length);
  }
  void count_steps(int64_t steps) {
    poll_.after(4 * steps);
    steps_left_ -= steps;
    if (steps_left_ < 0) throw TooManySteps{};
  }

  void set_orphan(int64_t i) {
    set(i, tree(i), kOrphan);
    orphans_.push_back(int32_t(i));
  }
  template <Tree kTree>
  void adopt_all() {
    for (size_t at = 0; at < orphans_.size(); ++at) adopt<kTree>(orphans_[at]);
    orphans_.clear();
  }
  // Finds a new parent for an orphan, or removes the orphan from the forest. The new parent may be
  // an orphan itself. A parent's label is lower than its child's, so no cycle arises. If the parent
  // later changes its label or leaves the forest, its child becomes an orphan again.
  template <Tree kTree>
  void adopt(int64_t i) {
    count_steps(kArcs);
    Forest& forest = forest_[kTree];
    const int32_t old = label_[i];
    int32_t lowest = forest.level + 1;
    int best = kOrphan;
    for (int k = 0; k < kArcs; ++k) {
      if (!has_arc(i, k)) continue;
      const int64_t j = i + offset_[k];
      if (tree(j) != kTree || label_[j] >= lowest || inward<kTree>(i, k) == 0) continue;
      lowest = label_[j];
      best = k;
      if (lowest < old) break;
    }
    if (best != kOrphan) {
      set(i, kTree, best);
      if (lowest < old) return;
      label_[i] = lowest + 1;
      if (lowest == forest.level) forest.next.push_back(int32_t(i));
    } else {
      set(i, kFree, kOrphan);
    }
    for (int k = 0; k < kArcs; ++k) {
      if (!has_arc(i, k)) continue;
      const int64_t j = i + offset_[k];
      if (node_[j] == uint8_t(kTree | opposite<kArcs>(k) << 2)) set_orphan(j);
    }
  }

  const GridCapacities<T> capacities_;
  const int64_t n_;
  T* const excess_;
  int32_t offset_[kArcs];                     // see Neighbours
  const DirectionBits<kArcs>* const exists_;  // see Neighbours
  uint8_t* const node_;
  int32_t* const label_;
  T* const flow_;     // see flow()
  Forest forest_[3];  // indexed by Tree
  std::vector<int32_t> orphans_;
  uint64_t value_ = 0;
  int64_t steps_left_ = INT64_MAX;
  Poll poll_;
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CPU_IBFS_H_
