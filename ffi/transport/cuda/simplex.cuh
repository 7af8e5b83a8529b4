// The network simplex method on a strongly feasible basis (Ahuja, Magnanti and Orlin, Network
// Flows, 1993, chapter 11). Prices are exact, in whole units.
//
// The warps price parts of rows and offer the best arc of each; the block takes these arcs, the
// best first, as long as their reduced cost is negative at the prices of the moment.
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

  // The best arc from row i to columns from `first` to `last`, by one warp. Every lane gets it.
  // Exact are only the reduced costs that may be negative.
  __device__ void price(int32_t i, int32_t first, int32_t last, int64_t& gain, int32_t& col) const {
    constexpr int kAtOnce = 8;  // loads in flight together
    const C& c = t.c;
    const int64_t u = w.price[i], row = i * c.p.m;
    const float near = w.shadow[i];
    gain = 0;
    col = INT32_MAX;
    for (int32_t j = first + b.lane(); j < last; j += kAtOnce * kWarpSize) {
      typename C::Raw raw[kAtOnce];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) raw[a] = c.raw_at(row + min(j + a * kWarpSize, last - 1));
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        const int32_t k = j + a * kWarpSize;
        if (k >= last) continue;
        // Each of five numbers and differences is rounded once.
        const float cost = c.estimate(raw[a]), v = w.shadow[t.rows + k];
        const float most = fabsf(cost) + fabsf(near) + fabsf(v);
        if (cost - near - v > most * 0x1p-20f + 0x1p-100f || c.demand[k] == 0) continue;
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

  // Pivots until no reduced cost is negative. A warp prices a part of a row.
  __device__ void run() {
    constexpr int32_t kPart = 512;
    const int64_t parts = (t.c.p.m + kPart - 1) / kPart, count = parts * t.rows;
    const int64_t priced = count < kWarps ? count : kWarps;
    for (int64_t first = 0, clean = 0; clean < count;) {
      const int64_t k = first + b.warp() < count ? first + b.warp() : first + b.warp() - count;
      const int32_t i = int32_t(k / parts), from = int32_t(k % parts) * kPart;
      int64_t gain = 0;
      int32_t col = 0;
      if (b.warp() < priced && t.c.supply[i] > 0) {
        price(i, from, int32_t(min(from + int64_t{kPart}, t.c.p.m)), gain, col);
      }
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
      clean = pivots > before ? 0 : clean + priced;
      first = first + priced < count ? first + priced : first + priced - count;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SIMPLEX_CUH_
