// Partitions a node of the tree (k_best/cpu/tree.h) into its children: their order, and lower
// bounds on their costs. As in k_best/cpu/partition.h.
#ifndef JAXMATCH_CUDA_K_BEST_PARTITION_CUH_
#define JAXMATCH_CUDA_K_BEST_PARTITION_CUH_

#include "k_best/cuda/block.cuh"

namespace jaxmatch::k_best {

struct Partition {
  Block block;
  Shared& s;
  int32_t x, first;  // number of the node; how many rows of the node are forced
  const int64_t* v;
  const int32_t* col4row;
  int32_t* order;
  int64_t* open;  // [stride] dual of each column; kGone if a forced row has the column

  __device__ Partition(Block block, int32_t x)
      : block(block),
        s(block.s),
        x(x),
        first(block.s.workspace.forced[x]),
        v(block.s.v_of(x)),
        col4row(block.s.col4row_of(x)),
        order(block.s.order_of(x)),
        open(block.s.state.search[0].open) {}

  // Finds the owner of each column: the place of the column's row in the node's order of rows, or
  // INT32_MAX for a free column. Also marks as banned the columns that node x forbids to its first
  // row that is not forced.
  __device__ void find_owners() const {
    const State& w = s.state;
    block.each(s.stride, [&](int64_t j) {
      open[j] = v[j];
      w.owner[j] = INT32_MAX;
      w.banned[j] = 0;
    });
    block.sync();
    block.each(s.rows, [&](int64_t t) {
      const int32_t j = col4row[order[t]];
      w.owner[j] = int32_t(t);
      if (t < first) open[j] = kGone;
    });
    block.one([&] { s.for_forbidden(x, order[first], true, [&](int32_t j) { w.banned[j] = 1; }); });
    block.sync();
  }

  // Finds the least reduced cost of each row (`bound`, by place in the order) and of each column
  // (`into`) over the pairs that the node's assignment does not use. With `kOrdered`, a row ignores
  // columns whose owners are before it in the order, and a column ignores rows that are before its
  // owner.
  template <bool kOrdered>
  __device__ void look() const {
    const State& w = s.state;
    int64_t* const into = w.search[block.warp()].dist;  // minima over the rows of this warp
    block.each_lane(s.stride, [&](int64_t j) { into[j] = kFar; });
    block.each_by_warp(s.rows - first, [&](int64_t k) {
      const int32_t t = first + int32_t(k), i = order[t];
      const int64_t* const cost = s.cost_row(i);
      const int64_t u = cost[col4row[i]] - v[col4row[i]];
      int64_t least = kFar;
      block.each_lane(s.stride, [&](int64_t j) {
        const int32_t owner = w.owner[j];
        if (owner == t) return;
        const int64_t reduced = cost[j] - open[j] - u;
        const bool enters = !kOrdered || owner < t, leaves = !kOrdered || owner > t;
        if (enters && reduced < into[j]) into[j] = reduced;
        if (leaves && !(t == first && w.banned[j]) && reduced < least) least = reduced;
      });
      least = warp_least(least);
      if (block.lane() == 0) w.bound[t] = least;
    });
    block.sync();
    const int64_t spare = s.has_spare() ? v[col4row[s.rows]] : 0;
    block.each(s.stride, [&](int64_t j) {
      int64_t least = s.has_spare() ? spare - open[j] : kFar;
      for (const Search& a : w.search) least = min(least, a.dist[j]);
      w.into[j] = least;
    });
    block.sync();
  }

  // Sorts the rows that are not forced. The first of them stays in front, because it may already
  // have forbidden pairs. The other rows follow in order of decreasing bound.
  __device__ void sort() const {
    const State& w = s.state;
    const int32_t begin = first + 1;
    block.each(s.rows, [&](int64_t t) { w.bound[t] += t < first ? 0 : w.into[col4row[order[t]]]; });
    block.sync();
    block.each(s.rows - begin, [&](int64_t k) {
      const int32_t t = begin + int32_t(k);
      const int64_t own = w.bound[t];
      int32_t place = begin;
      for (int32_t other = begin; other < s.rows; ++other) {
        place += w.bound[other] > own || (w.bound[other] == own && other < t);
      }
      w.sorted[place] = order[t];
    });
    block.sync();
    block.each(s.rows - begin, [&](int64_t k) {
      const int32_t t = begin + int32_t(k), i = w.sorted[t];
      order[t] = i;
      w.owner[col4row[i]] = t;
    });
    block.sync();
  }

  __device__ void run() const {
    if (first >= s.rows) return;
    find_owners();
    look<false>();
    sort();
    look<true>();
    const State& w = s.state;
    block.each(s.rows, [&](int64_t t) {
      int64_t key = kNoKey;
      if (t >= first) {
        const int64_t leaves = w.bound[t], enters = w.into[col4row[order[t]]];
        const int64_t least = s.workspace.cost[x] + leaves + enters;
        if (leaves < kFar && enters < kFar && least < s.limit) key = bound_key(least);
        s.rises_of(x)[t] = enters;
      }
      s.keys_of(x)[t] = key;
    });
    block.sync();
  }
};

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_PARTITION_CUH_
