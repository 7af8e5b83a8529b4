// Builds the first basis: a spanning forest of the arcs of a plan. The remaining arcs of the plan
// are then pushed into it one by one (Tree::push()).
#ifndef JAXMATCH_CUDA_TRANSPORT_FOREST_CUH_
#define JAXMATCH_CUDA_TRANSPORT_FOREST_CUH_

#include "transport/cuda/plan.cuh"
#include "transport/cuda/tree.cuh"

namespace jaxmatch::transport {

// All threads of one block call grow(), and the functions that it calls, together and after a
// barrier. These functions end with a barrier.
template <class C>
struct Forest {
  Team team;
  const Tree<C> t;
  const Workspace& w;
  const int32_t arcs;
  // Arrays with an entry for each node. A part is a connected component of the forest, and has the
  // number of one of its nodes.
  // - part: the part of the node
  // - best: for a part, its first arc to another part
  // - level: the distance of the node from the root
  // - place: the next free position of the tour in the subtree of the node
  int32_t *part, *best, *level, *place;

  __device__ Forest(const Tree<C>& tree, int32_t arcs)
      : team(tree.team),
        t(tree),
        w(tree.w),
        arcs(arcs),
        part(w.scratch[0]),
        best(w.scratch[1]),
        level(w.scratch[2]),
        place(w.scratch[3]) {}

  __device__ int32_t row_of(int64_t k) const { return int32_t(w.key[k] >> 32); }
  __device__ int32_t col_of(int64_t k) const { return t.rows + int32_t(w.key[k]); }

  // Builds the tree from the plan, which may have cycles. In each part, all prices follow from the
  // price that one of its columns has in w.price.
  __device__ void grow() const {
    find_parts();
    const int32_t levels = find_levels();
    take_tour(levels);
    const int32_t others = list_others();
    for (int32_t k = 0; k < others; ++k) {
      const int32_t arc = w.in_forest[k], i = row_of(arc), j = col_of(arc);
      const int64_t gain = t.cost_between(i, j) - w.price[i] - w.price[j];
      t.push(i, j - t.rows, w.mass[arc], gain);
    }
  }

  // Finds a spanning forest in rounds (Boruvka). In each round, each part adds its first arc to
  // another part. The order of threads does not matter, because there is only one minimum spanning
  // forest with the indices of arcs as weights.
  __device__ void find_parts() const {
    team.each(t.nodes, [&](int64_t x) { part[x] = int32_t(x); });
    team.each(arcs, [&](int64_t k) { w.in_forest[k] = 0; });
    for (;;) {
      team.each(t.nodes, [&](int64_t x) { best[x] = INT32_MAX; });
      team.sync();
      bool found = false;
      team.each(arcs, [&](int64_t k) {
        const int32_t x = part[row_of(k)], y = part[col_of(k)];
        if (x == y) return;
        found = true;
        atomicMin(&best[x], int32_t(k));
        atomicMin(&best[y], int32_t(k));
      });
      if (!team.any(found)) return;
      // First, place[x] is the part that part x joins. Of two parts that join each other, the one
      // with the greater number joins none. Then place[x] moves along the chain of parts that
      // begins at x, to its end.
      team.each(t.nodes, [&](int64_t k) {
        const int32_t x = int32_t(k), arc = best[x];
        place[x] = x;
        if (part[x] != x || arc == INT32_MAX) return;
        w.in_forest[arc] = 1;
        const int32_t row = part[row_of(arc)], other = row == x ? part[col_of(arc)] : row;
        if (best[other] != arc || x < other) place[x] = other;
      });
      team.sync();
      for (bool changed = true; changed; changed = team.any(changed)) {
        changed = false;
        team.each(t.nodes, [&](int64_t x) {
          const int32_t up = place[x], next = place[up];
          if (up == next) return;
          place[x] = next;
          changed = true;
        });
      }
      team.each(t.nodes, [&](int64_t x) { part[x] = place[part[x]]; });
      team.sync();
    }
  }

