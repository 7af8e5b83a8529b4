// Finds the pairs of points within a radius by a grid of cells.
#ifndef JAXMATCH_SPARSE_ASSIGNMENT_CPU_NEAR_PAIRS_H_
#define JAXMATCH_SPARSE_ASSIGNMENT_CPU_NEAR_PAIRS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "sparse_assignment/point_pairs.h"

namespace jaxmatch::sparse_assignment {

// A grid over the first coordinates (at most three). Cells are at least as wide as the radius, and
// the points of columns are sorted by cell. Cells that are neighbours in the first coordinate have
// consecutive keys.
template <class T>
class Grid {
 public:
  // Points must be finite.
  explicit Grid(const PointPairs<T>& p) : p_(p), axes_(int(std::min<int64_t>(p.dims, kAxes))) {
    for (int a = 0; a < axes_; ++a) {
      double least = INFINITY, most = -INFINITY;
      for (int64_t j = 0; j < p.m; ++j) {
        if (!p.has_col(j)) continue;
        const double at = p.y[j * p.dims + a];
        least = std::min(least, at);
        most = std::max(most, at);
      }
      least_[a] = least;
      // Slightly wider than the radius requires, because the quotients in cell_of() are rounded.
      width_[a] = std::max({p.reach() * (1 + 0x1p-40), (most - least) / kMostCells, 1e-300});
    }
    for (int64_t j = 0; j < p.m; ++j) {
      if (p.has_col(j)) cells_.emplace_back(key_of(p.y + j * p.dims), int32_t(j));
    }
    std::sort(cells_.begin(), cells_.end());
  }

  // Appends the columns within the radius of row i, in increasing order, with their distances.
  void pairs_of(int64_t i, std::vector<int32_t>* cols, std::vector<T>* costs) {
    found_.clear();
    int64_t cell[kAxes] = {0, 0, 0};
    for (int a = 0; a < axes_; ++a) cell[a] = cell_of(a, p_.x[i * p_.dims + a]);
    const int64_t ys = axes_ > 1 ? 1 : 0, zs = axes_ > 2 ? 1 : 0;
    for (int64_t z = cell[2] - zs; z <= cell[2] + zs; ++z) {
      for (int64_t y = cell[1] - ys; y <= cell[1] + ys; ++y) scan(i, cell[0], y, z);
    }
    std::sort(found_.begin(), found_.end());
    for (const auto& [j, cost] : found_) {
      cols->push_back(j);
      costs->push_back(cost);
    }
  }

 private:
  static constexpr int kAxes = 3, kBits = 21;
  static constexpr double kMostCells = double(1 << 20);

  // The number, along one axis, of the cell that contains the coordinate `at`. Cells that hold
  // columns are numbered from 2 on. The numbers of other points are limited to the range from 0 to
  // kMostCells + 4, so that a point far outside the grid has no column in a neighbouring cell.
  int64_t cell_of(int axis, double at) const {
    const double cell = std::floor((at - least_[axis]) / width_[axis]);
    return 2 + int64_t(std::max(-2.0, std::min(cell, kMostCells + 2)));
  }
  static int64_t key(int64_t x, int64_t y, int64_t z) { return (z << kBits | y) << kBits | x; }
  int64_t key_of(const T* point) const {
    int64_t cell[kAxes] = {0, 0, 0};
    for (int a = 0; a < axes_; ++a) cell[a] = cell_of(a, point[a]);
    return key(cell[0], cell[1], cell[2]);
  }

  void scan(int64_t i, int64_t x, int64_t y, int64_t z) {
    if (y < 0 || z < 0) return;
    const int64_t last = key(x + 1, y, z);
    auto at =
        std::lower_bound(cells_.begin(), cells_.end(),
                         std::pair<int64_t, int32_t>(key(std::max<int64_t>(x - 1, 0), y, z), -1));
    for (; at != cells_.end() && at->first <= last; ++at) {
      const double distance = p_.distance(i, at->second);
      if (p_.within(i, at->second, distance)) found_.emplace_back(at->second, T(distance));
    }
  }

  const PointPairs<T> p_;
  const int axes_;
  double least_[kAxes], width_[kAxes];
  std::vector<std::pair<int64_t, int32_t>> cells_;  // the cell's key and the column, sorted
  std::vector<std::pair<int32_t, T>> found_;
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_SPARSE_ASSIGNMENT_CPU_NEAR_PAIRS_H_
