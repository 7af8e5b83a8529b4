// Plans for few columns by shortest augmenting paths between columns (as Tokuyama and Nakano,
// Efficient algorithms for the Hitchcock transportation problem, 1995). At first every row is in
// its cheapest column at the current prices. A path leads from a column with too much mass to one
// with too little, and mass moves along it. A pair is a row and a column that holds mass of the
// row. An arc between two columns stands for the pair that is the cheapest to move
// (column_arcs.cuh).
#ifndef JAXMATCH_CUDA_TRANSPORT_COLUMN_PATHS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_COLUMN_PATHS_CUH_

#include <type_traits>

#include "transport/cuda/ascent.cuh"
#include "transport/cuda/column_arcs.cuh"

namespace jaxmatch::transport {

// All blocks recompute the arcs (column_arcs.cuh) from columns that have changed. The first block
// searches, and moves mass along the paths to all columns that lack mass. The result does not
// depend on the order of threads: of rows that are equally cheap to move, the lowest one moves.
template <class C, int kLane>
struct ColumnPaths {
  const FewColumns<C, kLane> f;
  const Team team;
  const Workspace& w;
  FewColumnsState& s;
  const ColumnArcs<C, kLane> arcs;

  __device__ explicit ColumnPaths(const FewColumns<C, kLane>& f)
      : f(f), team(f.team), w(f.w), s(*f.team.s.few()), arcs(f) {}

  __device__ int32_t& num_changed() const { return w.control->listed[0]; }
  __device__ int32_t& ends() const { return w.control->found; }

  // Finds the plan. All blocks call it. Returns the number of searches.
  __device__ int32_t run() const {
    constexpr int32_t kFewPairs = 512;
    arcs.place_rows();
    begin();
    int32_t searches = 0;
    for (;;) {
      int32_t parts = arcs.parts(num_changed());
      for (int32_t at = team.rank; at < num_changed() * parts; at += team.blocks) {
        arcs.find(w.changed[at / parts], at % parts, parts);
      }
      team.sync();
      if (team.rank == 0) {
        for (;; parts = 1) {
          load_lengths(parts);
          const bool moved = searches < f.rows && search();
          ++searches;
          const int32_t pairs = list_changed();
          team.one([&] { ends() = !moved; });
          team.sync_block();
          if (!moved || pairs > kFewPairs) break;
          for (int32_t at = 0; at < num_changed(); ++at) arcs.find(w.changed[at], 0, 1);
        }
      }
      team.sync();
      if (ends()) break;
    }
    end();
    return searches;
  }

 private:
  // Marks all columns as changed, and computes their masses above the demand.
  __device__ void begin() const {
    for (int32_t k = team.rank; k < f.cols; k += team.blocks) {
      const Segment own = w.segment[k];
      int64_t mass = 0;
      for (int32_t q = int32_t(threadIdx.x); q < own.count; q += team.block_threads()) {
        mass += arcs.h.pool[own.first + q].mass;
      }
      mass = team.alone().sum(mass);
      if (threadIdx.x == 0) {
        w.col_excess[k] = mass - f.wanted(k);
        w.changed[k] = k;
      }
    }
    team.one([&] {
      num_changed() = f.cols;
      w.control->full = 0;
    });
    team.sync();
    if (team.rank != 0) return;
    f.each_own_column([&](int32_t k) {
      s.excess[k] = w.col_excess[k];
      s.price[k] = w.col_price[k];
      s.changed[k] = 0;
    });
    team.sync_block();
  }

  // For each arc from a changed column, takes the least length found among the parts of the
  // column's pairs. Each part was searched by one block.
  __device__ void load_lengths(int32_t parts) const {
    const int32_t count = num_changed() * f.cols;
    for (int32_t at = int32_t(threadIdx.x); at < count; at += team.block_threads()) {
      const int32_t j = w.changed[at / f.cols], k = at % f.cols;
      int32_t best = arcs.place_of(0, j, k);
      for (int32_t part = 1; part < parts; ++part) {
        const int32_t here = arcs.place_of(part, j, k);
        const int64_t x = w.length[here], least = w.length[best];
        if (x < least || (x == least && w.arc[here] < w.arc[best])) best = here;
      }
      arcs.length(j, k) = w.length[best];
      arcs.pair(j, k) = w.arc[best];
    }
    team.sync_block();
  }

