// Moves free mass (mass of rows that no column holds) along shortest augmenting paths to columns
// with room. The paths begin at all rows with free mass at once, and lengths are exact whole units.
// The plan of the mass that columns hold stays optimal.
#ifndef JAXMATCH_CUDA_TRANSPORT_PATHS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_PATHS_CUH_

#include "transport/cuda/refine_prices.cuh"

namespace jaxmatch::transport {

// A pair is a row and a column that holds mass of the row. A pair is tight if its reduced cost is
// what the row pays: the least reduced cost of the row.
//
// The work is done in phases. A phase first makes each row with free mass pay `step` more than its
// least reduced cost. Prices then fall until no row would pay less in any other column, and all
// pairs are tight again. Now tight paths lead from the rows with free mass to all columns whose
// prices have fallen. They form a forest. Columns with room request mass up its trees, level by
// level, and the mass moves down.
template <class C>
struct FreeMass {
  PriceLabels<C>& labels;
  const Team team;
  const C& c;
  const Workspace& w;
  const Holdings h;
  int32_t first_round = 0;  // first round of this phase

  __device__ explicit FreeMass(PriceLabels<C>& labels)
      : labels(labels),
        team(labels.team),
        c(labels.c),
        w(labels.w),
        h{labels.w, labels.pool == labels.w.pool[1] ? 1 : 0} {}

  // For each node: the mass that is requested from it, and the mass that it gets.
  __device__ int64_t& asked(int64_t x) const { return w.mass[x]; }
  __device__ int64_t& got(int64_t x) const { return reinterpret_cast<int64_t*>(w.key)[x]; }
  // The node before x on its path; INT32_MAX for rows with free mass and for nodes without a path.
  __device__ int32_t& before(int64_t x) const { return w.scratch[3][x]; }
  // For a row, the first of the columns after it that request mass. For a column, the least
  // first_col() of the rows after it. (Paths lead from rows with free mass to columns with room.)
  __device__ int32_t& first_col(int64_t x) const { return w.in_forest[x]; }
  // The index in the pool of the holding of row i's mass in the column before the row.
  __device__ int32_t& place(int64_t i) const { return w.list[0][i]; }

  __device__ int64_t col(int64_t j) const { return c.p.n + j; }
  __device__ bool is_source(int64_t i) const { return labels.listed_in(i) == first_round; }
  __device__ int64_t room(int64_t j) const { return c.demand[j] - w.held[j]; }
  // How much of the requested mass row i can pass on.
  __device__ int64_t has(int64_t i) const {
    return min(asked(i), is_source(i) ? w.rest[i] : labels.pool[place(i)].mass);
  }

  __device__ int64_t free_mass() const {
    int64_t own = 0;
    team.each(c.p.n, [&](int64_t i) { own += w.rest[i]; });
    return team.sum(own);
  }

  // Makes each row with free mass pay `step` more than its least reduced cost, and lowers the
  // prices accordingly. Returns whether a column with room was reached.
  __device__ bool lower(int64_t step) {
    first_round = labels.round;
    team.each_by_warp(c.p.n, [&](int64_t i) {
      if (w.rest[i] == 0) return;
      const int64_t least = labels.least_of(i);
      __syncwarp();
      if (team.lane() != 0) return;
      labels.pays(i) = least + step;
      labels.list_row(int32_t(i));
    });
    team.sync();
    labels.lower_prices();
    labels.settle(INT64_MAX);
    bool reached = false;
    team.each(c.p.m, [&](int64_t j) {
      const bool here = labels.col_listed_in(j) > first_round;
      asked(col(j)) = here ? room(j) : 0;
      reached |= asked(col(j)) > 0;
      got(col(j)) = 0;
      before(col(j)) = first_col(col(j)) = INT32_MAX;
    });
    team.each(c.p.n, [&](int64_t i) {
      asked(i) = got(i) = 0;
      before(i) = first_col(i) = INT32_MAX;
    });
    return team.any(reached);
  }

  // Finds the node before each node that was reached, and makes room for one more pair in each
  // column that was reached. Returns false if the pool of pairs is full.
  __device__ bool find_forest() const {
    team.each_by_warp(c.p.n, [&](int64_t i) {
      const int32_t level = labels.listed_in(i);
      if (level < first_round) return;
      const int64_t own = labels.pays(i);
      labels.each_cost(i, [&](int32_t j, int64_t x) {
        if (labels.col_listed_in(j) != level + 1 || x - labels.price(j) != own) return;
        atomicMin(&before(col(j)), int32_t(i));
      });
    });
    team.each_by_warp(c.p.m, [&](int64_t j) {
      const int32_t level = labels.col_listed_in(j);
      if (level <= first_round) return;
      labels.each_pair(int32_t(j), [&](int32_t i, int32_t) {
        if (labels.listed_in(i) != level || c.units(i, j) - labels.price(j) != labels.pays(i))
          return;
        atomicMin(&before(i), int32_t(j));
      });
      make_room(int32_t(j));
    });
    team.sync();
    team.each_by_warp(c.p.m, [&](int64_t j) {
      if (labels.col_listed_in(j) <= first_round) return;
      labels.each_pair(int32_t(j), [&](int32_t i, int32_t at) {
        if (before(i) == j) place(i) = at;
      });
    });
    team.sync();
    return w.control->full == 0;
  }
  // Makes room for one more pair in column j.
  __device__ void make_room(int32_t j) const {
    Segment s = w.segment[j];
    if (s.count < s.room) return;
    const int32_t old = s.first;
    __syncwarp();
    if (!h.reserve(s, s.count + 1)) {
      w.control->full = 1;
      return;
    }
    for (int32_t k = h.lane; k < s.count; k += kWarpSize) h.pool[s.first + k] = h.pool[old + k];
    __syncwarp();
    if (h.lane == 0) w.segment[j] = s;
  }

