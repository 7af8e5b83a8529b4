// Finds augmenting paths for many free vertices at once, after a global update of prices (Goldberg
// and Kennedy, Global price updates help, 1997).
//
// The distance of a row is the length of the shortest alternating path to an end: a free column, or
// a row that can stay unmatched. An update raises the dual of each row by its distance and lowers
// the price of the column matched to it by the same amount. Then no reduced cost becomes negative,
// the prices of free columns do not change, and the shortest paths from all rows become tight (all
// their reduced costs are 0). Each row keeps one shortest path, so these paths form a forest with
// the ends as roots. Each end takes one of the free rows in its tree.
//
// If all rows and columns must be matched, their roles can be swapped: paths then lead from free
// columns to free rows.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PRICE_UPDATES_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PRICE_UPDATES_CUH_

#include "sparse_assignment/cuda/choice.cuh"

namespace jaxmatch::sparse_assignment {

// The two sides of the graph. Own vertices are those that get labels: the rows, or with kOfCols the
// columns. Other vertices are those of the opposite side.
template <bool kOfCols>
struct Sides {
  const Canonical& c;
  const Workspace& w;

  __device__ int32_t count() const { return kOfCols ? c.cols : c.rows; }
  __device__ int32_t others() const { return kOfCols ? c.rows : c.cols; }
  __device__ int64_t* dual() const { return kOfCols ? w.price : w.u; }
  __device__ int64_t* other_dual() const { return kOfCols ? w.u : w.price; }
  __device__ int32_t own(int32_t edge) const { return kOfCols ? c.col[edge] : c.row[edge]; }
  __device__ int32_t other(int32_t edge) const { return kOfCols ? c.row[edge] : c.col[edge]; }
  // The edge of own vertex x's pair, kFree if x is free, or kStays if x stays unmatched.
  __device__ int32_t pair(int32_t x) const {
    if (!kOfCols) return w.pair[x];
    return w.owner[x] == kNone ? kFree : w.pair[w.owner[x]];
  }
  // The own vertex that is paired with y, a vertex of the other side; kNone if y is unpaired.
  __device__ int32_t holder(int32_t y) const {
    if (!kOfCols) return w.owner[y];
    return w.pair[y] == kFree ? kNone : c.col[w.pair[y]];
  }
  __device__ int64_t stay(int32_t x) const { return kOfCols ? kNever : w.stay[x]; }
  __device__ void join(int32_t edge) const {
    w.pair[c.row[edge]] = edge;
    w.owner[c.col[edge]] = c.row[edge];
  }

  // each_of_own() and each_of_other() call f(edge) for this lane's share of the allowed edges of a
  // vertex.
  template <class F>
  __device__ void each_of_own(int32_t x, int lane, int width, const F& f) const {
    each_edge_of<kOfCols>(c, x, lane, width, [&](int32_t k) {
      if (w.cost[k] != kNever) f(k);
    });
  }
  template <class F>
  __device__ void each_of_other(int32_t y, int lane, int width, const F& f) const {
    each_edge_of<!kOfCols>(c, y, lane, width, [&](int32_t k) {
      if (w.cost[k] != kNever) f(k);
    });
  }
};

// A label-correcting search. The label of a vertex is its distance to the nearest end and the path
// there. Each step relaxes the edges of the vertices in a queue, until no label improves. Labels
// are compared by distance, then by the number of pairs on the path, then by the path's first edge,
// so the final labels do not depend on the order of threads. Comparing the number of pairs prevents
// cycles of length 0.
template <class Team, bool kOfCols>
struct PriceUpdate {
  const Team team;
  const Canonical& c;
  const Workspace& w;
  const int width;  // lanes per vertex
  const Sides<kOfCols> g{c, w};

  static constexpr uint64_t kNoWay = ~uint64_t(0);

  __device__ bool is_paired(int32_t x) const {
    const int32_t pair = g.pair(x);
    return pair != kFree && pair != kStays;
  }