  // Lists the columns whose arcs must be recomputed. Returns the number of pairs in these columns.
  __device__ int32_t list_changed() const {
    team.one([&] { num_changed() = 0; });
    team.sync_block();
    int64_t pairs = 0;
    f.each_own_column([&](int32_t k) {
      if (!s.changed[k]) return;
      s.changed[k] = 0;
      w.changed[atomicAdd(&num_changed(), 1)] = k;
      pairs += w.segment[k].count;
    });
    return int32_t(min(team.alone().sum(pairs), int64_t(INT32_MAX)));
  }

  // Finds paths, and moves mass along them. The first block calls it. Returns false if no mass was
  // moved, or if the pool of pairs is full.
  __device__ bool search() const {
    bool found = false;
    if (team.warp_of_block() == 0) {
      const int32_t count = find_paths(arcs, s);
      found = count > 0;
      if (found) {
        take_pairs(arcs, s);
        if (team.lane() == 0) divide(s, count);
      }
    }
    if (!team.alone().any(found)) return false;
    // First takes mass from the pairs on the paths, because adding mass to a column may change the
    // places of its pairs.
    f.each_own_column([&](int32_t k) {
      if (s.flow[k] == 0) return;
      const int32_t from = s.before[k];
      Holding& own = arcs.holding(from, s.pair[k]);
      atomic_add(&own.mass, -s.flow[k]);
      if (s.left[s.owner[k]] == 0) s.changed[from] = 1;
      if (s.flow[k] < s.had[k]) arcs.is_split(own.row) = 1;
    });
    team.sync_block();
    for (int32_t k = team.warp_of_block(); k < f.cols; k += team.block_warps()) {
      if (s.flow[k] == 0) continue;
      const int32_t row = int32_t(s.pair[k] >> 32);
      const bool placed = arcs.add(k, row, s.flow[k], arcs.is_split(row) == 0);
      if (!placed) w.control->full = 1;
    }
    team.sync_block();
    return w.control->full == 0;
  }

