// The network simplex method on a strongly feasible basis (Ahuja, Magnanti and Orlin, Network
// Flows, 1993, chapter 11). Prices are exact, in whole units.
//
// All warps scan parts of rows. For each part, a warp offers the arc of least reduced cost. Then
// one block lets these arcs enter the basis, the best first, while their reduced cost is negative
// at the current prices.
#ifndef JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_
#define JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_

#include "transport/cuda/tree.cuh"

namespace jaxmatch::transport {

template <class C>
struct Simplex {
  const Tree<C> t;  // the tree, for the first block
  const Team team;  // all blocks
  const Workspace& w;

  // Finds the arc of least reduced cost from row i to the columns in [first, last). Sets `gain` to
  // its reduced cost, or to 0 if none is negative. Only reduced costs that may be negative are
  // computed exactly. One warp calls it; every lane gets the result.
  __device__ void price(int32_t i, int32_t first, int32_t last, int64_t& gain, int32_t& col) const {
    constexpr int kAtOnce = C::kComputed ? 4 : 8;  // loads in flight together
    const C& c = t.c;
    const int64_t u = w.price[i];
    const float near = w.shadow[i];
    gain = 0;
    col = INT32_MAX;
    const auto costs = c.row(i);
    const auto include = [&](typename C::Raw raw, int32_t j) {
      // Three numbers and two differences are rounded to float32 once each, which bounds the error.
      const float cost = c.estimate(raw), v = w.shadow[t.rows + j];
      const float most = fabsf(cost) + fabsf(near) + fabsf(v);
      if (cost - near - v > most * 0x1p-20f + 0x1p-100f || c.demand[j] == 0) return;
      const int64_t x = c.units_of(raw) - u - w.price[t.rows + j];
      col = x < gain ? j : col;
      gain = x < gain ? x : gain;
    };
    int32_t j = first + team.lane();
    for (; j - team.lane() + kAtOnce * kWarpSize <= last; j += kAtOnce * kWarpSize) {
      typename C::Raw raw[kAtOnce];
      load_group(costs.from(j), raw);
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) include(raw[a], j + a * kWarpSize);
    }
    for (; j < last; j += kWarpSize) include(costs.raw(j), j);
    // With its sign bit flipped, a signed number is ordered as an unsigned one.
    const uint64_t own = uint64_t(gain) ^ (uint64_t(1) << 63), best = warp_least(own);
    col = __reduce_min_sync(kAllLanes, own == best ? col : INT32_MAX);
    gain = int64_t(best ^ (uint64_t(1) << 63));
  }

  static constexpr uint64_t kNoArc = ~uint64_t(0);

  // Calls price() for all parts of all rows. For each part, a warp writes the best arc that may
  // enter the basis, and its cost, to the place of the part, so the order of threads does not
  // matter. Returns the number of parts, or 0 if no arc may enter.
  __device__ int32_t price_all() {
    constexpr int64_t kPart = 512;  // columns of a part; more if there is no room for so many parts
    const C& c = t.c;
    int32_t& count = w.control->arcs;
    team.one([&] { count = 0; });
    team.sync();
    const int64_t most = w.entries / c.p.n, wanted = (c.p.m + kPart - 1) / kPart;
    const int64_t parts = wanted < most ? wanted : most, width = (c.p.m + parts - 1) / parts;
    team.each_by_warp(c.p.n * parts, [&](int64_t k) {
      const int32_t i = int32_t(k / parts), first = int32_t(k % parts * width);
      int64_t gain = 0;
      int32_t col = 0;
      if (c.supply[i] > 0) price(i, first, int32_t(min(first + width, c.p.m)), gain, col);
      if (team.lane() != 0) return;
      w.key[k] = gain < 0 ? uint64_t(uint32_t(i)) << 32 | uint32_t(col) : kNoArc;
      if (gain == 0) return;
      w.mass[k] = c.units(i, col);
      count = 1;
    });
    team.sync();
    return count > 0 ? int32_t(c.p.n * parts) : 0;
  }

  // Lets the arcs that price_all() found enter the basis, while their reduced cost is negative.
  // Each thread offers its best arc, then its next one. The first block calls it. Returns the
  // number of pivots.
  __device__ int32_t enter(int32_t count) const {
    int32_t pivots = 0;
    for (int32_t before = -1; before < pivots;) {
      before = pivots;
      int64_t gain = 0, cost = 0;
      uint64_t arc = ~uint64_t(0);
      t.team.each(count, [&](int64_t k) {
        if (w.key[k] == kNoArc) return;
        const int64_t x = reduced(w.mass[k], w.key[k]);
        if (x > gain || (x == gain && w.key[k] > arc)) return;
        gain = x;
        cost = w.mass[k];
        arc = w.key[k];
      });
      pivots += enter_best(arc, cost);
    }
    return pivots;
  }
  // Lets the best of the threads' arcs enter the basis, until no reduced cost is negative. Each
  // thread has at most one arc. Returns the number of pivots.
  __device__ int32_t enter_best(uint64_t own, int64_t cost) const {
    constexpr uint64_t kSign = uint64_t(1) << 63;
    for (int32_t pivots = 0;; ++pivots) {
      uint64_t arc = own, key = (own == ~uint64_t(0) ? 0 : uint64_t(reduced(cost, own))) ^ kSign;
      t.team.least(key, arc);
      const int64_t gain = int64_t(key ^ kSign);
      if (gain >= 0) return pivots;
      t.push(int32_t(arc >> 32), int32_t(arc), 0, gain);
    }
  }
  __device__ int64_t reduced(int64_t cost, uint64_t arc) const {
    return cost - w.price[int32_t(arc >> 32)] - w.price[t.rows + int32_t(arc)];
  }

  // Pivots until no reduced cost is negative.
  __device__ int32_t run() {
    int32_t pivots = 0;
    for (int32_t count; (count = price_all()) > 0;) {
      if (team.rank == 0) pivots += enter(count);
      team.sync();
    }
    return pivots;
  }
};

// Returns the number of pivots.
template <class C>
__device__ int32_t pivot_to_optimum(Tree<C> tree, Team team) {
  return Simplex<C>{tree, team, tree.w}.run();
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_
