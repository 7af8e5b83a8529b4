// An auction with epsilon scaling for masses (Bertsekas and Castanon, The auction algorithm for the
// transportation problem, 1989). It finds prices and most of a plan. Free mass is mass of a row
// that no column holds. In each round, every row with free mass bids all of it for the column of
// least reduced cost, at prices that do not change while the rows bid. A column holds the mass of
// the best bids, up to its demand. A scale (the rounds with one epsilon) ends once few rows have
// free mass. The network simplex method then makes the plan optimal, so the auction affects only
// the time.
#ifndef JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
#define JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_

#include "transport/cuda/holdings.cuh"
#include "transport/cuda/row_scan.cuh"
#include "transport/cuda/schedule.cuh"

namespace jaxmatch::transport {

// The result does not depend on the order in which threads run, because columns hold the bids that
// come first by (level, row).
template <class C>
struct Auction {
  Team team;
  const C c;
  const Workspace& w;
  float epsilon = 0;
  int32_t turn = 0;  // number of rounds so far
  int32_t pool = 0;  // number of times that all holdings were moved to the other of two pools
  int64_t bids = 0;  // number of bids so far

  // The number of rows listed for a round. Three counts are used in turn: each round clears the
  // count of the next round.
  __device__ int32_t& listed(int32_t round) const { return w.control->listed[round % 3]; }
  __device__ int32_t* list(int32_t round) const { return w.list[round % 2]; }
  __device__ Holdings holdings() const { return {w, pool % 2}; }

  // Gives mass back to row i. If the row had no free mass before, lists the row for the round
  // `next`.
  __device__ void give_back(int32_t i, int64_t mass, int32_t next) const {
    if (atomic_add(&w.rest[i], mass) == 0) list(next)[atomicAdd(&listed(next), 1)] = i;
  }

  // Takes all mass from columns, and lists the rows with mass. Columns without demand get a price
  // that keeps bids away.
  __device__ void clear() {
    team.one([&] {
      Control& control = *w.control;
      for (int32_t& count : control.listed) count = 0;
      control.used = control.stuck = control.full = 0;
    });
    team.each(c.p.m, [&](int64_t j) {
      w.segment[j] = {0, 0, 0};
      w.head[j] = kNone;
      w.held[j] = 0;
      if (c.demand[j] == 0) w.v[j] = -kFarFloat;
    });
    team.sync();
    team.each(c.p.n, [&](int64_t i) {
      w.rest[i] = c.supply[i];
      if (c.supply[i] > 0) list(turn)[atomicAdd(&listed(turn), 1)] = int32_t(i);
    });
    team.sync();
  }

  // Takes a given plan: each row gives its mass to its column in `cols`, up to the demand.
  __device__ void take(const int32_t* cols) {
    clear();
    const Holdings h = holdings();
    team.one([&] { w.control->used = int32_t(c.p.m); });
    team.each(c.p.n, [&](int64_t i) {
      const int32_t j = cols[i];
      if (j < 0 || j >= c.p.m) return;
      const int64_t mass = min(c.supply[i], c.demand[j]);
      if (mass == 0 || !(c.estimate(c.raw(i, j)) < kFarFloat)) return;
      h.pool[j] = {mass, 0, int32_t(i)};
      w.segment[j] = {j, 1, 1};
      w.held[j] = mass;
      w.rest[i] -= mass;
    });
    team.sync();
  }

  // Begins a scale: frees each holding whose reduced cost exceeds the least reduced cost of its row
  // by more than epsilon. Moves the holdings that remain to the other pool.
  __device__ void begin() {
    team.each(c.p.m, [&](int64_t j) { w.shadow[j] = w.v[j]; });
    const RowScan<C> scan{c, w.v, 0};
    team.each_by_warp(c.p.n, [&](int64_t i) {
      if (c.supply[i] == 0 || w.rest[i] == c.supply[i]) return;
      const TwoLeast two = scan.of_row(i);
      if (team.lane() == 0) w.u[i] = two.least;
    });
    move_holdings([&](const Holding& own, int32_t j) {
      return !(c.estimate(c.raw(own.row, j)) - w.v[j] > w.u[own.row] + epsilon);
    });
  }

