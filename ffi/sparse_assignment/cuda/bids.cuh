// Bids in rounds: in each round, all free rows see the same prices, and each bids for its best
// column.
//
// With an epsilon, these are the bids of an auction (Bertsekas, The auction algorithm, 1988); see
// auction.cuh. Without an epsilon, complementary slackness stays exact (augmenting row reduction:
// Jonker and Volgenant, A shortest augmenting path algorithm for dense and sparse linear assignment
// problems, 1987).
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_BIDS_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_BIDS_CUH_

#include "sparse_assignment/cuda/choice.cuh"

namespace jaxmatch::sparse_assignment {

// Among the bids for a column, the one with the smallest key wins. So the result depends neither on
// the order nor on the number of threads.
template <class Team>
struct Bids {
  Team team;
  const Canonical& c;
  const Workspace& w;
  int width;            // minimum number of lanes per row
  int64_t epsilon = 0;  // 0: exact bids
  int32_t turn = 0;     // rounds so far
  int64_t bids = 0;     // bids in all rounds
  bool low = false;     // epsilon > 0, and a row could not bid in the last round

  static constexpr int kRoundBits = 17, kVertexBits = 31;
  static constexpr int64_t kLowest = -(int64_t(1) << 60);
  // Once at most this many rows are free, one block continues alone. A round never increases the
  // number of free rows.
  static constexpr int32_t kFew = 64;

  // The number of rows in the list of a round. Each round sets the number of the next round to 0.
  __device__ int32_t& listed(int32_t round) const { return w.control->listed[round % 3]; }
  __device__ int32_t* list(int32_t round) const { return w.list[round % 2]; }

  // Frees each matched row whose edge has a cost - price more than epsilon above the row's minimum,
  // and lists all free rows. This minimum becomes the dual of each row that stays matched.
  __device__ void begin() {
    team.sync();
    team.one([&] {
      for (int32_t& number : w.control->listed) number = 0;
      w.control->low = 0;
    });
    low = false;
    team.sync();
    each_by_group(team, c.rows, width, [&](int64_t k, int lane, bool there) {
      const int32_t i = int32_t(k), pair = there ? w.pair[i] : kStays;
      const bool paired = pair != kFree && pair != kStays;
      const Choice best = best_of(c, w, i, lane, width, paired);
      bool free = lane == 0 && pair == kFree;
      __syncwarp();  // all lanes have read w.pair[i]
      if (lane == 0 && paired) {
        const int32_t j = c.col[pair];
        free = w.cost[pair] - w.price[j] - best.least > epsilon;
        if (free) {
          w.pair[i] = kFree;
          w.owner[j] = kNone;
        } else {
          w.u[i] = best.least;
        }
      }
      append(list(turn), &listed(turn), team.lane(), free, i);
    });
    team.sync();
  }

  // The number of listed rows. All lanes of a warp must call it.
  __device__ int32_t count() const { return __shfl_sync(kAllLanes, listed(turn), 0); }

  // Lists all free rows for the next round.
  __device__ void list_rows() {
    turn += turn % 2;  // so that list(turn) is list[0]
    const int32_t free = list_free(team, c, w);
    team.one([&] {
      for (int32_t& number : w.control->listed) number = 0;
      listed(turn) = free;
    });
    team.sync();
  }

  // Later rounds have smaller keys, so keys need not be cleared between rounds.
  __device__ uint64_t key_of(int64_t drop, int32_t i) const {
    const uint64_t rest = (uint64_t(1) << kRoundBits) - 1 - uint64_t(turn) % (1 << kRoundBits);
    // The bid that lowers the price most wins. Drops are compared as floats with 7 bits of
    // fraction.
    const uint64_t size = __float_as_uint(float(drop)) >> 16;
    return (rest << 16 | (0xffff - size)) << kVertexBits | uint64_t(i);
  }

  // Returns the edge that row i bids for, and sets `level` to the price that it offers. Returns
  // kFree if the row does not bid. Without epsilon, a row whose two cheapest choices cost the same
  // prefers a free column, or to stay unmatched. If both choices are matched columns, such a row
  // does not bid and stays free for the path searches.
  __device__ int32_t bid_of(int32_t i, const Choice& best, int64_t& level) const {
    int32_t edge = best.edge;
    if (epsilon == 0) {
      const bool tie = best.least == best.next;
      const auto held = [&](int32_t k) { return w.owner[c.col[k]] != kNone; };
      const bool blocked = edge != kStays && edge != kFree && !best.drops() && held(edge);
      if (edge == kStays || (blocked && tie && best.other == kStays)) {
        w.pair[i] = kStays;
        w.u[i] = best.least;
        return kFree;
      }
      if (blocked && (!tie || best.other == kFree || held(best.other))) return kFree;
      if (blocked) edge = best.other;
    }
    if (edge == kFree) return kFree;
    level = w.price[c.col[edge]] - (best.drops() ? best.next - best.least : 0) - epsilon;
    if (level < kLowest) return kFree;
    return edge;
  }
  __device__ void take(int32_t i, int32_t edge, int32_t j, int64_t level, int32_t before) const {
    w.u[i] = w.cost[edge] - level;  // exact without epsilon
    w.pair[i] = edge;
    w.owner[j] = i;
    w.price[j] = level;
    if (before != kNone) w.pair[before] = kFree;
  }