  // Sets the duals of free vertices and the labels of vertices next to the end of a path. Queues
  // those labelled vertices that are paired.
  __device__ void begin() const {
    team.one([&] { w.control->queued[0] = w.control->queued[1] = 0; });
    team.each(g.others(), [&](int64_t y) { w.chosen_by_other[y] = INT32_MAX; });
    team.sync();
    each_by_group(team, g.count(), width, [&](int64_t k, int lane, bool there) {
      const int32_t x = int32_t(k), pair = there ? g.pair(x) : kStays;
      const bool free = pair == kFree, paired = !free && pair != kStays;
      Choice all, ends;
      if (free || paired) {
        g.each_of_own(x, lane, width, [&](int32_t edge) {
          const int32_t y = g.other(edge);
          const int64_t reduced = w.cost[edge] - g.other_dual()[y];
          if (free) all.include(reduced, edge);
          if (g.holder(y) == kNone) ends.include(reduced, edge);
        });
        if (lane == 0 && g.stay(x) != kNever) {
          if (free) all.include(g.stay(x), kStays);
          ends.include(g.stay(x), kStays);
        }
      }
      all.merge(width);
      ends.merge(width);
      const bool near = ends.least != kNever;
      if (lane == 0 && there) {
        if (free) g.dual()[x] = all.least != kNever ? all.least : 0;
        w.chosen_by_own[x] = INT32_MAX;
        w.dist[x] = near ? ends.least - g.dual()[x] : kNever;
        w.by[x] = near ? uint64_t(1) << 32 | uint64_t(ends.edge) : kNoWay;
        w.queued[x] = near && paired;
      }
      append(w.queue[0], &w.control->queued[0], team.lane(), lane == 0 && near && paired, x);
    });
    team.sync();
  }

  // Calls f(x, distance, path) for each own vertex x that is one step from a vertex in the queue
  // and whose distance by way of that vertex is at most `most`. `path` is encoded like
  // Workspace::by.
  template <class F>
  __device__ void each_reached(const int32_t* queue, int32_t count, int64_t most,
                               const F& f) const {
    each_by_group(team, count, width, [&](int64_t k, int lane, bool there) {
      if (!there) return;
      const int32_t x = queue[k];
      const uint64_t by = w.by[x];
      // The first pass of this step has lowered the distance of x and cleared its path. So x is
      // skipped now. It is queued again when its new path is set, in this step or in a later one.
      if (by == kNoWay) return;
      const int32_t y = g.other(g.pair(x));
      const int64_t base = w.dist[x] - g.other_dual()[y];
      const uint64_t pairs = (by >> 32) + 1;
      g.each_of_other(y, lane, width, [&](int32_t edge) {
        const int32_t own = g.own(edge);
        const int64_t dist = base + w.cost[edge] - g.dual()[own];
        if (own != x && dist <= most) f(own, dist, pairs << 32 | uint64_t(edge));
      });
    });
  }
  __device__ void step(const int32_t* queue, int32_t count, int64_t most, int32_t* next,
                       int32_t* queued) const {
    team.each(count, [&](int64_t k) { w.queued[queue[k]] = 0; });
    each_reached(queue, count, most, [&](int32_t x, int64_t dist, uint64_t) {
      if (least_at(&w.dist[x], dist) > uint64_t(dist)) w.by[x] = kNoWay;
    });
    team.sync();
    each_reached(queue, count, most, [&](int32_t x, int64_t dist, uint64_t by) {
      if (w.dist[x] != dist) return;
      const bool nearer = (atomic_min(&w.by[x], by) >> 32) > by >> 32;
      if (!nearer || !is_paired(x)) return;
      if (atomicExch(&w.queued[x], 1) == 0) next[atomicAdd(queued, 1)] = x;
    });
    team.sync();
  }

  // Lists the free own vertices in order. Returns their number.
  __device__ int32_t list_own_free() const {
    return compact(
        team, g.count(), w.of_warps, w.list[0],
        [&](int64_t x) { return g.pair(int32_t(x)) == kFree; },
        [](int64_t x) { return int32_t(x); });
  }
  // The largest distance of a free vertex.
  __device__ int64_t farthest(int32_t count) const {
    uint64_t most = ~uint64_t(0), none = 0;  // `most` is the complement of the distance
    team.each(count, [&](int64_t k) { most = min(most, ~uint64_t(w.dist[w.list[0][k]])); });
    team.least_of_each(most, none);
    return int64_t(~most);
  }

