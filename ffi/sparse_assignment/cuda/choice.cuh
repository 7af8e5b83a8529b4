// The two cheapest choices of a row, which lanes of a warp find together.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_CHOICE_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_CHOICE_CUH_

#include "sparse_assignment/cuda/canonical.cuh"

namespace jaxmatch::sparse_assignment {

// Values of `pair` that are not edges: a row not matched yet, and a row left unmatched at its cost.
constexpr int32_t kFree = -1, kStays = INT32_MAX;

// The two cheapest choices of a row, each an edge or kStays. Among ties, the edge with the lowest
// index comes first.
struct Choice {
  int64_t least = kNever, next = kNever;
  int32_t edge = kFree, other = kFree;  // choices with costs `least` and `next`

  __device__ void include(int64_t x, int32_t e) {
    if (x < least || (x == least && e < edge)) {
      next = least;
      other = edge;
      least = x;
      edge = e;
    } else if (x < next || (x == next && e < other)) {
      next = x;
      other = e;
    }
  }
  // Merges the choices of `width` consecutive lanes. Each of these lanes gets the result. All lanes
  // of a warp must call it.
  __device__ void merge(int width) {
#pragma unroll 1
    for (int step = width / 2; step > 0; step /= 2) {
      const int64_t x = __shfl_xor_sync(kAllLanes, least, step);
      const int64_t y = __shfl_xor_sync(kAllLanes, next, step);
      const int32_t of_x = __shfl_xor_sync(kAllLanes, edge, step);
      const int32_t of_y = __shfl_xor_sync(kAllLanes, other, step);
      if (of_x != kFree) include(x, of_x);
      if (of_y != kFree) include(y, of_y);
    }
  }
  // True if a bid on `edge` lowers the price of its column.
  __device__ bool drops() const { return least < next && next != kNever; }
};

// Calls f(edge, column, cost - price) for this lane's share of the allowed edges of row i.
template <class F>
__device__ void each_edge(const Canonical& c, const Workspace& w, int32_t i, int lane, int width,
                          const F& f) {
  each_edge_of(c, i, lane, width, [&](int32_t k) {
    const int64_t cost = w.cost[k];
    const int32_t j = c.col[k];
    if (cost != kNever) f(k, j, cost - w.price[j]);
  });
}

// Atomic minimum of nonnegative numbers. Returns the old value.
__device__ inline uint64_t least_at(int64_t* at, int64_t x) {
  return atomic_min(reinterpret_cast<uint64_t*>(at), uint64_t(x));
}

// Lists the free rows in w.list[0], in increasing order. Returns their number.
template <class Team>
__device__ int32_t list_free(const Team& team, const Canonical& c, const Workspace& w) {
  return compact(
      team, c.rows, w.of_warps, w.list[0], [&](int64_t i) { return w.pair[i] == kFree; },
      [](int64_t i) { return int32_t(i); });
}

// Finds the two cheapest choices of row i with `width` lanes, which all get the result. All lanes
// of a warp must call it.
__device__ inline Choice best_of(const Canonical& c, const Workspace& w, int32_t i, int lane,
                                 int width, bool exists) {
  Choice own;
  if (exists) {
    each_edge(c, w, i, lane, width, [&](int32_t k, int32_t, int64_t x) { own.include(x, k); });
    if (lane == 0 && w.stay[i] != kNever) own.include(w.stay[i], kStays);
  }
  own.merge(width);
  return own;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_CHOICE_CUH_
