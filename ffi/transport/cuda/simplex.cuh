// The network simplex method on a strongly feasible basis (Ahuja, Magnanti and Orlin, Network
// Flows, 1993, chapter 11). Prices are exact, in whole units.
//
// The warps price one row each and offer the best arc; the block takes these arcs, the best first,
// as long as their reduced cost is negative at the prices of the moment.
#ifndef JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_
#define JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_

#include "transport/cuda/tree.cuh"

namespace jaxmatch::transport {

template <class C>
struct Simplex {
  const Tree<C>& t;
  const Block& b;
  const Workspace& w;
  int32_t pivots = 0;

  // Lets row i send to column `col`, at the reduced cost `gain` < 0: mass moves around the cycle
  // that this arc closes, and the last arc of it that stops the mass leaves the basis, as seen from
  // the node where the cycle is nearest to the root. By one thread. Returns the node of the moved
  // subtree at the new arc.
  __device__ int32_t pivot(int32_t i, int32_t col) const {
    const int32_t j = t.rows + col;
    int32_t x = i, y = j;
    while (x != y) {
      if (w.size[x] <= w.size[y]) {
        x = w.above[x];
      } else {
        y = w.above[y];
      }
    }
    const int32_t meet = x;
    // Mass moves down from there to i, and up from j.
    int64_t mass = INT64_MAX;
    int32_t leaves = kNone;
    bool below_row = false;
    for (x = i; x != meet; x = w.above[x]) {
      if (!t.leads_up(x) || w.flow[x] >= mass) continue;
      mass = w.flow[x];
      leaves = x;
      below_row = true;
    }
    for (x = j; x != meet; x = w.above[x]) {
      if (t.leads_up(x) || w.flow[x] > mass) continue;
      mass = w.flow[x];
      leaves = x;
      below_row = false;
    }
    if (mass > 0) {
      for (x = i; x != meet; x = w.above[x]) w.flow[x] += t.leads_up(x) ? -mass : mass;
      for (x = j; x != meet; x = w.above[x]) w.flow[x] += t.leads_up(x) ? mass : -mass;
    }
    t.move_subtree(below_row ? i : j, below_row ? j : i, leaves, meet, mass);
    return below_row ? i : j;
  }

  // The best arc of a row, by one warp. Every lane gets it.
  __device__ void price_row(int32_t i, int64_t& gain, int32_t& col) const {
    constexpr int kAtOnce = 4;  // loads in flight together
    const C& c = t.c;
    const int32_t m = int32_t(c.p.m);
    const int64_t u = w.price[i];
    gain = 0;
    col = INT32_MAX;
    for (int32_t j = b.lane(); j < m; j += kAtOnce * kWarpSize) {
      typename C::Raw raw[kAtOnce];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) raw[a] = c.raw(i, min(j + a * kWarpSize, m - 1));
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        const int32_t k = j + a * kWarpSize;
        if (k >= m || c.demand[k] == 0) continue;
        const int64_t x = c.units_of(raw[a]) - u - w.price[t.rows + k];
        col = x < gain ? k : col;
        gain = x < gain ? x : gain;
      }
    }
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const int64_t other = __shfl_xor_sync(kAllLanes, gain, step);
      const int32_t at = __shfl_xor_sync(kAllLanes, col, step);
      if (other < gain || (other == gain && at < col)) {
        gain = other;
        col = at;
      }
    }
  }

  // The best of the arcs that warps have offered, at the present prices. By one warp.
  __device__ void choose() const {
    const int32_t row = b.s.offer[b.lane()][0], col = b.s.offer[b.lane()][1];
    const int64_t gain = row == kNone ? 0 : t.reduced(row, col);
    uint64_t key = uint64_t(gain) ^ (uint64_t(1) << 63), index = uint64_t(b.lane());
    Block::warp_least(key, index);
    if (b.lane() != 0) return;
    const int64_t least = int64_t(key ^ (uint64_t(1) << 63));
    b.s.number[0] = least;
    if (least >= 0) return;
    const int32_t i = b.s.offer[index][0], j = b.s.offer[index][1];
    b.s.offer[index][0] = kNone;
    const int32_t in = pivot(i, j);
    b.s.count[0] = in;
    b.s.number[1] = t.is_row(in) ? least : -least;
  }

  // Pivots until no reduced cost is negative.
  __device__ void run() {
    const int32_t rows = t.rows;
    for (int32_t first = 0, clean = 0; clean < rows;) {
      const int32_t k = first + b.warp(), i = k < rows ? k : k - rows;
      int64_t gain = 0;
      int32_t col = 0;
      const bool there = b.warp() < rows && t.c.supply[i] > 0;
      if (there) price_row(i, gain, col);
      if (b.lane() == 0) {
        b.s.offer[b.warp()][0] = gain < 0 ? i : kNone;
        b.s.offer[b.warp()][1] = col;
      }
      const int32_t before = pivots;
      b.sync();
      for (;;) {
        if (b.warp() == 0) choose();
        b.sync();
        const int64_t least = b.s.number[0], more = b.s.number[1];
        const int32_t in = b.s.count[0];
        if (least >= 0) break;
        ++pivots;
        t.shift_prices(in, more);
        b.sync();
      }
      b.sync();
      const int32_t priced = kWarps < rows ? kWarps : rows;
      clean = pivots > before ? 0 : clean + priced;
      first = first + priced < rows ? first + priced : first + priced - rows;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_
