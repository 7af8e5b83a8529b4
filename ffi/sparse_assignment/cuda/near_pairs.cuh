// Finds the pairs of points within a radius on CUDA, with one warp per row. One launch counts the
// pairs, another one writes them.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_NEAR_PAIRS_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_NEAR_PAIRS_CUH_

#include <cstdint>

#include "common/dtype.h"
#include "sparse_assignment/point_pairs.h"

namespace jaxmatch::sparse_assignment {

// A strip is a cell of a grid over the second and the third coordinate, at least as wide as the
// radius. If its position in the grid is (a, b), its number is a + (b << kStripBits). The points of
// columns are sorted by strip, then by their first coordinate.
constexpr int kStripBits = 15;

template <class T>
struct NearPairs {
  PointPairs<T> points;  // without the radius, which problem_of() sets
  const void* radius;    // [batch]
  Dtype radius_dtype;
  const int32_t* strip_of_row;  // [n] strip of each row's point; negative: the row has no pairs
  const int32_t* strip;         // [m] strips of columns, sorted; columns without pairs are last
  const T* first_coordinate;    // [m] first coordinates of the columns, in the order of `strip`
  const int32_t* col;           // [m] numbers of the columns, in the order of `strip`
  const int32_t* row_ptr;       // [n + 1] where to write the pairs of each row; null: count them
  int64_t capacity;             // number of pairs that fit
  int32_t* count;               // [n] number of pairs of each row, if row_ptr is null
  int32_t* col_ind;             // [capacity]
  T* cost;                      // [capacity]
};

// Problem b of the batch whose first problem is p.
template <class T>
__device__ NearPairs<T> problem_of(NearPairs<T> p, int64_t b) {
  const int64_t n = p.points.n, m = p.points.m;
  p.points.x += b * n * p.points.dims;
  p.points.y += b * m * p.points.dims;
  p.points.radius = p.radius_dtype == Dtype::kF32 ? double(static_cast<const float*>(p.radius)[b])
                                                  : static_cast<const double*>(p.radius)[b];
  p.strip_of_row += b * n;
  p.strip += b * m;
  p.first_coordinate += b * m;
  p.col += b * m;
  if (p.row_ptr) {
    p.row_ptr += b * (n + 1);
    p.col_ind += b * p.capacity;
    p.cost += b * p.capacity;
  } else {
    p.count += b * n;
  }
  return p;
}

// Columns of a strip are candidates if their first coordinate is within `reach` of x. Returns the
// position of the first candidate in `strip`, or with `above` the position after the last one.
// Differences are rounded as in PointPairs::distance(). Rounding is monotone, so bisection finds
// the bound.
template <class T>
__device__ int32_t bound_of(const NearPairs<T>& p, int32_t strip, double x, double reach,
                            bool above) {
  int32_t low = 0, high = int32_t(p.points.m);
  while (low < high) {
    const int32_t middle = low + (high - low) / 2;
    const double apart = double(p.first_coordinate[middle]) - x;
    const bool before = p.strip[middle] < strip ||
                        (p.strip[middle] == strip && (above ? apart <= reach : apart < -reach));
    if (before) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class T>
__device__ void pairs_of_row(const NearPairs<T>& p, int64_t i) {
  constexpr unsigned kAll = 0xffffffffu;
  const int lane = int(threadIdx.x % 32);
  const int axes = p.points.dims < 3 ? int(p.points.dims) : 3;
  const int strips = axes == 1 ? 1 : axes == 2 ? 3 : 9;
  const int32_t own = p.strip_of_row[i];
  int32_t begin = 0, end = 0;
  if (own >= 0 && lane < strips) {
    // A strip at the border of the grid has neighbours outside the grid. No column is in such a
    // strip.
    int32_t strip = own;
    if (axes > 1) strip += lane % 3 - 1;
    if (axes > 2) strip += (lane / 3 - 1) * (1 << kStripBits);
    const double x = double(p.points.x[i * p.points.dims]);
    const double reach = p.points.reach() * (1 + 0x1p-40);
    begin = bound_of(p, strip, x, reach, false);
    end = bound_of(p, strip, x, reach, true);
  }
  const int64_t first = p.row_ptr ? p.row_ptr[i] : 0;
  int64_t found = 0;
  for (int k = 0; k < strips; ++k) {
    const int32_t from = __shfl_sync(kAll, begin, k), to = __shfl_sync(kAll, end, k);
    for (int64_t at = from; at < to; at += 32) {
      const bool is_column = at + lane < to;
      const int32_t j = is_column ? p.col[at + lane] : 0;
      const double distance = is_column ? p.points.distance(i, j) : 0;
      const bool exists = is_column && p.points.within(i, j, distance);
      const unsigned mask = __ballot_sync(kAll, exists);
      const int64_t place = first + found + __popc(mask & ((1u << lane) - 1));
      if (exists && p.row_ptr && place < p.capacity) {
        p.col_ind[place] = j;
        p.cost[place] = T(distance);
      }
      found += __popc(mask);
    }
  }
  if (lane == 0 && !p.row_ptr) p.count[i] = int32_t(found);
}

template <class T>
__global__ void near_pairs_kernel(NearPairs<T> p, int64_t batch) {
  const int64_t warps = int64_t(gridDim.x) * (blockDim.x / 32);
  const int64_t rows = batch * p.points.n;
  int64_t row = int64_t(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32;
  for (; row < rows; row += warps) {
    pairs_of_row(problem_of(p, row / p.points.n), row % p.points.n);
  }
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_NEAR_PAIRS_CUH_
