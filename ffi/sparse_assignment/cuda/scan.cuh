// Scans of the edges of a vertex by some lanes of a warp.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_SCAN_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_SCAN_CUH_

#include "assignment/pair_hash.h"
#include "sparse_assignment/cuda/costs.cuh"

namespace jaxmatch::sparse_assignment {

constexpr Price kFar = Price(1) << 126;
// The price, negated, of a right vertex that does not exist.
constexpr Price kNowhere = Price(1) << 125;
// Reduced costs of edges between vertices that exist are below this.
constexpr Price kMostReduced = Price(1) << 124;

__device__ inline Price shuffle_xor(Price x, int step) {
  const uint64_t low = __shfl_xor_sync(kAllLanes, uint64_t(x), step);
  const uint64_t high = __shfl_xor_sync(kAllLanes, uint64_t(x >> 64), step);
  return Price((unsigned __int128)(high) << 64 | low);
}

// The two least reduced costs of a left vertex, and the right vertex of the first; on equal ones
// the first.
struct TwoLeast {
  Price least = kFar, next = kFar;
  int32_t right = INT32_MAX;

  __device__ void include(Price x, int32_t y) {
    const bool better = x < least || (x == least && y < right);
    const Price other = better ? least : x;
    next = other < next ? other : next;
    least = better ? x : least;
    right = better ? y : right;
  }
  // Of `width` consecutive lanes; each gets it. Called by all lanes.
  __device__ void merge(int width) {
#pragma unroll 1
    for (int step = width / 2; step > 0; step /= 2) {
      const Price x = shuffle_xor(least, step), second = shuffle_xor(next, step);
      const int32_t y = __shfl_xor_sync(kAllLanes, right, step);
      include(x, y);
      next = second < next ? second : next;
    }
  }
};

__device__ inline Price least_of_group(Price x, int width) {
#pragma unroll 1
  for (int step = width / 2; step > 0; step /= 2) {
    const Price other = shuffle_xor(x, step);
    x = other < x ? other : x;
  }
  return x;
}

struct Graph {
  const SparseProblem& p;
  const Workspace& w;
  const Scaling c;
  int epsilon = kLastEpsilon;  // the power of two

  __device__ bool is_row(int32_t x) const { return x < p.n; }
  // The right vertex with which a left one that stays is matched.
  __device__ int32_t copy_of(int32_t x) const {
    return is_row(x) ? x + int32_t(p.m) : x - int32_t(p.n);
  }
  __device__ Price stay_cost(int32_t x) const {
    return w.stay[x] == kMustMatch ? c.big() : Price(w.stay[x]) << c.shift;
  }
  // Perturbed by less than epsilon: else vertices that are alike would all bid for the same one.
  __device__ Price perturbation(int32_t x, int32_t y) const {
    return Price(assignment::pair_hash(uint32_t(x), uint32_t(y)) >> 16) << (epsilon - kLastEpsilon);
  }

  // f(right vertex, cost, edge) for the lane's share of the edges of x.
  template <class F>
  __device__ void each_edge(int32_t x, int lane, int width, const F& f) const {
    if (is_row(x)) {
      const int64_t last = p.row_ptr[x + 1];
#pragma unroll 1
      for (int64_t k = p.row_ptr[x] + lane; k < last; k += width) {
        const int64_t units = w.units[k];
        const int32_t y = p.col_ind[k];
        if (units != kForbidden) f(y, Price(units) << c.shift, int32_t(k));
      }
    } else {
      const int32_t j = x - int32_t(p.n);
      const int64_t last = p.col_ptr[j + 1];
#pragma unroll 1
      for (int64_t k = p.col_ptr[j] + lane; k < last; k += width) {
        f(p.row_ind[k] + int32_t(p.m), Price(0), kNone);
      }
    }
    if (c.doubled && lane == 0) f(copy_of(x), stay_cost(x), kNone);
  }

  // Every lane of the group gets the result. Called by all lanes of a warp.
  __device__ TwoLeast two_least(int32_t x, int lane, int width, bool exists) const {
    TwoLeast own;
    if (exists) {
      each_edge(x, lane, width, [&](int32_t y, Price cost, int32_t) {
        own.include(cost + perturbation(x, y) - w.price[y], y);
      });
    }
    own.merge(width);
    return own;
  }
  // The least reduced cost, and that of edges to `mate`.
  __device__ void least_and_own(int32_t x, int32_t mate, int lane, int width, bool exists,
                                Price& least, Price& own) const {
    least = own = kFar;
    if (exists) {
      each_edge(x, lane, width, [&](int32_t y, Price cost, int32_t) {
        const Price reduced = cost + perturbation(x, y) - w.price[y];
        least = reduced < least ? reduced : least;
        if (y == mate) own = reduced < own ? reduced : own;
      });
    }
    least = least_of_group(least, width);
    own = least_of_group(own, width);
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_SCAN_CUH_