  // Moves the holdings for which stays(holding, column) is true to the other pool, without gaps.
  // Gives the mass of all other holdings back to their rows.
  template <class Stays>
  __device__ void move_holdings(const Stays& stays) {
    team.sync();
    team.one([&] { w.control->used = 0; });
    team.sync();
    const Holdings old = holdings();
    ++pool;
    const Holdings now = holdings();
    team.each_by_warp(c.p.m, [&](int64_t col) {
      const int32_t j = int32_t(col);
      const Segment from = w.segment[j];
      __syncwarp();
      Segment to{0, 0, 0};
      if (from.count > 0 && !now.reserve(to, from.count)) w.control->full = 1;
      int64_t held = 0;
      for (int32_t first = 0; first < from.count; first += kWarpSize) {
        const bool exists = first + old.lane < from.count;
        const Holding own = exists ? old.pool[from.first + first + old.lane] : Holding{0, 0, 0};
        const bool keeps = exists && to.room > 0 && stays(own, j);
        if (exists && !keeps) give_back(own.row, own.mass, turn);
        const unsigned lanes = __ballot_sync(kAllLanes, keeps);
        const int32_t place = to.first + to.count + __popc(lanes & lanes_below(old.lane));
        if (keeps) now.pool[place] = own;
        to.count += __popc(lanes);
        held += keeps ? own.mass : 0;
      }
      held = warp_sum(held);
      if (old.lane != 0) return;
      w.segment[j] = to;
      w.held[j] = held;
    });
    team.sync();
  }

  // Row i bids all its free mass, as bid k of the round. One warp calls it.
  __device__ void bid(int32_t k, int32_t i, const TwoLeast& two) const {
    if (team.lane() != 0) return;
    if (!(two.least < kFarFloat)) {
      w.bid_col[k] = kNone;
      w.control->stuck = 1;
      return;
    }
    const int32_t j = two.col;
    const int64_t mass = w.rest[i];
    const float old = w.v[j], gain = two.next < kFarFloat ? two.next - two.least : 0;
    const float level = old - gain - epsilon;
    // If epsilon is too small to change the price in float32, the price falls to the next lower
    // float32.
    const float below = from_ordered_bits(ordered_bits(old) - 1);
    w.rest[i] = 0;
    bid_of_row()[i] = k;
    w.bid_col[k] = j;
    w.bid[k] = {mass, level < old ? level : below, atomicExch(&w.head[j], k)};
  }