  // Finds shortest paths from the columns with too much mass, until all columns with too little are
  // reached. Lowers the price of each column that is reached by the length of the longest path
  // minus the length of its own path. Returns the number of columns reached, or 0 if there is
  // nothing to move. One warp calls it.
  __device__ static int32_t find_paths(const ColumnArcs<C, kLane> arcs, FewColumnsState& s) {
    const int32_t lane = arcs.team.lane(), cols = arcs.f.cols;
    int64_t distance[kLane], price[kLane];
    int32_t before[kLane];
    uint32_t lacking = 0, done = 0;
#pragma unroll
    for (int a = 0; a < kLane; ++a) {
      const int32_t k = lane + a * kWarpSize;
      const int64_t excess = k < cols ? s.excess[k] : 0;
      distance[a] = excess > 0 ? 0 : arcs.kNoArc;
      price[a] = k < cols ? s.price[k] : 0;
      before[a] = kNone;
      lacking += excess < 0;
      if (k >= cols) done |= 1u << a;  // no such column
    }
    lacking = __reduce_add_sync(kAllLanes, lacking);
    int32_t count = 0;
    int64_t last = 0;
    while (lacking > 0) {
      int64_t least = arcs.kNoArc;
      int32_t col = INT32_MAX;
#pragma unroll
      for (int a = 0; a < kLane; ++a) {
        if (a * kWarpSize >= cols) continue;
        const bool nearer = !(done >> a & 1) && distance[a] < least;
        least = nearer ? distance[a] : least;
        col = nearer ? lane + a * kWarpSize : col;
      }
      least = least_of_lanes(least, col);
      if (least == arcs.kNoArc) return 0;
      if (lane == col % kWarpSize) done |= 1u << col / kWarpSize;
      if (lane == 0) s.order[count] = col;
      ++count;
      last = least;
      const int64_t from = least + s.price[col];
      lacking -= s.excess[col] < 0;
      int64_t length[kLane];
#pragma unroll
      for (int a = 0; a < kLane; ++a) {
        if (a * kWarpSize < cols) length[a] = arcs.length(col, min(lane + a * kWarpSize, cols - 1));
      }
#pragma unroll
      for (int a = 0; a < kLane; ++a) {
        if (a * kWarpSize >= cols) continue;
        const int64_t x = int64_t(uint64_t(from - price[a]) + uint64_t(length[a]));
        const bool nearer = length[a] != arcs.kNoArc && x < distance[a] && !(done >> a & 1);
        distance[a] = nearer ? x : distance[a];
        before[a] = nearer ? col : before[a];
      }
    }
    __syncwarp();
#pragma unroll
    for (int a = 0; a < kLane; ++a) {
      const int32_t k = lane + a * kWarpSize;
      if (k >= cols) continue;
      s.price[k] = price[a] + min(distance[a], last) - last;
      s.before[k] = done >> a & 1 ? before[a] : kNone;
    }
    __syncwarp();
    return count;
  }
  // The least of the lanes' numbers, which are not negative, and the first column that has it.
  // Usually the upper 32 bits decide, because they are least in one lane only.
  __device__ static int64_t least_of_lanes(int64_t x, int32_t& col) {
    const uint32_t high = uint32_t(uint64_t(x) >> 32);
    const uint32_t best = __reduce_min_sync(kAllLanes, high);
    const unsigned lanes = __ballot_sync(kAllLanes, high == best);
    if ((lanes & (lanes - 1)) == 0) {
      const int lane = __ffs(int(lanes)) - 1;
      col = __shfl_sync(kAllLanes, col, lane);
      return __shfl_sync(kAllLanes, x, lane);
    }
    const int64_t least = int64_t(warp_least(uint64_t(x)));
    col = __reduce_min_sync(kAllLanes, x == least ? col : INT32_MAX);
    return least;
  }

  // For each arc of the paths, finds its pair, the mass of the pair, and the first arc with the
  // same pair. One warp calls it.
  __device__ static void take_pairs(const ColumnArcs<C, kLane> arcs, FewColumnsState& s) {
    const int32_t lane = arcs.team.lane(), cols = arcs.f.cols;
    for (int32_t k = lane; k < cols; k += kWarpSize) {
      const int32_t from = s.before[k];
      s.flow[k] = 0;
      s.owner[k] = k;
      if (from == kNone) continue;
      s.pair[k] = arcs.pair(from, k);
      s.had[k] = s.left[k] = arcs.holding(from, s.pair[k]).mass;
    }
    __syncwarp();
    for (int32_t k = lane; k < cols; k += kWarpSize) {
      for (int32_t j = 0; j < k && s.before[k] != kNone; ++j) {
        if (s.before[j] != s.before[k] || s.pair[j] != s.pair[k]) continue;
        s.owner[k] = j;
        break;
      }
    }
    __syncwarp();
  }

  // Decides how much mass moves along each path. In the order of the search, each column gets as
  // much of its missing mass as possible. One thread calls it.
  __device__ static void divide(FewColumnsState& s, int32_t count) {
    for (int32_t at = 0; at < count; ++at) {
      const int32_t to = s.order[at];
      int64_t mass = -s.excess[to];
      if (mass <= 0) continue;
      int32_t top = to;
      for (int32_t from; (from = s.before[top]) != kNone; top = from) {
        mass = min(mass, s.left[s.owner[top]]);
      }
      mass = min(mass, s.excess[top]);
      if (mass <= 0) continue;
      for (int32_t k = to; k != top; k = s.before[k]) {
        s.left[s.owner[k]] -= mass;
        s.flow[k] += mass;
      }
      s.excess[to] += mass;
      s.excess[top] -= mass;
    }
  }

