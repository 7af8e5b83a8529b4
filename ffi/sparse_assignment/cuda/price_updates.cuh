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

  // Calls f(edge) for this lane's share of the allowed edges of an own vertex.
  template <class F>
  __device__ void each_of_own(int32_t x, int lane, int width, const F& f) const {
    each_edge_of<kOfCols>(c, x, lane, width, [&](int32_t k) {
      if (w.cost[k] != kNever) f(k);
    });
  }
};

// The edges of one side's vertices, one vertex after another.
struct Near {
  const int32_t* first;   // [vertices + 1] first edge of each vertex
  const int32_t* order;   // [edges] index of each edge; null: 0, 1, ...
  const int32_t* vertex;  // [edges] vertex at the other end
  const int64_t* cost;    // [edges]

  __device__ int32_t edge_at(int64_t place) const { return order ? order[place] : int32_t(place); }
};

// What all updates of a problem share.
struct Updates {
  int64_t moved = 0;      // by how much the dual of a vertex without a path has risen
  int32_t count = 0;      // updates so far
  bool too_long = false;  // whether distances leave no room for a count of edges
};

// A label-correcting search finds the distances. The low bits of a label count the edges of its
// path. So labels fall along a path even where edges have the length 0, and each free vertex can
// walk along its path. If distances leave no room for a count, a breadth-first search over the
// tight edges finds the paths instead. Ties are broken by the number of edges, then by a fixed rule
// for the first edge, so the result does not depend on the order of threads.
template <class Team, bool kOfCols>
struct PriceUpdate {
  const Team team;
  const Canonical& c;
  const Workspace& w;
  const int width;  // lanes per vertex
  Updates& updates;
  const Sides<kOfCols> g{c, w};
  int bits = 0;  // of a label that count edges

  static constexpr uint64_t kNoWay = ~uint64_t(0);
  static constexpr int32_t kNotQueued = INT32_MIN;  // no step

  // How Workspace::by encodes a path.
  __device__ static uint64_t way(int32_t pairs, int32_t edge) {
    return uint64_t(pairs) << 32 | uint64_t(edge);
  }

  // What an edge of this length adds to a label. Edges that are too long have no label.
  __device__ int64_t label_of(int64_t length) const {
    if (bits == 0) return length;
    return length < int64_t(1) << (61 - bits) ? (length << bits) + 1 : kNever;
  }
  __device__ int64_t distance_of(int64_t label) const { return label >> bits; }

  // The edges of the other side's vertices.
  __device__ Near edges_of_other() const {
    const int32_t* const order = kOfCols ? c.order : c.order_by_col;
    return {kOfCols ? c.first : c.first_by_col, order,
            order     ? w.row_by_col
            : kOfCols ? c.col
                      : c.row,
            order ? w.cost_by_col : w.cost};
  }
  // The vertex paired with x, or kNone. begin() writes it.
  __device__ int32_t& mate(int64_t x) const { return w.target[x]; }

  // Writes the edges of each column next to each other. Only updates read them so.
  __device__ void list_by_col() const {
    team.each(c.first[c.rows], [&](int64_t q) {
      const int32_t edge = w.by_col[q];
      w.row_by_col[q] = w.row[edge];
      w.cost_by_col[q] = w.cost[edge];
    });
  }

  __device__ void clear_counts() const {
    for (int k = 0; k < 3; ++k) w.control->queued[k] = w.control->reached[k] = 0;
  }

  // Sets the duals of the `count` listed free vertices, and all labels.
  __device__ void begin(int32_t count) const {
    each_by_group(team, count, width, [&](int64_t k, int lane, bool there) {
      const int32_t x = there ? w.list[0][k] : 0;
      Choice all;
      if (there) {
        g.each_of_own(x, lane, width, [&](int32_t edge) {
          all.include(w.cost[edge] - g.other_dual()[g.other(edge)], edge);
        });
        if (lane == 0 && g.stay(x) != kNever) all.include(g.stay(x), kStays);
      }
      all.merge(width);
      if (lane == 0 && there) g.dual()[x] = all.least != kNever ? all.least : 0;
    });
    team.one([&] {
      w.control->ends = 0;
      clear_counts();
    });
    team.sync();
    each_by_lane(team, g.count(), [&](int64_t k, bool there) {
      const int32_t x = int32_t(k), pair = there ? g.pair(x) : kStays;
      const bool paired = pair != kFree && pair != kStays;
      bool near = false;
      if (there) {
        near = pair != kStays && g.stay(x) != kNever;
        w.dist[x] = near ? label_of(g.stay(x) - g.dual()[x]) : kNever;
        w.by[x] = kNoWay;
        w.queued[x] = kNotQueued;
        w.chosen_by_own[x] = INT32_MAX;
        mate(x) = paired ? g.other(pair) : kNone;
      }
      append(w.queue[0], &w.control->queued[0], team.lane(), near && paired, x);
    });
    each_by_lane(team, g.others(), [&](int64_t y, bool there) {
      if (there) w.chosen_by_other[y] = INT32_MAX;
      append(w.list[1], &w.control->ends, team.lane(), there && g.holder(int32_t(y)) == kNone,
             int32_t(y));
    });
    team.sync();
  }

