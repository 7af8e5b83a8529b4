// A perfect matching of least cost by an auction with epsilon scaling (Bertsekas, The auction
// algorithm, 1988; Goldberg and Kennedy, An efficient cost scaling algorithm for the assignment
// problem, 1995): in rounds, each free left vertex bids for its best right vertex, at the same
// prices. The last epsilon is so small that the matching is optimal.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_AUCTION_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_AUCTION_CUH_

#include "sparse_assignment/cuda/scan.cuh"

namespace jaxmatch::sparse_assignment {

// The result does not depend on the order in which threads run, nor on their number: the bid that
// wins is the one of the least key.
template <class Team>
struct Auction {
  Team team;
  Graph g;
  const Workspace& w;
  int width;                         // lanes of a vertex, at least
  int32_t turn = 0;                  // rounds so far
  int64_t bids = 0;                  // of all rounds
  bool stuck = false, deep = false;  // as of the last round, see Control
  int far = 0;                       // prices may fall by this power of two

  static constexpr int kRoundBits = 17, kVertexBits = 31;
  static constexpr int kFactorBits = 3;  // of epsilon, from scale to scale
  // Prices may fall by so many powers of two of epsilon, and of the range of costs.
  static constexpr int kDeepBits = 8, kDeepRangeBits = 3;
  // One block goes on alone once so few vertices are free: a round never frees more.
  static constexpr int32_t kFew = 256;

  // The count of a round; that of the next one is cleared in it.
  __device__ int32_t& listed(int32_t round) const { return w.control->listed[round % 3]; }
  __device__ int32_t* list(int32_t round) const { return w.list[round % 2]; }

  // Frees all vertices. Vertices that are masked are matched with their copies, or not listed.
  __device__ void clear() {
    const SparseProblem& p = g.p;
    const int64_t count = g.c.vertices;
    const auto exists = [&](int64_t k, int64_t rows, const uint8_t* first, const uint8_t* other) {
      return k < rows ? !first || first[k] : !other || other[k - rows];
    };
    team.sync();
    team.one([&] {
      Control& control = *w.control;
      for (int32_t& number : control.listed) number = 0;
      control.deep = control.stuck = 0;
    });
    team.each(count, [&](int64_t y) {
      w.best[y] = ~uint64_t(0);
      w.owner[y] = kNone;
      if (!exists(y, p.m, p.col_mask, p.row_mask)) w.price[y] = -kNowhere;
    });
    team.sync();
    each_by_lane(team, count, [&](int64_t x, bool there) {
      const bool real = there && exists(x, p.n, p.row_mask, p.col_mask);
      if (there) {
        const int32_t own = g.c.doubled && !real ? g.copy_of(int32_t(x)) : kNone;
        w.mate[x] = own;
        if (own != kNone) w.owner[own] = int32_t(x);
      }
      append(list(turn), &listed(turn), team.lane(), real, int32_t(x));
    });
    team.sync();
  }

  // Begins a scale: frees the vertices that pay more than epsilon above their least.
  __device__ void begin() {
    const Price epsilon = Price(1) << g.epsilon;
    team.sync();  // all have seen that the list is empty
    each_by_group(team, g.c.vertices, width, [&](int64_t k, int lane, bool there) {
      const int32_t x = int32_t(k), y = there ? w.mate[x] : kNone;
      Price least, own;
      g.least_and_own(x, y, lane, width, y != kNone, least, own);
      // Masked vertices stay.
      const bool leaves = lane == 0 && own < kMostReduced && own > least + epsilon;
      if (leaves) w.mate[x] = w.owner[y] = kNone;
      append(list(turn), &listed(turn), team.lane(), leaves, x);
    });
    team.sync();
  }

  // Later rounds have lesser keys, so that nothing needs to be cleared between rounds.
  __device__ uint64_t key_of(Price more, int32_t x) const {
    const uint64_t rest = (uint64_t(1) << kRoundBits) - 1 - uint64_t(turn) % (1 << kRoundBits);
    // The sign of a float, its exponent and 7 bits of its fraction, of which the greatest wins.
    const uint64_t size = __float_as_uint(float(to_double(more))) >> 16;
    return (rest << 16 | (0xffff - size)) << kVertexBits | uint64_t(x);
  }

