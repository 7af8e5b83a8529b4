// Arcs between few columns, and the pairs behind these arcs. A pair is a row and a column that
// holds mass of the row. The pair behind an arc is the one that is the cheapest to move from the
// arc's first column to its second. The extra cost of this move is the length of the arc.
#ifndef JAXMATCH_CUDA_TRANSPORT_COLUMN_ARCS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_COLUMN_ARCS_CUH_

#include "transport/cuda/few_columns.cuh"
#include "transport/cuda/holdings.cuh"

namespace jaxmatch::transport {

// A pair that has lost all its mass keeps its place until the column needs more room. Functions
// that take most of the time work on copies of this struct, which stay in registers.
template <class C, int kLane>
struct ColumnArcs {
  const FewColumns<C, kLane> f;
  const Team team;
  const Workspace& w;
  FewColumnsState& s;
  const Holdings h;
  const bool in_shared;  // whether the lengths are in shared memory

  static constexpr int64_t kNoArc = INT64_MAX;

  __device__ explicit ColumnArcs(const FewColumns<C, kLane>& f)
      : f(f),
        team(f.team),
        w(f.w),
        s(*f.team.s.few()),
        h(f.w, 0),
        in_shared(f.team.s.lengths_in_shared) {}

  // The length of the arc from column j to column k. Only the first block uses it.
  __device__ int64_t& length(int32_t j, int32_t k) const {
    int64_t* const all = in_shared ? reinterpret_cast<int64_t*>(&s + 1) : w.length;
    return all[j * f.cols + k];
  }
  // The pair behind the arc from column j to column k: its row, and its place in column j.
  __device__ uint64_t& pair(int32_t j, int32_t k) const { return w.arc[j * f.cols + k]; }
  // The index of the arc from column j to column k in w.length and w.arc, as found among one part
  // of the pairs of column j.
  __device__ int32_t place_of(int32_t part, int32_t j, int32_t k) const {
    return (part * f.cols + j) * f.cols + k;
  }
  __device__ int32_t parts(int32_t changed) const {
    return max(1, min(kMostParts, team.blocks / max(changed, 1)));
  }
  __device__ static uint64_t pair_of(int32_t row, int32_t place) {
    return uint64_t(uint32_t(row)) << 32 | uint32_t(place);
  }
  __device__ Holding& holding(int32_t j, uint64_t pair) const {
    return h.pool[w.segment[j].first + int32_t(uint32_t(pair))];
  }
  __device__ int32_t& col_of(int32_t i) const { return w.scratch[0][i]; }
  __device__ int32_t& is_split(int32_t i) const { return w.scratch[1][i]; }

  // Puts each row as a whole into the column of least reduced cost.
  __device__ void place_rows() const {
    f.each_own_column([&](int32_t k) {
      s.load[k] = 0;
      if (team.rank == 0) w.load[k] = 0;
    });
    team.sync();
    const FewCosts<C> costs(f.costs);
    f.each_row([&](int32_t i, bool exists) {
      int64_t least = kNoArc;
      int32_t col = INT32_MAX;
      f.each_column([&](int, int32_t k) {
        if (!exists || k >= f.cols || f.wanted(k) == 0) return;
        const int64_t x = costs.exact(i, k) - w.col_price[k];
        if (x >= least) return;
        least = x;
        col = k;
      });
      const int64_t all = f.of_group(least, [](int64_t x, int64_t y) { return min(x, y); });
      col = f.of_group(least == all ? col : INT32_MAX,
                       [](int32_t x, int32_t y) { return min(x, y); });
      if (!exists || team.lane() % f.width != 0) return;
      col_of(i) = col;
      is_split(i) = 0;
      atomicAdd(&s.load[col], 1u);
    });
    team.sync_block();
    f.each_own_column([&](int32_t k) {
      s.base[k] = s.load[k] > 0 ? int32_t(atomicAdd(&w.load[k], s.load[k])) : 0;
      s.load[k] = 0;
    });
    team.sync();
    team.one([&] {
      int32_t first = 0;
      for (int32_t k = 0; k < f.cols; ++k) {
        const int32_t count = int32_t(w.load[k]), room = count + count / 4 + kSpareRoom;
        w.segment[k] = {first, count, room};
        first += room;
      }
      w.control->used = first;
    });
    team.sync();
    for (int32_t i = f.first_row() + int32_t(threadIdx.x); i < f.last_row();
         i += team.block_threads()) {
      const int64_t mass = f.mass(i);
      if (mass == 0) continue;
      const int32_t k = col_of(i);
      h.pool[w.segment[k].first + s.base[k] + int32_t(atomicAdd(&s.load[k], 1u))] = {mass, 0, i};
    }
    team.sync();
  }

  // Finds the arcs from column j to all columns, among part `part` of `parts` parts of its pairs.
  // One block calls it.
  __device__ void find(int32_t j, int32_t part, int32_t parts) const {
    ColumnArcs(*this).find_here(j, part, parts);
  }

  // Gives column k mass of a row, and updates the arcs from k. `whole`: this is all mass of the
  // row. Returns false if the pool has no place for the pair. One warp of the first block calls it.
  __device__ bool add(int32_t k, int32_t row, int64_t mass, bool whole) const {
    return ColumnArcs(*this).add_here(k, row, mass, whole);
  }

