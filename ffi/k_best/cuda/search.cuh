// Shortest augmenting paths on reduced costs, found by one warp, as in k_best/cpu/search.h. Each
// lane handles every 32nd column. The spare row, number `rows`, is a row of zeros that holds all
// unmatched columns (k_best/cpu/units.h).
#ifndef JAXMATCH_CUDA_K_BEST_SEARCH_CUH_
#define JAXMATCH_CUDA_K_BEST_SEARCH_CUH_

#include "k_best/cuda/block.cuh"

namespace jaxmatch::k_best {

struct WarpSearch {
  Block block;
  Shared& s;
  const Search a;
  // Results of the last search: the column of the spare row that the search settled first, or
  // kNone, and the length of the shortest path.
  int32_t spare_col = kNone;
  int64_t length = 0;
  int32_t counts[kNumCounts] = {};

  __device__ explicit WarpSearch(Block block)
      : block(block), s(block.s), a(block.s.state.search[block.warp()]) {}

  template <class F>
  __device__ void each_lane(int64_t count, const F& f) const {
    block.each_lane(count, f);
  }
  // The lane that handles column j calls f().
  template <class F>
  __device__ void at_column(int32_t j, const F& f) const {
    if (j % kWarpSize == block.lane()) f();
  }
  // Two kinds of columns have kGone in `open`: those that the search has settled, and those that it
  // must not use. Only settled columns have a path of length below kFar.
  __device__ bool is_settled(int64_t j) const { return a.open[j] == kGone && a.dist[j] < kFar; }

  // Extends the path to row i by each of its pairs: the new path to column j has length `base` +
  // cost - v. `kFirst` is for the first scan of a search, before which there are no paths. Returns
  // the nearest open column. With `kToAny`, prefers a free column if several are nearest.
  template <bool kFirst, bool kToAny>
  __device__ Least scan(int32_t i, int64_t base) {
    ++counts[kScans];
    const int64_t* const cost = s.cost_row(i);
    Least nearest{kFar, INT32_MAX}, free{kFar, INT32_MAX};
    each_lane(s.stride, [&](int64_t j) {
      const int64_t open = a.open[j], through = cost[j] - open + base;
      int64_t x = through;
      if (kFirst || through < a.dist[j]) {
        a.dist[j] = through;
        a.from[j] = i;
      } else {
        x = a.dist[j];
      }
      if (open == kGone) return;
      nearest.include(x, int32_t(j));
      if (kToAny && a.row4col[j] == kNone) free.include(x, int32_t(j));
    });
    nearest.merge();
    if (kToAny) {
      free.merge();
      if (free.value == nearest.value) nearest = free;
    }
    __syncwarp();
    return nearest;
  }

  __device__ Least nearest_open() const {
    Least nearest{kFar, INT32_MAX};
    each_lane(s.stride, [&](int64_t j) {
      if (a.open[j] != kGone) nearest.include(a.dist[j], int32_t(j));
    });
    nearest.merge();
    return nearest;
  }

  // Finds the shortest path from row `root`, whose dual is `u`, to column `target`, or with
  // `kToAny` to any free column. `v` has the duals of columns. Returns the last column of the path,
  // or kNone if no path is shorter than `limit`. Calls `after_first` after the first scan.
  template <bool kToAny, class After>
  __device__ int32_t find(int32_t root, int64_t u, const int64_t* v, int32_t target, int64_t limit,
                          const After& after_first) {
    ++counts[kSearches];
    spare_col = kNone;
    Least nearest = scan<true, kToAny>(root, -u);
    after_first();
    for (;;) {
      length = nearest.value;
      if (length >= limit || length >= kFar) return kNone;
      if (!kToAny && a.dist[target] == length) return target;
      const int32_t j = nearest.at, i = a.row4col[j];
      if (kToAny && i == kNone) return j;
      at_column(j, [&] { a.open[j] = kGone; });
      __syncwarp();
      if (i == s.rows && spare_col != kNone) {  // another column of the spare row, already scanned
        nearest = nearest_open();
        continue;
      }
      if (i == s.rows) spare_col = j;
      nearest = scan<false, kToAny>(i, length - (s.cost_row(i)[j] - v[j]));
    }
  }