  // Rounds prices to multiples of f.bit, and takes mass above the demand from columns. If the pool
  // is full, takes all mass: the order of threads decides which pair finds no place in the full
  // pool, so the pairs depend on that order.
  __device__ void end() const {
    if (team.rank == 0) {
      const double per_unit = 1 / (double(f.bit) * double(int64_t(1) << f.costs.shift));
      f.each_own_column([&](int32_t k) {
        const double bits = rint(double(s.price[k]) * per_unit);
        w.col_price[k] = int64_t(bits) * f.bit;
      });
      team.sync_block();
      for (int32_t k = team.warp_of_block(); k < f.cols; k += team.block_warps()) {
        Segment own = w.segment[k];
        if (w.control->full != 0) own.count = 0;
        __syncwarp();  // all lanes have read the segment
        if (team.lane() == 0) w.segment[k] = own;
        int64_t mass = 0;
        for (int32_t q = team.lane(); q < own.count; q += kWarpSize) {
          mass += arcs.h.pool[own.first + q].mass;
        }
        mass = warp_sum(mass);
        if (mass <= f.wanted(k)) continue;
        arcs.h.trim(own, mass, f.wanted(k), [](int32_t, int64_t) {});
        __syncwarp();
        if (team.lane() == 0) w.segment[k] = own;
      }
    }
    team.sync();
    settle();
  }

  // Sets the prices of the given problem's columns, the free mass of its rows, and the mass that
  // its columns hold, also if the problem is turned.
  __device__ void settle() const {
    const C& c = f.c;
    team.each(f.cols, [&](int64_t k) { f.price(k) = w.col_price[k]; });
    if (f.turned) {
      team.each(f.rows, [&](int64_t i) {
        int64_t least = INT64_MAX;
        for (int32_t k = 0; k < f.cols; ++k) {
          if (f.wanted(k) > 0) least = min(least, c.units_of(f.costs.raw(i, k)) - w.col_price[k]);
        }
        w.price[c.p.n + i] = least;
      });
    }
    team.each(c.p.n, [&](int64_t i) { w.rest[i] = c.supply[i]; });
    team.each(c.p.m, [&](int64_t j) { w.held[j] = 0; });
    team.sync();
    team.each_by_warp(f.cols, [&](int64_t k) {
      const Segment own = w.segment[k];
      for (int32_t q = team.lane(); q < own.count; q += kWarpSize) {
        const Holding& held = arcs.h.pool[own.first + q];
        atomic_add(&w.rest[f.turned ? k : held.row], -held.mass);
        atomic_add(&w.held[f.turned ? held.row : k], held.mass);
      }
    });
    team.each(c.p.m, [&](int64_t j) {
      w.v[j] =
          c.demand[j] > 0 ? float(double(w.price[c.p.n + j]) / c.units_per_normal) : -kFarFloat;
    });
    team.sync();
  }
};

// Sets the prices of few columns, and which masses they hold. If the problem is turned
// (few_columns.cuh), rows hold mass of columns. Returns the number of searches.
template <int kLane, class C>
__device__ int32_t plan_columns(Team team, const C& c, const Workspace& w, bool warm) {
  FewColumns<C, kLane> f(team, c, w);
  f.survey();
  Ascent<C, kLane> ascent(f);
  ascent.run(warm);
  constexpr double kMostPrice = 0x1p58;
  const double scale = c.units_per_normal * double(int64_t(1) << f.costs.shift);
  team.each(f.cols, [&](int64_t k) {
    const double v = f.wanted(k) > 0 ? rint(double(ascent.s.v[k]) * scale) : 0;
    w.col_price[k] = int64_t(fmin(fmax(v, -kMostPrice), kMostPrice));
  });
  team.sync();
  return ColumnPaths<C, kLane>(f).run();
}
// With fewer columns per lane, the code takes fewer registers. This second copy of the code exists
// only for the most frequent type of costs.
template <class C>
__device__ int32_t plan_few_columns(Team team, const C& c, const Workspace& w, bool warm) {
  if constexpr (std::is_same_v<typename C::Type, Floats>) {
    constexpr int kFew = 2;
    if (min(c.p.n, c.p.m) <= kFew * kWarpSize) return plan_columns<kFew>(team, c, w, warm);
  }
  return plan_columns<kMostFewColumns / kWarpSize>(team, c, w, warm);
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_COLUMN_PATHS_CUH_
