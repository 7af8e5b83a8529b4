// Prices and most of a plan by an auction with epsilon scaling, for masses (Bertsekas and Castanon,
// The auction algorithm for the transportation problem, 1989): in rounds, each row with free mass
// bids all of it for its best column, at the same prices, and a column holds the best bids up to
// its demand. Each scale is cut off once few rows have free mass; the network simplex method
// finishes. Prices decide nothing.
#ifndef JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
#define JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_

#include "assignment/pair_hash.h"
#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// The result does not depend on the order in which threads run: columns hold the bids of least
// (level, row).
template <class C>
struct Auction {
  const Block& b;
  const C& c;
  const Workspace& w;
  float epsilon = 0;
  int turn = 0;                           // of the list of rows that bid next
  int64_t bids = 0;                       // of all rounds
  int32_t unused = 0;                     // slots of the pool
  static constexpr int32_t kWidth = 128;  // least columns of a warp that shares a row

  __device__ int32_t& listed(int which) const { return b.s.count[which]; }
  __device__ int32_t& taken() const { return b.s.count[2]; }  // slots
  __device__ int32_t& gone() const { return b.s.count[3]; }

  // Of the columns from `first` to `last` of row i, by one warp.
  __device__ TwoLeast two_least(int64_t i, int32_t first, int32_t last, float perturbation) const {
    constexpr int kAtOnce = 8;  // loads in flight together
    TwoLeast own;
    const int64_t row = i * c.p.m;
    for (int32_t j = first + b.lane(); j < last; j += kAtOnce * kWarpSize) {
      typename C::Raw raw[kAtOnce];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) raw[a] = c.raw_at(row + min(j + a * kWarpSize, last - 1));
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        const int32_t k = j + a * kWarpSize;
        if (k >= last) continue;
        // From 1 to 2: what is added to all columns does not count.
        const uint32_t hash = uint32_t(assignment::pair_hash(uint32_t(i), uint32_t(k)));
        const float noise = perturbation * __uint_as_float(0x3f800000u | hash >> 1);
        own.include(c.estimate(raw[a]) - w.v[k] + noise, k);
      }
    }
    own.merge();
    return own;
  }
  __device__ TwoLeast two_least(int64_t i) const { return two_least(i, 0, int32_t(c.p.m), 0); }

  __device__ bool before(int32_t x, int32_t y) const {  // leaves its column before y
    const Holding &own = w.pool[x], &other = w.pool[y];
    return own.key > other.key || (own.key == other.key && own.row > other.row);
  }
  __device__ int32_t merge(int32_t x, int32_t y) const {
    int32_t root = kNone, *at = &root;
    while (x != kNone && y != kNone) {
      if (before(y, x)) {
        const int32_t other = x;
        x = y;
        y = other;
      }
      *at = x;
      const int32_t next = w.pool[x].right;
      w.pool[x].right = w.pool[x].left;
      at = &w.pool[x].left;
      x = next;
    }
    *at = x != kNone ? x : y;
    return root;
  }
  // Puts the holding with the greatest level of a column at the top.
  __device__ int32_t with_weakest(int32_t top) const {
    for (;;) {
      Holding& own = w.pool[top];
      if (own.key == own.level) return top;
      const int32_t others = merge(own.left, own.right);
      own.key = own.level;
      own.left = own.right = kNone;
      top = merge(others, top);
    }
  }

  // The row has not bid in this round, or its bid is in a list already.
  __device__ void give_back(int32_t i, int64_t mass) const {
    if (atomic_add(&w.rest[i], mass) == 0) w.list[turn][atomicAdd(&listed(turn), 1)] = i;
  }

  // Zero masses never bid, and columns without demand cost infinitely much.
  __device__ void clear() {
    b.one([&] { listed(0) = listed(1) = 0; });
    b.each(w.holdings, [&](int64_t k) {
      w.pool[k].mass = 0;
      w.unused[k] = int32_t(k);
    });
    unused = int32_t(w.holdings);
    b.each(c.p.m, [&](int64_t j) {
      w.top[j] = w.head[j] = kNone;
      w.held[j] = 0;
      if (c.demand[j] == 0) w.v[j] = -kFarFloat;
    });
    b.sync();
    b.each(c.p.n, [&](int64_t i) {
      w.rest[i] = c.supply[i];
      w.of_row[i] = kNone;
      if (c.supply[i] > 0) w.list[turn][atomicAdd(&listed(turn), 1)] = int32_t(i);
    });
    b.sync();
  }

  // Begins a scale: frees the mass that pays more than epsilon above the least of its row.
  __device__ void begin() {
    b.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0 || w.rest[i] == c.supply[i]) return;
      const TwoLeast two = two_least(i);
      if (b.lane() == 0) w.u[i] = two.least;
    });
    b.each(c.p.m, [&](int64_t j) {
      w.top[j] = w.head[j] = kNone;
      w.held[j] = 0;
    });
    b.sync();
    b.each(w.holdings, [&](int64_t h) {
      Holding& own = w.pool[h];
      if (own.mass == 0) return;
      if (c.estimate(c.raw(own.row, own.col)) - w.v[own.col] > w.u[own.row] + epsilon) {
        give_back(own.row, own.mass);
        own.mass = 0;
        return;
      }
      own.right = kNone;
      own.key = own.level;
      own.left = atomicExch(&w.head[own.col], int32_t(h));
    });
    b.sync();
    b.each(c.p.m, [&](int64_t j) {
      for (int32_t h = w.head[j]; h != kNone;) {
        const int32_t next = w.pool[h].left;
        w.pool[h].left = kNone;
        w.held[j] += w.pool[h].mass;
        w.top[j] = merge(w.top[j], h);
        h = next;
      }
      w.head[j] = kNone;
    });
    b.sync();
  }

  // Bids the free mass of row i, by one lane: a column has one holding of a row. Slots of those
  // that left are free again.
  __device__ void hold(int32_t k, int32_t i, int32_t j, float level) const {
    const int64_t mass = w.rest[i];
    int32_t known = kNone, *link = &w.of_row[i];
    while (*link != kNone) {
      Holding& own = w.pool[*link];
      if (own.mass == 0) {
        w.gone[atomicAdd(&gone(), 1)] = *link;
        *link = own.next;
        continue;
      }
      if (own.col == j) known = *link;
      link = &own.next;
    }
    w.bid_slot[k] = kNone;
    w.bid_col[k] = j;
    if (known != kNone) {
      w.pool[known].mass += mass;
      w.pool[known].level = fminf(w.pool[known].level, level);
    } else {
      const int32_t h = w.unused[unused - 1 - atomicAdd(&taken(), 1)];
      w.pool[h] = {mass, level, level, i, j, kNone, kNone, w.of_row[i]};
      w.of_row[i] = w.bid_slot[k] = h;
    }
    atomic_add(&w.held[j], mass);
    w.rest[i] = 0;
  }

  // A column takes its bids, and gives back what exceeds its demand.
  __device__ void take_bids(int32_t j) const {
    int32_t top = w.top[j];
    int64_t held = w.held[j];
    for (int32_t k = w.head[j]; k != kNone; k = w.next_bid[k]) {
      if (w.bid_slot[k] != kNone) top = merge(top, w.bid_slot[k]);
    }
    w.head[j] = kNone;
    while (held > c.demand[j]) {
      top = with_weakest(top);
      Holding& own = w.pool[top];
      const int64_t over = held - c.demand[j], mass = over < own.mass ? over : own.mass;
      held -= mass;
      give_back(own.row, mass);
      own.mass -= mass;
      if (own.mass == 0) top = merge(own.left, own.right);
    }
    if (held == c.demand[j]) {
      top = with_weakest(top);
      w.v[j] = fminf(w.v[j], w.pool[top].level);
    }
    w.top[j] = top;
    w.held[j] = held;
  }

  // Bid k of a round, of row i, by one warp. False if the row has no allowed column.
  __device__ bool bid(int32_t k, int32_t i, const TwoLeast& two) const {
    const bool can = two.least < kFarFloat;
    if (b.lane() != 0) return can;
    w.bid_col[k] = kNone;
    if (!can) return false;
    const float old = w.v[two.col], gain = two.next < kFarFloat ? two.next - two.least : 0;
    const float level = old - gain - epsilon;
    // Below the resolution of float32 a price still moves.
    const float below = from_ordered_bits(ordered_bits(old) - 1);
    hold(k, i, two.col, level < old ? level : below);
    return true;
  }

  // Returns false if a row has no allowed column, or the pool is used up.
  __device__ bool play_round() {
    const int32_t count = listed(turn), *rows = w.list[turn];
    if (count > unused) return false;
    b.one([&] { taken() = gone() = 0; });
    b.sync();
    bool stuck = false;
    // Several warps share a row while rows are few.
    int32_t shares = 1;
    while (count * shares * 2 <= kWarps && c.p.m >= shares * 2 * kWidth) shares *= 2;
    if (shares == 1) {
      b.each_by_warp(count, [&](int64_t k) {
        stuck |= !bid(int32_t(k), rows[k], two_least(rows[k], 0, int32_t(c.p.m), epsilon));
      });
    } else {
      const int32_t m = int32_t(c.p.m), width = (m + shares - 1) / shares;
      const int32_t k = b.warp() / shares, first = b.warp() % shares * width;
      TwoLeast two;
      if (k < count) two = two_least(rows[k], min(first, m), min(first + width, m), epsilon);
      if (b.lane() == 0) b.s.part[b.warp()] = two;
      b.sync();
      if (k < count && first == 0) {
        two = b.lane() < shares ? b.s.part[b.warp() + b.lane()] : TwoLeast{};
        two.merge();
        stuck |= !bid(k, rows[k], two);
      }
    }
    stuck = b.any(stuck);
    bids += count;
    b.each(count, [&](int64_t k) {
      const int32_t j = w.bid_col[k];
      if (j != kNone) w.next_bid[k] = atomicExch(&w.head[j], int32_t(k));
    });
    unused -= taken();
    b.each(gone(), [&](int64_t k) { w.unused[unused + k] = w.gone[k]; });
    unused += gone();
    turn ^= 1;
    b.one([&] { listed(turn) = 0; });
    b.sync();
    b.each(count, [&](int64_t k) {
      const int32_t j = w.bid_col[k];
      if (j != kNone && w.head[j] == k) take_bids(j);
    });
    b.sync();
    return !stuck;
  }

  // The greatest difference between finite costs.
  __device__ float spread() const {
    float least = kFarFloat, most = -kFarFloat;
    b.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0) return;
      for (int64_t j = b.lane(); j < c.p.m; j += kWarpSize) {
        const float x = c.estimate(c.raw(i, j));
        if (c.demand[j] == 0 || !(x < kFarFloat)) continue;
        least = fminf(least, x);
        most = fmaxf(most, x);
      }
    });
    return float(b.most(most) + b.most(-least));
  }

  __device__ void run(bool warm) {
    constexpr float kFirst = 1.0f / 32, kFactor = 1.0f / 5;  // parts of the spread
    constexpr int32_t kStopPart = 64, kFewest = 4, kMostBidsPerRow = 64;
    const int32_t rows = int32_t(c.p.n);
    const int32_t few = max(rows / kStopPart, kFewest);
    const float last = 1.1f / float(rows);  // the more rows, the more pivots a scale saves
    clear();
    const float range = spread();
    if (!(range > 0 && range < kFarFloat)) return;
    for (epsilon = range * (warm ? fminf(last, kFirst) : kFirst);; epsilon *= kFactor) {
      begin();
      const int64_t most = bids + int64_t(kMostBidsPerRow) * rows;
      while (listed(turn) > few && bids < most) {
        if (!play_round()) return;
      }
      b.sync();
      if (bids >= most || epsilon <= range * last) return;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