  // Searches for the best assignment of a child. Returns how much more it costs than the best
  // assignment of the problem, or kFar if that is not below `limit`.
  __device__ int64_t find_child(const Child& child, int64_t limit) {
    const int32_t x = child.node, at = child.at;
    const int32_t *const order = s.order_of(x), *const col4row = s.col4row_of(x);
    const int64_t* const v = s.v_of(x);
    const int32_t row = order[at], own = col4row[row];
    const int64_t u = s.cost_row(row)[own] - v[own], rise = s.rises_of(x)[at];
    const int64_t before = s.workspace.cost[x] + rise;
    each_lane(s.stride, [&](int64_t j) {
      a.open[j] = v[j];
      a.row4col[j] = s.rows;
    });
    __syncwarp();
    each_lane(s.rows, [&](int64_t t) {
      const int32_t i = order[t], j = col4row[i];
      a.row4col[j] = i;
      if (t < at) a.open[j] = kGone;
    });
    __syncwarp();
    const auto for_forbidden = [&](const auto& f) {
      at_column(own, [&] { f(own); });
      s.for_forbidden(x, row, at == s.workspace.forced[x],
                      [&](int32_t j) { at_column(j, [&] { f(j); }); });
    };
    for_forbidden([&](int32_t j) { a.open[j] = kGone; });
    const auto reopen = [&] {
      for_forbidden([&](int32_t j) { a.open[j] = v[j] + (j == own ? rise : 0); });
      __syncwarp();
    };
    const int32_t end = find<false>(row, u, v, own, limit - before, reopen);
    return end == kNone ? kFar : before + length;
  }

  // Stores the result of the last search, the best assignment of `child`, as node y.
  __device__ void make_node(const Child& child, int32_t y) {
    const int32_t x = child.node, at = child.at, rows = s.rows;
    const int32_t *const order = s.order_of(x), *const col4row = s.col4row_of(x);
    const int64_t* const v = s.v_of(x);
    const int32_t row = order[at], own = col4row[row];
    int64_t* const own_v = s.v_of(y);
    int32_t *const own_order = s.order_of(y), *const own_col4row = s.col4row_of(y);
    each_lane(s.stride, [&](int64_t j) {
      int64_t dual = v[j];
      if (is_settled(j)) dual -= length - a.dist[j];
      if (j == own) dual += s.rises_of(x)[at];
      own_v[j] = dual;
    });
    each_lane(rows, [&](int64_t t) { own_order[t] = order[t]; });
    each_lane(rows + (s.has_spare() ? 1 : 0), [&](int64_t i) { own_col4row[i] = col4row[i]; });
    __syncwarp();
    if (block.lane() != 0) return;
    for (int32_t j = own;;) {
      const int32_t i = a.from[j];
      own_col4row[i] = j;
      if (i == row) break;
      j = i == rows ? spare_col : col4row[i];
    }
    s.workspace.cost[y] = cost_of(child.key);
    s.workspace.parent[y] = x;
    s.workspace.forced[y] = at;
  }

  // Finds the best assignment and stores it as node 0. Returns false if there is none.
  __device__ bool find_best() {
    int32_t *const col4row = s.col4row_of(0), *const order = s.order_of(0);
    int64_t* const v = s.v_of(0);
    const int32_t rows = s.rows;
    each_lane(s.stride, [&](int64_t j) {
      v[j] = a.open[j] = j < s.cols ? 0 : kGone;
      a.row4col[j] = kNone;
    });
    __syncwarp();
    for (int32_t i = 0; i < rows; ++i) {
      const Least best = scan<true, false>(i, 0);
      const bool takes = best.value < kFar && a.row4col[best.at] == kNone;
      __syncwarp();
      if (block.lane() == 0) {
        col4row[i] = takes ? best.at : kNone;
        order[i] = i;
        if (takes) a.row4col[best.at] = i;
      }
      __syncwarp();
    }
    for (int32_t i = 0; i < rows; ++i) {
      if (col4row[i] != kNone) continue;
      each_lane(s.stride, [&](int64_t j) { a.open[j] = v[j]; });
      const int32_t end = find<true>(i, 0, v, kNone, kFar, [] {});
      __syncwarp();
      if (end == kNone) return false;
      each_lane(s.stride, [&](int64_t j) {
        if (is_settled(j)) v[j] -= length - a.dist[j];
      });
      if (block.lane() == 0) augment(i, end, col4row);
      __syncwarp();
    }
    Least free{kFar, INT32_MAX};
    each_lane(s.cols, [&](int64_t j) {
      if (a.row4col[j] == kNone) free.include(0, int32_t(j));
    });
    free.merge();
    if (block.lane() == 0) {
      if (s.has_spare()) col4row[rows] = free.at;
      s.workspace.cost[0] = 0;
      s.workspace.parent[0] = kNone;
      s.workspace.forced[0] = 0;
    }
    return true;
  }

 private:
  // Flips matched and unmatched pairs along the path from row `root` to column `end`. Called by one
  // lane.
  __device__ void augment(int32_t root, int32_t end, int32_t* col4row) const {
    for (int32_t j = end;;) {
      const int32_t i = a.from[j], before = col4row[i];
      a.row4col[j] = i;
      col4row[i] = j;
      if (i == root) return;
      j = before;
    }
  }
};

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_SEARCH_CUH_