  // Calls f(x, label, place) for each own vertex x next to y whose label by way of y, which has the
  // label `base`, is at most `most`. edge_at(place) is the edge from x to y.
  //
  // All lanes of a warp must call it. They take the same number of turns and wait for each other
  // after each turn. Without this, a team of one block hung: some lanes of a warp were one barrier
  // ahead of the others (H200, nvcc 13.0).
  template <class F>
  __device__ void each_near(bool there, int32_t y, int64_t base, int lane, int64_t most,
                            const F& f) const {
    const Near near = edges_of_other();
    int64_t q = 0, last = 0;
    int64_t dual = 0;
    if (there) {
      q = near.first[y] + lane;
      last = near.first[y + 1];
      dual = g.other_dual()[y];
    }
#pragma unroll 1
    for (; __ballot_sync(kAllLanes, q < last) != 0; q += width) {
      const int64_t cost = q < last ? near.cost[q] : kNever;
      if (cost != kNever) {
        const int32_t x = near.vertex[q];
        const int64_t length = label_of(cost - dual - g.dual()[x]);
        if (length <= most - base) f(x, base + length, q);
      }
      __syncwarp();
    }
  }
  // Calls f like each_near() for the pairs of all vertices queued for this step, and in the first
  // step for all ends.
  template <class F>
  __device__ void each_reached(int32_t step, int64_t most, const F& f) const {
    if (step == 0) {
      each_by_group(team, w.control->ends, width, [&](int64_t k, int lane, bool there) {
        each_near(there, there ? w.list[1][k] : 0, 0, lane, most, f);
      });
    }
    const int32_t* const queue = w.queue[step % 2];
    each_by_group(team, waiting(step), width, [&](int64_t k, int lane, bool there) {
      const int32_t x = there ? queue[k] : 0;
      const int64_t dist = there ? w.dist[x] : kNever;
      const bool near = there && dist <= most;
      each_near(near, near ? mate(x) : 0, dist, lane, most, f);
    });
  }
  // Queues x for the next step if it is paired and not queued yet.
  __device__ void push(int32_t x, int32_t step) const {
    if (mate(x) == kNone || atomicExch(&w.queued[x], step) == step) return;
    w.queue[(step + 1) % 2][atomicAdd(&w.control->queued[(step + 1) % 3], 1)] = x;
  }
  // The number of queued vertices of a step. All lanes of a warp must call it.
  __device__ int32_t waiting(int32_t step) const {
    return __shfl_sync(kAllLanes, w.control->queued[step % 3], 0);
  }
  // After it, the queue of the next step is known.
  __device__ void end_step(int32_t step) const {
    team.one([&] { w.control->queued[(step + 2) % 3] = w.control->reached[(step + 2) % 3] = 0; });
    team.sync();
  }

  // Lists the free own vertices in order. Returns their number.
  __device__ int32_t list_own_free() const {
    return compact(
        team, g.count(), w.of_warps, w.list[0],
        [&](int64_t x) { return g.pair(int32_t(x)) == kFree; },
        [](int64_t x) { return int32_t(x); });
  }
  // The largest label of the `count` listed vertices.
  __device__ int64_t farthest(int32_t count) const {
    uint64_t most = ~uint64_t(0), none = 0;  // `most` is the complement of the label
    team.each(count, [&](int64_t k) { most = min(most, ~uint64_t(w.dist[w.list[0][k]])); });
    team.least_of_each(most, none);
    return int64_t(~most);
  }

  // Finds the labels of all own vertices up to that of the farthest of the `count` listed vertices,
  // and returns this label.
  __device__ int64_t find_labels(int32_t count) const {
    constexpr int32_t kEvery = 8;  // steps between two updates of the limit `most`
    int64_t most = kNever;
    int32_t step = 0;
    do {
      if (step % kEvery == kEvery / 2) most = farthest(count);
      each_reached(step, most, [&](int32_t x, int64_t label, int64_t) {
        if (label < w.dist[x] && least_at(&w.dist[x], label) > uint64_t(label)) push(x, step);
      });
      end_step(step);
      ++step;
    } while (waiting(step) > 0);
    return farthest(count);
  }

  // Sets the path of x if it is better than the one known. A free vertex is counted once.
  __device__ void reach(int32_t x, uint64_t by, int32_t step) const {
    if (atomic_min(&w.by[x], by) >> 32 <= by >> 32) return;
    push(x, step);
    if (g.pair(x) == kFree) atomicAdd(&w.control->reached[(step + 1) % 3], 1);
  }