  // Column j adds the bids for it to its holdings, and gives back mass above its demand. One warp
  // calls it.
  __device__ void take_bids(int32_t j) const {
    const Holdings h = holdings();
    const int32_t head = w.head[j], *rows = list(turn);
    const int64_t demand = c.demand[j];
    Segment s = w.segment[j];
    __syncwarp();
    if (h.lane == 0) w.head[j] = kNone;
    Holding own = h.lane < s.count ? h.pool[s.first + h.lane] : Holding{0, -kFarFloat, kNone};
    int32_t count = s.count;
    for (int32_t k = head; k != kNone && count <= kWarpSize;) {
      const Bid given = w.bid[k];
      if (!h.add(own, count, given, rows[k])) count = kWarpSize + 1;
      k = given.next;
    }
    if (count > kWarpSize || (count > s.room && !h.reserve(s, count))) {
      return take_bids_in_memory(j, s);
    }
    const int64_t mass = h.lane < count ? own.mass : 0;
    int64_t held = warp_sum(mass), kept = mass;
    if (held >= demand) {
      kept = h.kept(own, count, demand);
      held = demand;
      if (kept < mass) give_back(own.row, mass - kept, turn + 1);
      const float level = warp_most(kept > 0 ? own.level : -kFarFloat);
      if (h.lane == 0) w.v[j] = fminf(w.v[j], level);
    }
    const unsigned lanes = __ballot_sync(kAllLanes, kept > 0);
    if (kept > 0)
      h.pool[s.first + __popc(lanes & lanes_below(h.lane))] = {kept, own.level, own.row};
    if (h.lane != 0) return;
    w.segment[j] = {s.first, __popc(lanes), s.room};
    w.held[j] = held;
  }
  // take_bids() for more holdings than a warp has lanes.
  __device__ void take_bids_in_memory(int32_t j, Segment s) const {
    const Holdings h = holdings();
    const int32_t* const rows = list(turn);
    int32_t bids = 0;
    each_bid_for(j, [&](int32_t, unsigned lanes) { bids += __popc(lanes); });
    if (s.count + bids > s.room) {
      const int32_t old = s.first;
      if (!h.reserve(s, s.count + bids)) {
        w.control->full = 1;  // the auction gives up
        return;
      }
      for (int32_t k = h.lane; k < s.count; k += kWarpSize) h.pool[s.first + k] = h.pool[old + k];
      __syncwarp();
    }
    const int64_t demand = c.demand[j];
    int64_t held = w.held[j], more = 0;
    // A row that already has a holding in the column adds its bid to this holding.
    for (int32_t k = h.lane; k < s.count; k += kWarpSize) {
      Holding& own = h.pool[s.first + k];
      const int32_t again = find_bid(own.row);
      if (again == kNone || w.bid_col[again] != j) continue;
      Bid& bid = w.bid[again];
      own.mass += bid.mass;
      own.level = fminf(own.level, bid.level);
      more += bid.mass;
      bid.mass = 0;
    }
    __syncwarp();
    each_bid_for(j, [&](int32_t k, unsigned lanes) {
      const bool is_new = (lanes >> h.lane & 1) && w.bid[k].mass > 0;
      lanes = __ballot_sync(kAllLanes, is_new);
      if (is_new) {
        const Bid& bid = w.bid[k];
        h.pool[s.first + s.count + __popc(lanes & lanes_below(h.lane))] = {bid.mass, bid.level,
                                                                           rows[k]};
        more += bid.mass;
      }
      s.count += __popc(lanes);
    });
    __syncwarp();
    held += warp_sum(more);
    float level = kFarFloat;
    if (held >= demand) {
      level = h.trim(s, held, demand,
                     [&](int32_t row, int64_t mass) { give_back(row, mass, turn + 1); });
      held = demand;
    }
    if (h.lane != 0) return;
    w.v[j] = fminf(w.v[j], level);
    w.segment[j] = s;
    w.held[j] = held;
  }
  // Visits the bids for column j. All lanes call f(k, lanes), where k is the lane's bid, and
  // `lanes` has a bit for each lane whose bid is for column j.
  template <class F>
  __device__ void each_bid_for(int32_t j, const F& f) const {
    const int32_t count = listed(turn);
    for (int32_t first = 0; first < count; first += kWarpSize) {
      const int32_t k = first + team.lane();
      const unsigned lanes = __ballot_sync(kAllLanes, k < count && w.bid_col[k] == j);
      if (lanes != 0) f(k, lanes);
    }
  }
  // The index of a row's bid in this round, or kNone. bid_of_row() is stale for rows that do not
  // bid.
  __device__ int32_t find_bid(int32_t row) const {
    const int32_t k = bid_of_row()[row];
    return k >= 0 && k < listed(turn) && list(turn)[k] == row ? k : kNone;
  }
  __device__ int32_t* bid_of_row() const { return w.scratch[0]; }