  // Hangs each part from the root by its last node, which is a column if the part has one. Then
  // hangs the other nodes below it, level by level. Returns the number of levels below the root.
  __device__ int32_t find_levels() const {
    team.each(t.nodes + 1, [&](int64_t x) { best[x] = level[x] = kNone; });
    team.sync();
    team.each(t.nodes, [&](int64_t x) { atomicMax(&best[part[x]], int32_t(x)); });
    team.sync();
    team.each(t.nodes, [&](int64_t x) {
      w.flow[x] = 0;
      if (best[part[x]] != x) return;
      level[x] = 1;
      t.above[x] = t.root();
    });
    for (int32_t now = 1;; ++now) {
      team.sync();
      bool found = false;
      team.each(arcs, [&](int64_t k) {
        if (w.in_forest[k] != 1) return;
        const int32_t i = row_of(k), j = col_of(k);
        const int32_t x = level[i] == now ? j : i, y = x == j ? i : j;
        if (level[y] != now) return;
        w.in_forest[k] = 2;
        found = true;
        level[x] = now + 1;
        t.above[x] = y;
        w.flow[x] = w.mass[k];
      });
      if (!team.any(found)) return now;
    }
  }

  template <class F>
  __device__ void each_of_level(int32_t now, const F& f) const {
    team.each(t.nodes, [&](int64_t x) {
      if (level[x] == now) f(int32_t(x));
    });
    team.sync();
  }

  // Sets the Euler tour and the prices. The order of siblings depends on the order of threads, but
  // no result does.
  __device__ void take_tour(int32_t levels) const {
    int32_t* const size = best;
    team.each(t.nodes + 1, [&](int64_t x) { size[x] = 1; });
    team.sync();
    for (int32_t now = levels; now > 0; --now) {
      each_of_level(now, [&](int32_t x) { atomicAdd(&size[t.above[x]], size[x]); });
    }
    team.one([&] {
      t.tour[t.root()] = {0, 2 * t.nodes + 1};
      place[t.root()] = 1;
      w.control->stem = 0;
    });
    team.sync();
    for (int32_t now = 1; now <= levels; ++now) {
      each_of_level(now, [&](int32_t x) {
        const int32_t up = t.above[x], first = atomicAdd(&place[up], 2 * size[x]);
        t.tour[x] = {first, first + 2 * size[x] - 1};
        place[x] = first + 1;
        t.set_price(x, up == t.root() ? price_of_top(x) : t.cost_between(x, up) - w.price[up]);
      });
    }
  }
  // If x is a row, its part has no column, and any price will do.
  __device__ int64_t price_of_top(int32_t x) const { return t.is_row(x) ? 0 : w.price[x]; }

  // Overwrites the flags in w.in_forest with a list of the arcs outside the forest, in increasing
  // order. Returns the number of these arcs.
  __device__ int32_t list_others() const {
    int32_t& listed = w.control->found;
    if (team.warp() == 0) {
      int32_t count = 0;
      for (int32_t first = 0; first < arcs; first += kWarpSize) {
        const int32_t k = first + team.lane();
        const bool other = k < arcs && w.in_forest[k] == 0;
        const unsigned lanes = __ballot_sync(kAllLanes, other);
        if (other) w.in_forest[count + __popc(lanes & lanes_below(team.lane()))] = k;
        count += __popc(lanes);
      }
      if (team.lane() == 0) listed = count;
    }
    team.sync();
    const int32_t count = listed;
    team.sync();
    return count;
  }
};

// Builds the first basis. The first block calls it. `turned`: see list_plan().
template <class C>
__device__ void grow_basis(Tree<C> tree, const Holding* held, bool turned) {
  const Plan plan{tree.team, tree.w};
  list_plan(plan, tree.c, held, turned);
  Forest<C>(tree, plan.sort()).grow();
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_FOREST_CUH_