  // Labels all own vertices up to the distance of the farthest free own vertex, and returns this
  // distance.
  __device__ int64_t find(int32_t count) const {
    constexpr int kEvery = 4;  // steps between two updates of the limit `most`
    int32_t* const queued = w.control->queued;
    begin();
    int64_t most = kNever;
    int32_t waiting = queued[0];
    for (int steps = 0; waiting > 0; ++steps) {
      const int turn = steps % 2;
      if (steps % kEvery == 0) most = farthest(count);
      step(w.queue[turn], waiting, most, w.queue[turn ^ 1], &queued[turn ^ 1]);
      team.one([&] { queued[turn] = 0; });
      waiting = queued[turn ^ 1];
    }
    return farthest(count);
  }

  __device__ void move_duals(int64_t most) const {
    team.each(g.count(), [&](int64_t x) {
      const int32_t pair = g.pair(int32_t(x));
      if (pair == kStays) return;
      const int64_t by = min(w.dist[x], most);
      g.dual()[x] += by;
      if (pair != kFree) g.other_dual()[g.other(pair)] -= by;
    });
  }

  __device__ int32_t way_of(int32_t x) const { return int32_t(w.by[x] & UINT32_MAX); }
  // Follows the path from x to its end: a row that then stays unmatched, or an unpaired vertex.
  // Returns the entry of chosen_by_own or chosen_by_other for this end.
  __device__ int32_t* end_of(int32_t x) const {
    for (;;) {
      const int32_t edge = way_of(x);
      if (edge == kStays) return &w.chosen_by_own[x];
      const int32_t y = g.other(edge);
      x = g.holder(y);
      if (x == kNone) return &w.chosen_by_other[y];
    }
  }
  __device__ void flip(int32_t x) const {
    while (x != kNone) {
      const int32_t edge = way_of(x);
      if (edge == kStays) {
        w.pair[x] = kStays;
        return;
      }
      const int32_t next = g.holder(g.other(edge));
      g.join(edge);
      x = next;
    }
  }

  // Matches some of the free vertices, or leaves rows unmatched. The dual of a vertex without a
  // path rises in every update. `moved` sums these rises over all updates; only the limit on
  // `moved` bounds such a dual.
  __device__ __noinline__ Status match_some(int64_t& moved) const {
    constexpr int64_t kMostMoved = int64_t(1) << 60;
    const int32_t count = list_own_free();
    const int64_t most = find(count);
    if (most == kNever) return kInfeasible;
    if (most > kMostMoved - moved) return kOverflow;
    if (!c.all_may_stay) moved += most;
    move_duals(most);
    team.each(count, [&](int64_t k) {
      const int32_t x = w.list[0][k];
      int32_t* const chosen = end_of(x);
      w.chosen[k] = chosen;
      atomicMin(chosen, x);
    });
    team.sync();
    team.each(count, [&](int64_t k) {
      const int32_t x = w.list[0][k];
      if (*w.chosen[k] == x) flip(x);
    });
    team.sync();
    return kOptimal;
  }
};

// Matches all free rows, or leaves them unmatched at their cost. Adds the number of updates to
// `updates`.
template <class Team>
__device__ Status match_by_updates(const Team& team, const Canonical& c, const Workspace& w,
                                   int width, int64_t& updates) {
  Status status = kOptimal;
  int64_t moved = 0;
  // The first update labels rows, because that sets the duals of free rows.
  for (bool of_cols = false; status == kOptimal && list_free(team, c, w) > 0;
       of_cols = c.all_matched && !of_cols) {
    ++updates;
    status = of_cols ? PriceUpdate<Team, true>{team, c, w, width}.match_some(moved)
                     : PriceUpdate<Team, false>{team, c, w, width}.match_some(moved);
  }
  return status;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PRICE_UPDATES_CUH_
