// Prices and most of a plan by an auction with epsilon scaling, for masses (Bertsekas and Castanon,
// The auction algorithm for the transportation problem, 1989): in rounds, each row with free mass
// bids all of it for its best column, at the same prices, and a column holds the best bids up to
// its demand. Each scale is cut off once few rows have free mass; the network simplex method
// finishes. Prices decide nothing.
#ifndef JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
#define JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_

#include "transport/cuda/row_scan.cuh"

namespace jaxmatch::transport {

// The result does not depend on the order in which threads run: columns hold the bids of least
// (level, row). Where few rows bid, the first block plays alone: its own barrier is faster than that
// of all, and what it reads stays in its L1 cache.
template <class C>
struct Auction {
  Team& team;
  const C& c;
  const Workspace& w;
  const int64_t alone_below;  // pairs of a round
  float epsilon = 0;
  int32_t turn = 0;    // rounds so far
  int64_t bids = 0;    // of all rounds
  int32_t unused = 0;  // slots of the pool

  // Counters of a round; those of the next one are cleared in it.
  __device__ int32_t& listed(int32_t round) const { return w.control->listed[round % 3]; }
  __device__ int32_t& taken() const { return w.control->taken[turn % 3]; }
  __device__ int32_t& gone() const { return w.control->gone[turn % 3]; }
  __device__ int32_t* list(int32_t round) const { return w.list[round % 2]; }

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

  // Lists the row for the round `next` unless it has free mass already.
  __device__ void give_back(int32_t i, int64_t mass, int32_t next) const {
    if (atomic_add(&w.rest[i], mass) == 0) list(next)[atomicAdd(&listed(next), 1)] = i;
  }

  // Zero masses never bid, and columns without demand cost infinitely much.
  __device__ void clear() {
    team.one([&] {
      Control& control = *w.control;
      for (int k = 0; k < 3; ++k) control.listed[k] = control.taken[k] = control.gone[k] = 0;
      control.stuck = 0;
    });
    team.each(w.holdings, [&](int64_t k) {
      w.pool[k].mass = 0;
      w.unused[k] = int32_t(k);
    });
    unused = int32_t(w.holdings);
    team.each(c.p.m, [&](int64_t j) {
      w.top[j] = w.head[j] = kNone;
      w.held[j] = 0;
      if (c.demand[j] == 0) w.v[j] = -kFarFloat;
    });
    team.sync();
    team.each(c.p.n, [&](int64_t i) {
      w.rest[i] = c.supply[i];
      w.of_row[i] = kNone;
      if (c.supply[i] > 0) list(turn)[atomicAdd(&listed(turn), 1)] = int32_t(i);
    });
    team.sync();
  }