 private:
  __device__ void find_here(int32_t j, int32_t part, int32_t parts) const {
    constexpr int kAtOnce = C::kComputed ? 1 : 4;  // pairs at a time
    const FewCosts<C> costs(f.costs);
    const Segment own = w.segment[j];
    const int32_t step = parts * team.block_warps();
    int64_t least[kLane];
    uint64_t first[kLane];
#pragma unroll
    for (int a = 0; a < kLane; ++a) {
      least[a] = kNoArc;
      first[a] = ~uint64_t(0);
    }
    for (int32_t q = part * team.block_warps() + team.warp_of_block(); q < own.count;
         q += kAtOnce * step) {
      Holding held[kAtOnce];
#pragma unroll
      for (int b = 0; b < kAtOnce; ++b) {
        const int32_t at = q + b * step;
        held[b] = at < own.count ? h.pool[own.first + at] : Holding{0, 0, 0};
      }
      include(costs, j, q, step, held, least, first);
    }
    join(j, part, least, first);
  }

  __device__ bool add_here(int32_t k, int32_t row, int64_t mass, bool whole) const {
    Segment own = w.segment[k];
    int32_t place = kNone;
    if (!whole) {
      for (int32_t q = h.lane; q < own.count; q += kWarpSize) {
        if (h.pool[own.first + q].row == row) place = q;
      }
      place = int32_t(__reduce_max_sync(kAllLanes, uint32_t(place + 1))) - 1;
    }
    __syncwarp();
    if (place == kNone) {
      if (own.count == own.room && !grow(k, own)) return false;
      place = own.count++;
      if (h.lane == 0) h.pool[own.first + place] = {0, 0, row};
      __syncwarp();
    }
    if (h.lane == 0) {
      h.pool[own.first + place].mass += mass;
      w.segment[k] = own;
    }
    const FewCosts<C> costs(f.costs);
    const int64_t here = costs.exact(row, k);
    for (int32_t other = h.lane; other < f.cols; other += kWarpSize) {
      if (other == k || f.wanted(other) == 0) continue;
      const int64_t x = costs.exact(row, other) - here;
      const uint64_t mine = pair_of(row, place);
      if (x > length(k, other) || (x == length(k, other) && mine > pair(k, other))) continue;
      length(k, other) = x;
      pair(k, other) = mine;
    }
    return true;
  }
  // Drops the pairs without mass. If that makes too little room, moves the remaining pairs to a
  // larger place.
  __device__ bool grow(int32_t k, Segment& own) const {
    int32_t live = 0;
    for (int32_t q = h.lane; q < own.count; q += kWarpSize) live += h.pool[own.first + q].mass > 0;
    live = __reduce_add_sync(kAllLanes, live);
    Segment more = own;
    if (live + live / 3 >= own.room && !h.reserve(more, live + live / 3 + 1)) return false;
    more.count = 0;
    for (int32_t first = 0; first < own.count; first += kWarpSize) {
      const bool exists = first + h.lane < own.count;
      const Holding held = exists ? h.pool[own.first + first + h.lane] : Holding{0, 0, 0};
      __syncwarp();
      const unsigned lanes = __ballot_sync(kAllLanes, held.mass > 0);
      const int32_t place = more.first + more.count + __popc(lanes & lanes_below(h.lane));
      if (held.mass > 0) h.pool[place] = held;
      more.count += __popc(lanes);
      __syncwarp();
    }
    own = more;
    if (h.lane == 0) s.changed[k] = 1;
    return true;
  }

  // Updates `least` and `first`, the lengths of the arcs from column j and the pairs behind them,
  // with the pairs `held`. One warp calls it.
  template <int N>
  __device__ void include(const FewCosts<C>& costs, int32_t j, int32_t q, int32_t step,
                          const Holding (&held)[N], int64_t (&least)[kLane],
                          uint64_t (&first)[kLane]) const {
    typename C::Raw raw[N][kLane], here[N];
#pragma unroll
    for (int b = 0; b < N; ++b) {
      here[b] = costs.raw(held[b].row, j);
#pragma unroll
      for (int a = 0; a < kLane; ++a) {
        if (a * kWarpSize >= f.cols) continue;
        raw[b][a] = costs.raw(held[b].row, min(team.lane() + a * kWarpSize, f.cols - 1));
      }
    }
    keep_loads_together();
#pragma unroll
    for (int b = 0; b < N; ++b) {
      if (held[b].mass == 0) continue;
      const int64_t less = costs.exact(here[b], held[b].row, j);
#pragma unroll
      for (int a = 0; a < kLane; ++a) {
        if (a * kWarpSize >= f.cols) continue;
        const int32_t k = min(team.lane() + a * kWarpSize, f.cols - 1);
        const int64_t x = costs.exact(raw[b][a], held[b].row, k) - less;
        const uint64_t mine = pair_of(held[b].row, q + b * step);
        if (x > least[a] || (x == least[a] && mine > first[a])) continue;
        least[a] = x;
        first[a] = mine;
      }
    }
  }
  // Joins what all warps have found: writes the least length of each arc, and the pair behind it.
  __device__ void join(int32_t j, int32_t part, const int64_t (&least)[kLane],
                       const uint64_t (&first)[kLane]) const {
#pragma unroll
    for (int a = 0; a < kLane; ++a) {
      if (a * kWarpSize >= f.cols) continue;
      s.least[threadIdx.x] = least[a];
      s.of_pair[threadIdx.x] = first[a];
      team.sync_block();
      const int32_t k = team.lane() + a * kWarpSize;
      if (team.warp_of_block() == 0 && k < f.cols) {
        int64_t x = kNoArc;
        uint64_t mine = ~uint64_t(0);
        for (int warp = 0; warp < team.block_warps(); ++warp) {
          const int at = warp * kWarpSize + team.lane();
          if (s.least[at] > x || (s.least[at] == x && s.of_pair[at] > mine)) continue;
          x = s.least[at];
          mine = s.of_pair[at];
        }
        w.length[place_of(part, j, k)] = k == j || f.wanted(k) == 0 ? kNoArc : x;
        w.arc[place_of(part, j, k)] = mine;
      }
      team.sync_block();
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_COLUMN_ARCS_CUH_