  __device__ void ask() const {
    for (int32_t level = labels.round; level > first_round; --level) {
      team.each(c.p.m, [&](int64_t j) {
        if (labels.col_listed_in(j) != level || asked(col(j)) == 0) return;
        const int32_t i = before(col(j));
        atomic_add(&asked(i), asked(col(j)));
        atomicMin(&first_col(i), int32_t(j));
      });
      team.sync();
      if (level - 1 == first_round) return;
      team.each(c.p.n, [&](int64_t i) {
        if (labels.listed_in(i) != level - 1 || asked(i) == 0) return;
        const int64_t x = col(before(i));
        atomic_add(&asked(x), has(i));
        atomicMin(&first_col(x), first_col(i));
      });
      team.sync();
    }
  }

  // Divides `mass` among nodes that request it, in the order of columns from `first` on. Each of
  // these nodes belongs to a column j: wants(j) is its request, or 0, and give(j, part) gives it
  // mass. All lanes call wants(j). One warp calls this function.
  template <class Wants, class Give>
  __device__ void divide(int64_t mass, int32_t first, const Wants& wants, const Give& give) const {
    const int32_t m = int32_t(c.p.m);
    for (int32_t from = first; mass > 0 && from < m; from += kWarpSize) {
      const int32_t j = from + team.lane();
      const int64_t wanted = j < m ? wants(j) : 0;
      for (unsigned lanes = __ballot_sync(kAllLanes, wanted > 0); lanes != 0; lanes &= lanes - 1) {
        const int lane = __ffs(int(lanes)) - 1;
        const int64_t here = __shfl_sync(kAllLanes, wanted, lane);
        const int64_t part = here < mass ? here : mass;
        if (team.lane() == lane && part > 0) give(j, part);
        mass -= part;
      }
    }
  }
  // Row i passes on the mass that it gets.
  __device__ void hand_on(int32_t i) const {
    const int32_t first = first_col(i);
    const int64_t mass = is_source(i) ? has(i) : got(i);
    if (mass == 0) return;
    divide(
        mass, first, [&](int32_t j) { return before(col(j)) == i ? asked(col(j)) : 0; },
        [&](int32_t j, int64_t part) { got(col(j)) = part; });
    __syncwarp();
    if (is_source(i) && team.lane() == 0) w.rest[i] -= mass;
  }
  // Column j takes its mass from the row before it, and gives mass back to the rows after it.
  __device__ void take(int32_t j) const {
    const int64_t mass = got(col(j));
    const int64_t kept = min(mass, room(j));
    divide(
        mass - kept, first_col(col(j)),
        [&](int32_t k) {
          const int32_t i = before(col(k));
          const bool after = i != INT32_MAX && first_col(i) == k && before(i) == j;
          return after ? has(i) : 0;
        },
        [&](int32_t k, int64_t part) {
          const int32_t i = before(col(k));
          got(i) = part;
          h.pool[place(i)].mass -= part;
        });
    __syncwarp();
    add_pair(j, before(col(j)), mass);
    if (h.lane == 0) w.held[j] += kept;
  }
  // Adds mass to the pair of a row and column j, which may be new. Removes pairs without mass.
  __device__ void add_pair(int32_t j, int32_t row, int64_t mass) const {
    Segment s = w.segment[j];
    const int32_t all = s.count;
    bool known = false;
    s.count = 0;
    __syncwarp();
    for (int32_t first = 0; first < all; first += kWarpSize) {
      Holding own = first + h.lane < all ? h.pool[s.first + first + h.lane] : Holding{0, 0, 0};
      const bool same = own.mass > 0 && own.row == row;
      if (same) own.mass += mass;
      known |= __any_sync(kAllLanes, same);
      const unsigned lanes = __ballot_sync(kAllLanes, own.mass > 0);
      if (own.mass > 0) h.pool[s.first + s.count + __popc(lanes & lanes_below(h.lane))] = own;
      s.count += __popc(lanes);
      __syncwarp();
    }
    if (h.lane != 0) return;
    if (!known) h.pool[s.first + s.count++] = {mass, 0, row};
    w.segment[j] = s;
  }

  __device__ void move() const {
    for (int32_t level = first_round; level < labels.round; ++level) {
      // The warp of the first column that requests mass from a row handles the row.
      team.each_by_warp(c.p.m, [&](int64_t j) {
        if (labels.col_listed_in(j) != level + 1) return;
        const int32_t i = before(col(j));
        if (first_col(i) == j) hand_on(i);
      });
      team.sync();
      team.each_by_warp(c.p.m, [&](int64_t j) {
        if (labels.col_listed_in(j) == level + 1 && got(col(j)) > 0) take(int32_t(j));
      });
      team.sync();
    }
  }

  // Moves free mass until none is left or a limit is reached. All pairs must be tight at the
  // beginning. After a phase that moves much mass, other tight paths usually remain. The next phase
  // finds them with the least possible step, one `bit`.
  __device__ void run(int64_t bit) {
    constexpr int64_t kMostLowered = int64_t(1) << 57, kGrows = 4, kGoodPart = 32;
    constexpr int32_t kMostPhases = 4096;
    int64_t left = free_mass(), lowered = 0, step = bit;
    bool again = false;
    for (int32_t phase = 0; left > 0 && phase < kMostPhases && lowered < kMostLowered; ++phase) {
      const int64_t own = again ? bit : step;
      lowered += own;
      if (!lower(own)) {
        if (!again) step *= kGrows;
        again = false;
        continue;
      }
      if (!find_forest()) return;
      ask();
      move();
      const int64_t now = free_mass();
      again = left - now > left / kGoodPart;
      left = now;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_PATHS_CUH_