  // Begins a scale: frees the mass that pays more than epsilon above the least of its row.
  __device__ void begin() {
    const RowScan<C> scan{c, w.v, 0};
    team.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0 || w.rest[i] == c.supply[i]) return;
      const TwoLeast two = scan.of_row(i);
      if (team.lane() == 0) w.u[i] = two.least;
    });
    team.each(c.p.m, [&](int64_t j) {
      w.top[j] = w.head[j] = kNone;
      w.held[j] = 0;
    });
    team.sync();
    team.each(w.holdings, [&](int64_t h) {
      Holding& own = w.pool[h];
      if (own.mass == 0) return;
      if (c.estimate(c.raw(own.row, own.col)) - w.v[own.col] > w.u[own.row] + epsilon) {
        give_back(own.row, own.mass, turn);
        own.mass = 0;
        return;
      }
      own.right = kNone;
      own.key = own.level;
      own.left = atomicExch(&w.head[own.col], int32_t(h));
    });
    team.sync();
    team.each(c.p.m, [&](int64_t j) {
      for (int32_t h = w.head[j]; h != kNone;) {
        const int32_t next = w.pool[h].left;
        w.pool[h].left = kNone;
        w.held[j] += w.pool[h].mass;
        w.top[j] = merge(w.top[j], h);
        h = next;
      }
      w.head[j] = kNone;
    });
    team.sync();
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
    int32_t slot = kNone;
    if (known != kNone) {
      w.pool[known].mass += mass;
      w.pool[known].level = fminf(w.pool[known].level, level);
    } else {
      slot = w.unused[unused - 1 - atomicAdd(&taken(), 1)];
      w.pool[slot] = {mass, level, level, i, j, kNone, kNone, w.of_row[i]};
      w.of_row[i] = slot;
    }
    atomic_add(&w.held[j], mass);
    w.rest[i] = 0;
    w.bid_slot[k] = slot;
    w.bid_col[k] = j;
    w.next_bid[k] = atomicExch(&w.head[j], k);
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
      give_back(own.row, mass, turn + 1);
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

  // Bid k of a round, of row i, by one warp.
  __device__ void bid(int32_t k, int32_t i, const TwoLeast& two) const {
    if (team.lane() != 0) return;
    if (!(two.least < kFarFloat)) {
      w.bid_col[k] = kNone;
      w.control->stuck = 1;
      return;
    }
    const float old = w.v[two.col], gain = two.next < kFarFloat ? two.next - two.least : 0;
    const float level = old - gain - epsilon;
    // Below the resolution of float32 a price still moves.
    const float below = from_ordered_bits(ordered_bits(old) - 1);
    hold(k, i, two.col, level < old ? level : below);
  }

  // All `count` rows of the list bid. Several warps of a block share a row while rows are few.
  __device__ void bid_all(int32_t count) const {
    const RowScan<C> scan{c, w.v, epsilon};
    const int32_t* rows = list(turn);
    const int32_t m = int32_t(c.p.m);
    int32_t shares = 1;
    while (shares < kWarps && count * shares * 2 <= team.warps() &&
           m >= shares * 2 * RowScan<C>::kLeastWidth) {
      shares *= 2;
    }
    if (shares == 1) {
      return team.each_by_warp(
          count, [&](int64_t k) { bid(int32_t(k), rows[k], scan.of_row(rows[k])); });
    }
    const int32_t width = (m + shares - 1) / shares, warp = team.warp_of_block();
    const int32_t k = warp / shares * team.blocks + team.rank, first = warp % shares * width;
    TwoLeast two;
    if (k < count) two = scan.of_part(rows[k], min(first, m), min(first + width, m));
    if (team.lane() == 0) team.s.part[warp] = two;
    team.sync_block();
    if (k < count && first == 0) {
      two = team.lane() < shares ? team.s.part[warp + team.lane()] : TwoLeast{};
      two.merge();
      bid(k, rows[k], two);
    }
  }

  // Returns false if a row has no allowed column, or the pool is used up.
  __device__ bool play_round() {
    const int32_t count = listed(turn);
    if (count > unused) return false;
    bid_all(count);
    bids += count;
    team.one([&] {
      const int next = (turn + 1) % 3;
      w.control->listed[next] = w.control->taken[next] = w.control->gone[next] = 0;
    });
    team.sync();
    if (w.control->stuck) return false;
    unused -= taken();
    team.each(gone(), [&](int64_t k) { w.unused[unused + k] = w.gone[k]; });
    unused += gone();
    team.each(count, [&](int64_t k) {
      const int32_t j = w.bid_col[k];
      if (w.head[j] == k) take_bids(j);
    });
    ++turn;
    team.sync();
    return true;
  }

  // Plays rounds while more than `few` rows bid, up to `most` bids. Returns false as play_round().
  __device__ bool play_scale(int32_t few, int64_t most) {
    while (listed(turn) > few && bids < most) {
      if (team.blocks == 1 || listed(turn) * c.p.m > alone_below) {
        if (!play_round()) return false;
        continue;
      }
      if (team.rank == 0) {
        Team first = team.alone();
        Auction alone{first, c, w, alone_below, epsilon, turn, bids, unused};
        bool goes_on = true;
        while (goes_on && listed(alone.turn) > few && alone.bids < most &&
               listed(alone.turn) * c.p.m <= 2 * alone_below) {
          goes_on = alone.play_round();
        }
        team.one([&] {
          Control& control = *w.control;
          control.turn = alone.turn;
          control.bids = alone.bids;
          control.unused = alone.unused;
          control.goes_on = goes_on;
        });
      }
      team.sync();
      turn = w.control->turn;
      bids = w.control->bids;
      unused = w.control->unused;
      if (!w.control->goes_on) return false;
    }
    return true;
  }

  // The greatest difference between finite costs.
  __device__ float spread() {
    float least = kFarFloat, most = -kFarFloat;
    team.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0) return;
      for (int64_t j = team.lane(); j < c.p.m; j += kWarpSize) {
        const float x = c.estimate(c.raw(i, j));
        if (c.demand[j] == 0 || !(x < kFarFloat)) continue;
        least = fminf(least, x);
        most = fmaxf(most, x);
      }
    });
    return float(team.most(most) + team.most(-least));
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
      if (!play_scale(few, most) || bids >= most || epsilon <= range * last) return;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
