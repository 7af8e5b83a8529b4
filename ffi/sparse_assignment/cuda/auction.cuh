// An auction that sets the prices if all rows and columns must be matched. The solver may then
// start from any prices, and the prices of an auction are nearly optimal.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_AUCTION_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_AUCTION_CUH_

#include "sparse_assignment/cuda/bids.cuh"
#include "sparse_assignment/cuda/price_updates.cuh"

namespace jaxmatch::sparse_assignment {

// Bids match the last free rows slowly: rows outbid each other by epsilon until the prices of many
// columns have fallen enough for a free column to compete. A global price update
// (price_updates.cuh) after some rounds makes all of these moves at once. With updates, larger
// values of epsilon before the last one do not pay: in the emulator they took 1.6 times the steps.
template <class Team>
struct Auction {
  const Team team;
  const Canonical& c;
  const Workspace& w;
  const int width;  // minimum number of lanes per row
  Bids<Team>& bids;
  Updates& updates;

  // The difference between the largest and the smallest cost of an allowed edge.
  __device__ int64_t range() const {
    double most = -HUGE_VAL, least = -HUGE_VAL;
    team.each(c.first[c.rows], [&](int64_t k) {
      if (w.cost[k] == kNever) return;
      most = fmax(most, double(w.cost[k]));
      least = fmax(least, -double(w.cost[k]));
    });
    most = team.most(most);
    least = team.most(least);
    return most + least > 0 ? int64_t(most + least) : 0;
  }

  // Numbers of 3 bits or more share a bucket if their number of bits and their first 3 bits agree.
  __device__ static int bucket_of(int64_t x) {
    const int bits = 64 - __clzll(x);
    return bits < 3 ? int(x) : (bits - 2) * 4 + int(x >> (bits - 3) & 3);
  }
  __device__ static int64_t least_of_bucket(int bucket) {
    return bucket < 4 ? bucket : int64_t(4 + bucket % 4) << (bucket / 4 - 1);
  }

  // The median, over the rows, of the difference between the two least costs of a row, rounded down
  // to 3 bits. Rows in which these are equal do not count.
  __device__ int64_t typical_difference() const {
    team.each(kBuckets, [&](int64_t k) { w.histogram[k] = 0; });
    team.sync();
    int64_t counted = 0;
    each_by_group(team, c.rows, width, [&](int64_t k, int lane, bool there) {
      Choice best;
      if (there) {
        each_edge_of(c, int32_t(k), lane, width, [&](int32_t edge) {
          if (w.cost[edge] != kNever) best.include(w.cost[edge], edge);
        });
      }
      best.merge(width);
      if (!there || lane != 0 || !best.drops()) return;
      atomicAdd(&w.histogram[bucket_of(best.next - best.least)], 1);
      ++counted;
    });
    counted = team.sum(counted);
    team.sync();
    // Each warp finds the bucket for itself.
    int64_t before = 0;
    int bucket = 0;
#pragma unroll 1
    for (int first = 0; first < kBuckets; first += kWarpSize) {
      int64_t own = w.histogram[first + team.lane()];
      for (int step = 1; step < kWarpSize; step *= 2) {
        const int64_t lower = __shfl_up_sync(kAllLanes, own, step);
        if (team.lane() >= step) own += lower;
      }
      bucket += __popc(__ballot_sync(kAllLanes, (before + own) * 2 < counted));
      before += __shfl_sync(kAllLanes, own, kWarpSize - 1);
    }
    return counted > 0 ? least_of_bucket(bucket) : 0;
  }

  // Updates the prices and matches free vertices at the ends of tight paths. The dual of a matched
  // row is its pair's cost - price - epsilon, so its pair's reduced cost is epsilon, and no reduced
  // cost is negative. An update keeps both: it raises one dual of a pair and lowers the other by as
  // much. So no pair exceeds the least cost - price of its row by more than epsilon afterwards.
  //
  // Updates of columns and of rows take turns: the same few ends are often the nearest ones for all
  // free vertices of one side, but not for those of the other side.
  __device__ Status update() {
    each_by_group(team, c.rows, width, [&](int64_t k, int lane, bool there) {
      const int32_t i = int32_t(k), pair = there ? w.pair[i] : kStays;
      const Choice best = best_of(c, w, i, lane, width, pair == kFree);
      if (!there || lane != 0) return;
      const int64_t least = best.least == kNever ? 0 : best.least;
      w.u[i] = pair == kFree ? least : w.cost[pair] - w.price[c.col[pair]] - bids.epsilon;
    });
    team.sync();
    const Status status = updates.count % 2 == 0
                              ? PriceUpdate<Team, true>{team, c, w, width, updates}.match_some()
                              : PriceUpdate<Team, false>{team, c, w, width, updates}.match_some();
    bids.list_rows();
    return status;
  }

  // Matches all rows, so that no pair exceeds the least cost - price of its row by more than
  // epsilon. Returns kInfeasible if not all rows can be matched, and kOverflow if prices would
  // leave the range of integers.
  __device__ __noinline__ Status run() {
    constexpr int32_t kRounds = 64, kMoreRounds = 16;  // before the first update, between updates
    const int64_t range = this->range(), typical = typical_difference();
    bids.epsilon = max(min(range / (4 * int64_t(c.rows)), typical / 2), int64_t(1));
    bids.begin();
    Status status = kOptimal;
    for (int32_t rounds = kRounds; status == kOptimal; rounds = kMoreRounds) {
      bids.play(rounds, 0);
      if (bids.low) status = kOverflow;
      if (bids.low || bids.count() == 0) break;
      status = update();
    }
    bids.epsilon = 0;
    return status;
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_AUCTION_CUH_