  // The price that x bids. False if it has no way to be matched.
  __device__ bool level_of(const TwoLeast& two, Price& level, Price& more, bool& falls_far) const {
    const Price epsilon = Price(1) << g.epsilon;
    if (two.least >= kMostReduced || (!g.c.doubled && two.least > 4 * g.c.big())) return false;
    more = (two.next < kMostReduced ? two.next - two.least : epsilon << kFactorBits) + epsilon;
    level = w.price[two.right] - more;
    falls_far = level < -(Price(1) << max(g.epsilon + kDeepBits, far));
    return true;
  }

  // Bid k of a round, by x.
  __device__ void bid(int64_t k, int32_t x, const TwoLeast& two) const {
    Price level, more;
    bool falls_far;
    if (!level_of(two, level, more, falls_far)) {
      w.target[k] = kNone;
      w.control->stuck = 1;
      return;
    }
    w.target[k] = two.right;
    w.level[k] = level;
    if (falls_far) w.control->deep = 1;
    atomicMin(reinterpret_cast<unsigned long long*>(&w.best[two.right]),
              (unsigned long long)(key_of(more, x)));
  }

  // All `count` vertices of the list bid.
  __device__ void bid_all(int32_t count) const {
    int lanes = width;
    while (lanes < kWarpSize && int64_t(count) * lanes * 2 <= team.threads()) lanes *= 2;
    const int32_t* const from = list(turn);
    each_by_group(team, count, lanes, [&](int64_t k, int lane, bool there) {
      const int32_t x = there ? from[k] : 0;
      const TwoLeast two = g.two_least(x, lane, lanes, there);
      if (there && lane == 0) bid(k, x, two);
    });
  }

  // Each right vertex takes its best bid. Whoever loses it, or a bid, bids again.
  __device__ void take_all(int32_t count) const {
    constexpr uint64_t kVertex = (uint64_t(1) << kVertexBits) - 1;
    const int32_t* const from = list(turn);
    each_by_lane(team, count, [&](int64_t k, bool there) {
      int32_t free = kNone;
      if (there) {
        const int32_t x = from[k], y = w.target[k];
        free = x;
        if (y != kNone && int32_t(w.best[y] & kVertex) == x) {
          free = w.owner[y];
          w.owner[y] = x;
          w.mate[x] = y;
          w.price[y] = w.level[k];
          if (free != kNone) w.mate[free] = kNone;
        }
      }
      append(list(turn + 1), &listed(turn + 1), team.lane(), free != kNone, free);
    });
  }

  __device__ void clear_keys() const {
    team.each(g.c.vertices, [&](int64_t y) { w.best[y] = ~uint64_t(0); });
  }

  __device__ void play_round(int32_t count) {
    if (turn % (1 << kRoundBits) == 0) {
      clear_keys();
      team.sync();
    }
    bid_all(count);
    bids += count;
    team.one([&] { listed(turn + 1) = 0; });
    team.sync();
    stuck = w.control->stuck != 0;  // not set before the next barrier
    deep = w.control->deep != 0;
    take_all(count);
    ++turn;
    team.sync();
  }

  // Whether it is time to look at prices that fell far.
  __device__ bool must_raise(bool first) const { return first && deep && turn % 32 == 0; }

  // The bid of one free vertex, by one warp.
  __device__ void bid_with(Token& token) {
    const int32_t x = token.left;
    const TwoLeast two = g.two_least(x, team.lane(), kWarpSize, true);
    if (team.lane() != 0) return;
    Price level, more;
    bool falls_far;
    if (!level_of(two, level, more, falls_far)) {
      token.right = token.owner = kNone;
      team.s.stuck = 1;
      return;
    }
    token.owner = w.owner[two.right];
    token.right = two.right;
    token.level = level;
    token.key = key_of(more, x);
    if (falls_far) team.s.deep = 1;
  }