  // All `count` rows in the list of this round bid.
  __device__ void bid_all(int32_t count) const {
    int lanes = width;
    while (lanes < kWarpSize && int64_t(count) * lanes * 2 <= team.threads()) lanes *= 2;
    const int32_t* const from = list(turn);
    each_by_group(team, count, lanes, [&](int64_t k, int lane, bool there) {
      const int32_t i = there ? from[k] : 0;
      const Choice best = best_of(c, w, i, lane, lanes, there);
      if (!there || lane != 0) return;
      int64_t level = 0;
      const int32_t edge = bid_of(i, best, level);
      w.target[k] = edge;
      w.level[k] = level;
      if (edge == kFree) {
        if (epsilon > 0) w.control->low = 1;
        return;
      }
      const int32_t j = c.col[edge];
      atomic_min(&w.best[j], key_of(w.price[j] - level, i));
    });
  }

  // Each column that got bids takes the best one. Rows that lose their column, or whose bid loses,
  // are listed for the next round.
  __device__ void take_all(int32_t count) const {
    constexpr uint64_t kVertex = (uint64_t(1) << kVertexBits) - 1;
    const int32_t* const from = list(turn);
    each_by_lane(team, count, [&](int64_t k, bool there) {
      const int32_t edge = there ? w.target[k] : kFree;
      int32_t free = kNone;
      if (edge != kFree) {
        const int32_t i = from[k], j = c.col[edge];
        free = i;
        if (int32_t(w.best[j] & kVertex) == i) {
          free = w.owner[j];
          take(i, edge, j, w.level[k], free);
        }
      }
      append(list(turn + 1), &listed(turn + 1), team.lane(), free != kNone, free);
    });
  }

  __device__ void clear_keys() const {
    team.each(c.cols, [&](int64_t j) { w.best[j] = ~uint64_t(0); });
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
    low = w.control->low != 0;  // no thread sets control->low before the next barrier
    take_all(count);
    ++turn;
    team.sync();
  }

  // One warp finds the bid of the row in `token`.
  __device__ void bid_with(Token& token) {
    const int32_t i = token.row;
    const Choice best = best_of(c, w, i, team.lane(), kWarpSize, true);
    if (team.lane() != 0) return;
    token.edge = bid_of(i, best, token.level);
    if (token.edge == kFree) {
      if (epsilon > 0) team.s.low = 1;
      return;
    }
    const int32_t j = c.col[token.edge];
    token.before = w.owner[j];
    token.key = key_of(w.price[j] - token.level, i);
  }

  // One warp decides which bids of a round win, one bid per lane. The rows that are free afterwards
  // become the tokens of the next round.
  __device__ void take_tokens(int32_t count) {
    const bool there = team.lane() < count;
    const Token own = there ? team.s.token[team.lane()] : Token{};
    const bool bid = there && own.edge != kFree;
    const int32_t col = bid ? c.col[own.edge] : kNone;
    bool wins = bid;
    for (int32_t k = 0; k < count; ++k) {
      const int32_t other = __shfl_sync(kAllLanes, col, k);
      const uint64_t key = __shfl_sync(kAllLanes, own.key, k);
      wins = wins && !(other == col && key < own.key);
    }
    const int32_t free = !bid ? kNone : wins ? own.before : own.row;
    __syncwarp();  // all lanes have read their tokens
    if (wins) take(own.row, own.edge, col, own.level, own.before);
    const unsigned lanes = __ballot_sync(kAllLanes, free != kNone);
    if (free != kNone) team.s.token[__popc(lanes & lanes_below(team.lane()))].row = free;
    if (team.lane() == 0) team.s.tokens = __popc(lanes);
  }

  // Plays rounds in one block with one warp per free row, without lists or atomic operations.
  __device__ void play_tokens(int32_t count, int32_t last_turn, int32_t few) {
    const int32_t begun = (turn - 1) >> kRoundBits;
    const int warp = team.warp_of_block();
    if (int32_t(threadIdx.x) < count) team.s.token[threadIdx.x].row = list(turn)[threadIdx.x];
    team.one([&] { team.s.low = 0; });
    team.sync();
    do {
      if (warp < count) bid_with(team.s.token[warp]);
      team.sync();
      if (warp == 0) take_tokens(count);
      bids += count;
      ++turn;
      low = team.s.low != 0;
      team.sync();
      count = team.s.tokens;
    } while (count > few && turn < last_turn && !low);
    if (int32_t(threadIdx.x) < count) list(turn)[threadIdx.x] = team.s.token[threadIdx.x].row;
    team.one([&] { listed(turn) = count; });
    // Keys repeat after 2^kRoundBits rounds, so old keys are cleared by then.
    if (turn >> kRoundBits != begun) clear_keys();
    team.sync();
  }

  // The first block plays rounds alone while few rows are free. Then all blocks read the counts of
  // the first block.
  __device__ void play_alone(int32_t last_turn, int32_t few) {
    if (team.rank == 0) {
      Bids one{team.alone(), c, w, width, epsilon, turn, bids, low};
      do {
        const int32_t count = one.listed(one.turn);
        if (count <= few) break;
        if (count <= Team::kTeamWarps) {
          one.play_tokens(count, last_turn, few);
        } else {
          one.play_round(count);
        }
      } while (one.turn < last_turn && !one.low);
      team.one([&] { w.control->alone = {one.bids, one.turn, one.low}; });
    }
    team.sync();
    const Control::Rounds done = w.control->alone;
    turn = done.turn;
    bids = done.bids;
    low = done.low;
  }

  // Plays rounds until at most `few` rows are listed as free, `most` rounds are over, or `low` is
  // set.
  __device__ void play(int32_t most, int32_t few) {
    const int32_t last_turn = turn + most;
    for (;;) {
      const int32_t count = listed(turn);
      if (count <= few || low || turn >= last_turn) return;
      if (count <= kFew) {
        play_alone(last_turn, few);
      } else {
        play_round(count);
      }
    }
  }

  // Matches most rows by bids without epsilon, in at most `most` rounds.
  __device__ __noinline__ void reduce(int32_t most) {
    begin();
    play(most, 0);
    team.sync();
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_BIDS_CUH_
