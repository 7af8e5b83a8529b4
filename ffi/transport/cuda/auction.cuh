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

// The two least reduced costs of a row, and the column of the first; on equal ones the first.
struct TwoLeast {
  double least = kFar, next = kFar;
  int32_t col = INT32_MAX;

  // Columns must come in order.
  __device__ void include(double x, int32_t j) {
    const bool better = x < least;
    next = fmin(next, better ? least : x);
    col = better ? j : col;
    least = better ? x : least;
  }
  // Of all lanes; every lane gets it.
  __device__ void merge() {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const double other = __shfl_xor_sync(kAllLanes, least, step),
                   other_next = __shfl_xor_sync(kAllLanes, next, step);
      const int32_t at = __shfl_xor_sync(kAllLanes, col, step);
      const bool better = other < least || (other == least && at < col);
      next = fmin(fmin(next, other_next), better ? least : other);
      col = better ? at : col;
      least = better ? other : least;
    }
  }
};

// The result does not depend on the order in which threads run: columns hold the bids of least
// (level, row).
template <class C>
struct Auction {
  const Block& b;
  const C& c;
  const Workspace& w;
  double epsilon = 0;
  int turn = 0;        // of the list of rows that bid next
  int64_t bids = 0;    // of all rounds
  int32_t unused = 0;  // slots of the pool

  __device__ int32_t& listed(int which) const { return b.s.count[which]; }
  __device__ int32_t& freed() const { return b.s.count[2]; }