  // Finds a shortest path for each of the `count` listed vertices. None is farther than `most`.
  __device__ void find_paths(int32_t count, int64_t most) const {
    team.each(g.count(), [&](int64_t x) { w.queued[x] = kNotQueued; });
    team.one([&] { clear_counts(); });
    team.sync();
    for (int32_t step = 0, left = count;; ++step) {
      left -= __shfl_sync(kAllLanes, w.control->reached[step % 3], 0);
      if (left <= 0 || (step > 0 && waiting(step) == 0)) break;
      if (step == 0 && !kOfCols && !c.all_matched) {
        // Rows whose nearest end is to stay unmatched.
        team.each(g.count(), [&](int64_t k) {
          const int32_t x = int32_t(k);
          if (w.stay[x] == kNever || g.pair(x) == kStays || w.dist[x] > most) return;
          if (w.dist[x] == w.stay[x] - g.dual()[x]) reach(x, way(1, kStays), 0);
        });
      }
      each_reached(step, most, [&](int32_t x, int64_t dist, int64_t place) {
        if (dist == w.dist[x]) reach(x, way(step + 1, edges_of_other().edge_at(place)), step);
      });
      end_step(step);
    }
  }

  // The next edge on the path from x. Labels fall along it, as each edge adds to them.
  __device__ int32_t next_edge(int32_t x, int lane) const {
    Choice next;
    if (x != kNone) {
      const int64_t label = w.dist[x], dual = g.dual()[x];
      g.each_of_own(x, lane, width, [&](int32_t edge) {
        const int32_t y = g.other(edge), holder = g.holder(y);
        const int64_t after = holder == kNone ? 0 : w.dist[holder];
        const int64_t length = label_of(w.cost[edge] - g.other_dual()[y] - dual);
        if (after < label && label - after == length) next.include(after, edge);
      });
      const bool may_stay = g.pair(x) != kStays && g.stay(x) != kNever;
      if (lane == 0 && may_stay && label == label_of(g.stay(x) - dual)) next.include(0, kStays);
    }
    next.merge(width);
    return next.edge;
  }

  // Walks along a shortest path from each of the `count` listed vertices.
  __device__ void walk_paths(int32_t count) const {
    each_by_group(team, count, width, [&](int64_t k, int lane, bool there) {
      int32_t x = there ? w.list[0][k] : kNone;
#pragma unroll 1
      while (__ballot_sync(kAllLanes, x != kNone) != 0) {
        const int32_t edge = next_edge(x, lane);
        if (lane == 0 && x != kNone) {
          w.by[x] = way(0, edge);
          x = edge == kStays ? kNone : g.holder(g.other(edge));
          if (x != kNone && w.by[x] != kNoWay) x = kNone;  // another walk has been there
        }
        x = __shfl_sync(kAllLanes, x, team.lane() - lane);
      }
    });
    team.sync();
  }

  __device__ void move_duals(int64_t most) const {
    team.each(g.count(), [&](int64_t x) {
      const int32_t pair = g.pair(int32_t(x));
      if (pair == kStays) return;
      const int64_t by = min(distance_of(w.dist[x]), most);
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

  // Matches some of the free vertices, or leaves rows unmatched. Only the limit on `moved` bounds
  // the dual of a vertex without a path.
  __device__ __noinline__ Status match_some() {
    constexpr int64_t kMostMoved = int64_t(1) << 60;
    if (updates.count++ == 0 && c.order_by_col) list_by_col();
    const int32_t count = list_own_free();
    // A path has no more edges than own vertices. Lengths without a label exceed all distances
    // below kMostLabel; farther away a path by such an edge might be shorter.
    constexpr int64_t kMostLabel = int64_t(1) << 61;
    bits = updates.too_long ? 0 : 64 - __clzll(g.count());
    begin(count);
    int64_t most = find_labels(count);
    if (bits > 0 && most >= kMostLabel) {
      updates.too_long = true;
      bits = 0;
      begin(count);
      most = find_labels(count);
    }
    if (most == kNever) return kInfeasible;
    most = distance_of(most);
    if (most > kMostMoved - updates.moved) return kOverflow;
    updates.moved += most;
    if (bits > 0) {
      walk_paths(count);
    } else {
      find_paths(count, most);
    }
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

// Matches all free rows, or leaves them unmatched at their cost.
template <class Team>
__device__ Status match_by_updates(const Team& team, const Canonical& c, const Workspace& w,
                                   int width, Updates& updates) {
  Status status = kOptimal;
  // The first update labels rows, because that sets the duals of free rows.
  for (bool of_cols = false; status == kOptimal && list_free(team, c, w) > 0;
       of_cols = c.all_matched && !of_cols) {
    status = of_cols ? PriceUpdate<Team, true>{team, c, w, width, updates}.match_some()
                     : PriceUpdate<Team, false>{team, c, w, width, updates}.match_some();
  }
  return status;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_PRICE_UPDATES_CUH_