  // Decides the bids of a round, a lane for each. By one warp.
  __device__ void take_tokens(int32_t count) {
    const bool there = team.lane() < count;
    const Token own = there ? team.s.token[team.lane()] : Token{};
    bool wins = there && own.right != kNone;
    for (int32_t k = 0; k < count; ++k) {
      const int32_t right = __shfl_sync(kAllLanes, own.right, k);
      const uint64_t key = __shfl_sync(kAllLanes, own.key, k);
      wins = wins && !(right == own.right && key < own.key);
    }
    const int32_t free = wins ? own.owner : own.left;
    if (wins) {
      w.owner[own.right] = own.left;
      w.mate[own.left] = own.right;
      w.price[own.right] = own.level;
      if (free != kNone) w.mate[free] = kNone;
    }
    const unsigned lanes = __ballot_sync(kAllLanes, there && free != kNone);
    if (there && free != kNone) {
      team.s.token[__popc(lanes & lanes_below(team.lane()))].left = free;
    }
    if (team.lane() == 0) team.s.tokens = __popc(lanes);
  }

  // Rounds of one block with a warp for each free vertex, without lists and atomic operations.
  __device__ void play_tokens(int32_t count, int64_t most, bool first) {
    const int32_t begun = turn >> kRoundBits;
    const int warp = team.warp_of_block();
    if (int32_t(threadIdx.x) < count) team.s.token[threadIdx.x].left = list(turn)[threadIdx.x];
    team.one([&] {
      team.s.stuck = 0;
      team.s.deep = deep;
    });
    team.sync();
    do {
      if (warp < count) bid_with(team.s.token[warp]);
      team.sync();
      if (warp == 0) take_tokens(count);
      bids += count;
      ++turn;
      stuck = team.s.stuck != 0;
      deep = team.s.deep != 0;
      team.sync();
      count = team.s.tokens;
    } while (count > 0 && bids <= most && !stuck && !must_raise(first));
    team.sync();
    if (int32_t(threadIdx.x) < count) list(turn)[threadIdx.x] = team.s.token[threadIdx.x].left;
    team.one([&] {
      listed(turn) = count;
      w.control->deep = deep;
    });
    // Keys begin anew.
    if (turn >> kRoundBits != begun) clear_keys();
    team.sync();
  }

  // Rounds of one block, while few are free.
  __device__ void play_alone(int64_t most, bool first) {
    if (team.rank == 0) {
      Auction one{team.alone(), g, w, width, turn, bids, stuck, deep, far};
      do {
        const int32_t count = one.listed(one.turn);
        if (count == 0) break;
        if (count <= Team::kTeamWarps) {
          one.play_tokens(count, most, first);
        } else {
          one.play_round(count);
        }
      } while (one.bids <= most && !one.stuck && !one.must_raise(first));
      team.one([&] { w.control->alone = {one.bids, one.turn, one.stuck, one.deep}; });
    }
    team.sync();
    const Control::Rounds done = w.control->alone;
    turn = done.turn;
    bids = done.bids;
    stuck = done.stuck;
    deep = done.deep;
  }

  // Raises epsilon: else vertices that cannot all be matched would bid for long until they reach
  // the costs of those that stay.
  __device__ void raise() {
    team.sync();
    if (g.epsilon + kFactorBits < g.c.big_bits + g.c.shift) g.epsilon += kFactorBits;
    team.one([&] { w.control->deep = 0; });
    deep = false;
    team.sync();
  }

  // Rounds of one scale. False if it cannot be finished.
  __device__ bool play(bool first) {
    const int64_t most = bids + (int64_t(1) << 20) + 500 * g.c.vertices;
    for (;;) {
      const int32_t count = listed(turn);
      if (stuck || bids > most) return false;
      if (count == 0) return true;
      if (must_raise(first)) raise();
      if (count <= kFew) {
        play_alone(most, first);
      } else {
        play_round(count);
      }
    }
  }

  // From `first`, a power of two of units. That of the greatest difference of costs is `range`.
  __device__ bool hold(int first, int range) {
    g.epsilon = max(first + g.c.shift, kLastEpsilon);
    far = range + g.c.shift + kDeepRangeBits;
    clear();
    if (!play(true)) return false;
    while (g.epsilon > kLastEpsilon) {
      g.epsilon = max(g.epsilon - kFactorBits, kLastEpsilon);
      begin();
      if (!play(false)) return false;
    }
    return true;
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_AUCTION_CUH_