  __device__ TwoLeast two_least(int64_t i, double perturbation) const {
    constexpr int kAtOnce = 8;  // loads in flight together
    TwoLeast own;
    const int32_t m = int32_t(c.p.m);
    for (int32_t j = b.lane(); j < m; j += kAtOnce * kWarpSize) {
      typename C::Raw raw[kAtOnce];
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) raw[a] = c.raw(i, min(j + a * kWarpSize, m - 1));
#pragma unroll
      for (int a = 0; a < kAtOnce; ++a) {
        const int32_t k = j + a * kWarpSize;
        if (k >= m) continue;
        const double noise =
            perturbation * assignment::pair_hash(uint32_t(i), uint32_t(k)) * 0x1p-24;
        own.include(C::real(raw[a]) * c.scale - w.v[k] + noise, k);
      }
    }
    own.merge();
    return own;
  }

  __device__ bool before(int32_t x, int32_t y) const {  // leaves its column before y
    const Holding &own = w.pool[x], &other = w.pool[y];
    return own.level > other.level || (own.level == other.level && own.row > other.row);
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

  // The row has not bid in this round, or its bid is in a list already.
  __device__ void give_back(int32_t i, int64_t mass) const {
    if (atomic_add(&w.rest[i], mass) == 0) w.list[turn][atomicAdd(&listed(turn), 1)] = i;
  }
  __device__ void drop(int32_t h) const {
    w.pool[h].row = kNone;
    w.unused[atomicAdd(&freed(), 1)] = h;
  }

  // Zero masses never bid, and columns without demand cost infinitely much.
  __device__ void clear() {
    b.one([&] { listed(0) = listed(1) = 0; });
    b.each(w.holdings, [&](int64_t k) {
      w.pool[k].row = kNone;
      w.unused[k] = int32_t(k);
    });
    unused = int32_t(w.holdings);
    b.each(c.p.m, [&](int64_t j) {
      w.top[j] = w.head[j] = kNone;
      w.held[j] = 0;
      if (c.demand[j] == 0) w.v[j] = -kFar;
    });
    b.sync();
    b.each(c.p.n, [&](int64_t i) {
      w.rest[i] = c.supply[i];
      if (c.supply[i] > 0) w.list[turn][atomicAdd(&listed(turn), 1)] = int32_t(i);
    });
    b.sync();
  }

  // Begins a scale: frees the mass that pays more than epsilon above the least of its row.
  __device__ void begin() {
    b.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0 || w.rest[i] == c.supply[i]) return;
      const TwoLeast two = two_least(i, 0);
      if (b.lane() == 0) w.u[i] = two.least;
    });
    b.one([&] { freed() = unused; });
    b.each(c.p.m, [&](int64_t j) {
      w.top[j] = w.head[j] = kNone;
      w.held[j] = 0;
    });
    b.sync();
    b.each(w.holdings, [&](int64_t h) {
      Holding& own = w.pool[h];
      if (own.row == kNone) return;
      if (c.key(own.row, own.col) - w.v[own.col] > w.u[own.row] + epsilon) {
        give_back(own.row, own.mass);
        drop(int32_t(h));
        return;
      }
      own.right = kNone;
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
    unused = freed();
    b.sync();
  }

  // A column takes its bids, and gives back what exceeds its demand.
  __device__ void take_bids(int32_t j) const {
    int32_t top = w.top[j];
    int64_t held = w.held[j];
    for (int32_t k = w.head[j]; k != kNone; k = w.next_bid[k]) {
      held += w.pool[w.bid_slot[k]].mass;
      top = merge(top, w.bid_slot[k]);
    }
    w.head[j] = kNone;
    while (held > c.demand[j]) {
      Holding& own = w.pool[top];
      const int64_t over = held - c.demand[j], mass = over < own.mass ? over : own.mass;
      held -= mass;
      give_back(own.row, mass);
      own.mass -= mass;
      if (own.mass > 0) continue;
      const int32_t gone = top;
      top = merge(own.left, own.right);
      drop(gone);
    }
    w.top[j] = top;
    w.held[j] = held;
    if (held == c.demand[j]) w.v[j] = fmin(w.v[j], w.pool[top].level);
  }

  // Returns false if a row has no allowed column, or the pool is used up.
  __device__ bool play_round() {
    const int32_t count = listed(turn), *rows = w.list[turn];
    if (count > unused) return false;
    bool stuck = false;
    b.each_by_warp(count, [&](int64_t k) {
      const int32_t i = rows[k];
      const TwoLeast two = two_least(i, epsilon);
      if (!(two.least < kFar)) {
        stuck = true;
        return;
      }
      if (b.lane() != 0) return;
      const double gain = two.next < kFar ? two.next - two.least : 0;
      const int32_t h = w.unused[unused - 1 - k];
      w.pool[h] = {w.rest[i], w.v[two.col] - gain - epsilon, i, two.col, kNone, kNone};
      w.bid_slot[k] = h;
      w.bid_col[k] = two.col;
    });
    if (b.any(stuck)) return false;
    bids += count;
    unused -= count;
    b.each(count, [&](int64_t k) {
      w.rest[rows[k]] = 0;
      w.next_bid[k] = atomicExch(&w.head[w.bid_col[k]], int32_t(k));
    });
    turn ^= 1;
    b.one([&] {
      listed(turn) = 0;
      freed() = unused;
    });
    b.sync();
    b.each(count, [&](int64_t k) {
      if (w.head[w.bid_col[k]] == k) take_bids(w.bid_col[k]);
    });
    b.sync();
    unused = freed();
    b.sync();
    return true;
  }

  // The greatest difference between finite costs.
  __device__ double spread() const {
    double least = kFar, most = -kFar;
    b.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0) return;
      for (int64_t j = b.lane(); j < c.p.m; j += kWarpSize) {
        const double x = c.key(i, j);
        if (c.demand[j] == 0 || !(x < kFar)) continue;
        least = fmin(least, x);
        most = fmax(most, x);
      }
    });
    return b.most(most) + b.most(-least);
  }

  __device__ void run(bool warm) {
    constexpr double kFirst = 1.0 / 32, kFactor = 1.0 / 5, kLast = 1e-3;  // parts of the spread
    constexpr int32_t kStopPart = 256, kFewest = 4, kMostBidsPerRow = 64;
    const int32_t rows = int32_t(c.p.n);
    const int32_t few = max(rows / kStopPart, kFewest);
    clear();
    const double range = spread();
    if (!(range > 0)) return;
    for (epsilon = range * (warm ? kLast : kFirst);; epsilon *= kFactor) {
      begin();
      const int64_t most = bids + int64_t(kMostBidsPerRow) * rows;
      while (listed(turn) > few && bids < most) {
        if (!play_round()) return;
      }
      b.sync();
      if (bids >= most || epsilon <= range * kLast) return;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