  // All `count` rows of the list bid. If rows are few, several warps of a block share a row.
  __device__ void bid_all(int32_t count) const {
    const RowScan<C> scan{c, w.v, epsilon};
    const int32_t* rows = list(turn);
    const int32_t m = int32_t(c.p.m);
    int32_t shares = 1;
    while (shares < team.block_warps() && count * shares * 2 <= team.warps() &&
           m >= shares * 2 * RowScan<C>::kLeastWidth) {
      shares *= 2;
    }
    if (shares == 1) {
      return team.each_by_warp(count,
                               [&](int64_t k) { bid(int32_t(k), rows[k], scan.of_row(rows[k])); });
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

  // Each column with bids takes them. The warp that has the column's earliest bid, which has no
  // `next`, does this for the column.
  __device__ void take_all(int32_t count) const {
    const int32_t even = (count + team.warps() - 1) / team.warps();
    const int32_t width = even < kWarpSize ? even : kWarpSize;  // bids of a warp
    for (int32_t first = team.warp() * width; first < count; first += team.warps() * width) {
      const int32_t k = first + team.lane();
      const int32_t j = team.lane() < width && k < count ? w.bid_col[k] : kNone;
      unsigned lanes = __ballot_sync(kAllLanes, j != kNone && w.bid[k].next == kNone);
      for (; lanes != 0; lanes &= lanes - 1) {
        take_bids(__shfl_sync(kAllLanes, j, __ffs(int(lanes)) - 1));
      }
    }
  }

  // Undoes the current scale of an auction whose pool of holdings is full: takes all mass from
  // columns, and restores the prices from before the scale. The order of threads decides which
  // column finds no place in the full pool, so holdings and prices of this scale depend on that
  // order.
  __device__ void give_up() {
    team.sync();
    clear();
    team.each(c.p.m, [&](int64_t j) { w.v[j] = w.shadow[j]; });
    team.sync();
  }

  // All listed rows bid, and columns take the bids. Returns false if a row has no allowed column,
  // or if the pool of holdings is full.
  __device__ bool play_round() {
    const int32_t count = listed(turn);
    bid_all(count);
    bids += count;
    team.one([&] { listed(turn + 1) = 0; });
    team.sync();
    const bool stuck = w.control->stuck != 0;  // no thread changes it before the next barrier
    take_all(count);
    ++turn;
    team.sync();
    const bool full = w.control->full != 0;  // no thread changes it before the next barrier
    // Segments that were moved to get more room leave gaps in the pool. Moving all holdings to the
    // other pool closes the gaps.
    if (!full && w.control->used > w.holdings / 2) {
      move_holdings([](const Holding&, int32_t) { return true; });
    }
    return !stuck && !full;
  }

  // Runs the auction. If costs have a heavy tail, the first epsilon is a guess, and it rises while
  // the number of bidding rows falls too slowly.
  __device__ void hold(bool warm) {
    constexpr int32_t kFewest = 4, kMostBidsPerRow = 256, kPatience = 64;
    constexpr float kRise = 8, kMost = 1.0f / 128;
    const int32_t rows = int32_t(c.p.n);
    clear();
    const CostRange range = range_of_costs(team, c, w);
    if (!(range.spread > 0 && range.spread < kFarFloat)) return;
    bool rises = range.has_tail();
    const Schedule s = schedule_for(rows, rises);
    for (epsilon = range.scale * (warm ? fminf(s.last, s.first) : s.first);; epsilon *= s.factor) {
      begin();
      if (w.control->full != 0) return;
      const bool ends = epsilon <= range.scale * s.last;
      const int32_t few = max(rows / (ends ? s.last_stop_part : s.stop_part), kFewest);
      const int64_t most = bids + int64_t(kMostBidsPerRow) * rows;
      int32_t since = turn, before = listed(turn);
      while (listed(turn) > few && bids < most) {
        if (rises && epsilon < range.spread * kMost && turn - since >= kPatience) {
          if (listed(turn) > before / 2) epsilon *= kRise;
          since = turn;
          before = listed(turn);
        }
        if (!play_round()) return;
      }
      rises = false;
      if (bids >= most || ends) return;
    }
  }
};

// Runs an auction, or takes the plan `start` if it is given. Sets the number of bids. Returns the
// pool of holdings.
template <class C>
__device__ Holding* hold_auction(Auction<C>& auction, bool warm, const int32_t* start) {
  const Workspace& w = auction.w;
  if (start) {
    auction.take(start);
  } else {
    auction.hold(warm);
  }
  auction.team.sync();
  if (w.control->full != 0) auction.give_up();
  const int64_t bids = auction.bids;
  auction.team.one([&] { w.control->bids = int32_t(bids < INT32_MAX ? bids : INT32_MAX); });
  return auction.holdings().pool;
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_AUCTION_CUH_
