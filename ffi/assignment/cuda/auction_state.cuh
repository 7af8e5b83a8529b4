// The state of an auction in the blocks that run it, how these blocks send each other bids, and how
// a warp reads a row.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_STATE_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_STATE_CUH_

#include "assignment/cuda/auction_plan.h"
#include "assignment/cuda/canonical.cuh"
#include "assignment/cuda/cluster.cuh"
#include "assignment/cuda/state.cuh"
#include "assignment/pair_hash.h"

namespace jaxmatch::assignment {

constexpr float kFar = __builtin_huge_valf();

// Called by one warp. Merges the results of its lanes; all lanes return the same.
__device__ inline TwoLeast<float> merge(const TwoLeast<float>& own) {
  const uint32_t bits = ordered_bits(own.least);
  const uint32_t least = __reduce_min_sync(kAllLanes, bits);
  const int col = __reduce_min_sync(kAllLanes, bits == least ? own.col : INT32_MAX);
  const uint32_t rest = ordered_bits(own.col == col ? own.next : own.least);
  return {from_ordered_bits(least), from_ordered_bits(__reduce_min_sync(kAllLanes, rest)), col};
}

// Packs a bid into one number, an entry. Entries are ordered by price, then by column, then by row.
__device__ inline uint64_t make_entry(float x, int col, int row) {
  return uint64_t(ordered_bits(x)) << 32 | uint64_t(uint32_t(col) & 0xffff) << 16 | uint32_t(row);
}
__device__ inline int row_of_entry(uint64_t e) { return int(e & 0xffff); }
__device__ inline int col_of_entry(uint64_t e) { return int(e >> 16 & 0xffff); }
__device__ inline float price_of_entry(uint64_t e) { return from_ordered_bits(uint32_t(e >> 32)); }

// All blocks of a cluster hold the same prices and the same matching. Row i belongs to block
// i % blocks, which bids for it. Every block receives all bids and resolves them.
template <class CostsType>
struct AuctionState {
  using Costs = CostsType;
  using Raw = typename Costs::Raw;
  static constexpr int kPack = 4;
  // Values in place of the column of an entry: kNoColumn, and kStays for a row that chooses to stay
  // unmatched.
  static constexpr int kNoColumn = 0xffff, kStays = 0xfffe;
  // Special values of col4row. A row with kNoChoice has neither an allowed column nor an unmatched
  // cost.
  static constexpr int kFree = -1, kNoChoice = -2, kUnmatched = -3;
  enum Control { kMine0, kMine1, kCount };

  const AuctionBatch& b;
  const Cluster cluster;
  CanonicalForm<Costs, false> f;
  const int thread, size, shift;  // the cluster has 2^shift blocks
  int rows = 0, cols = 0;
  float *const price, *const next_best, *const leave;
  uint64_t* const best;
  Index *const row4col, *const col4row;
  int* const control;
  const float sign;
  double base = 0;  // the least cost, which value() subtracts from all costs
  int free_rows = 0, rounds = 0, scans = 0;

  __device__ AuctionState(const AuctionBatch& batch, int64_t problem, Cluster blocks)
      : b(batch),
        cluster(blocks),
        f{batch, {int(threadIdx.x), int(blockDim.x)}, problem, 0},
        thread(threadIdx.x),
        size(blockDim.x),
        shift(batch.shift),
        price(f.template shared<float>(batch.at.price)),
        next_best(f.template shared<float>(batch.at.next_best)),
        leave(f.template shared<float>(batch.at.leave)),
        best(f.template shared<uint64_t>(batch.at.best)),
        row4col(f.template shared<Index>(batch.at.row4col)),
        col4row(f.template shared<Index>(batch.at.col4row)),
        control(f.template shared<int>(batch.at.control)),
        sign(batch.maximize ? -1 : 1) {}

  __device__ void sync() const { f.group.sync(); }
  __device__ int lane() const { return thread % kWarpSize; }
  __device__ int warp() const { return thread / kWarpSize; }
  __device__ int warps() const { return size / kWarpSize; }
  __device__ bool may_leave() const { return b.unmatched_cost; }
  __device__ bool cols_optional() const { return b.unmatched_cost || rows < cols; }
  __device__ bool is_mine(int i) const { return (i & (cluster.blocks - 1)) == cluster.rank; }
  // row_at(t) is row number t of this block, and position_of() is its inverse. rows_here() is the
  // number of rows of this block.
  __device__ int row_at(int t) const { return t << shift | cluster.rank; }
  __device__ int position_of(int i) const { return i >> shift; }
  __device__ int rows_here() const { return (rows - cluster.rank + cluster.blocks - 1) >> shift; }
  __device__ Index* mine(int which) const {
    return f.template shared<Index>(b.at.mine) + which * b.most_of_mine;
  }
  // mail(from) holds the entries that block `from` has sent to this block in this round, and
  // mail_count(from) holds their number.
  __device__ uint64_t* mail(int from) const {
    return f.template shared<uint64_t>(b.at.mail) +
           ((rounds & 1) * cluster.blocks + from) * b.most_of_mine;
  }
  __device__ int* mail_count(int from) const {
    return f.template shared<int>(b.at.mail_count) + (rounds & 1) * cluster.blocks + from;
  }

  // Called by one warp. Sends `entry` to every block, at position `at` of the mail from this block.
  __device__ void send(int at, uint64_t entry) const {
    if (lane() < cluster.blocks) *cluster.in_block(mail(cluster.rank) + at, lane()) = entry;
  }
  __device__ void send_count(int count) const {
    if (thread < cluster.blocks) *cluster.in_block(mail_count(cluster.rank), thread) = count;
  }
  __device__ int all_mail() const {
    int all = 0;
    for (int from = 0; from < cluster.blocks; ++from) all += *mail_count(from);
    return all;
  }
  // Calls body(entry) for all entries of this round. Each entry is handled by one thread.
  template <class Body>
  __device__ void for_mail(const Body& body) const {
    // Each warp handles entries of one sending block.
    const int from = warp() & (cluster.blocks - 1);
    const int count = *mail_count(from);
    for (int t = (warp() >> shift) * kWarpSize + lane(); t < count; t += size >> shift) {
      body(mail(from)[t]);
    }
  }

  __device__ float value(Raw raw) const {
    if constexpr (sizeof(Raw) == 4 && !Costs::kIntegral) {
      return Costs::single(raw) * sign - float(base);
    } else {
      return float(Costs::real(raw) * double(sign) - base);
    }
  }
  __device__ float cost(int i, int j) const { return value(f.costs[int64_t(i) * f.stride + j]); }
  // The unmatched cost of row i, or kFar if the row must be matched.
  __device__ float unmatched_cost_of(int i) const {
    return may_leave() ? leave[position_of(i)] : kFar;
  }

  // Calls body(j, raw, price) for this lane's columns of row i from `first` to `last`. Also calls
  // body for some columns of the padding, which have the price -inf and an arbitrary cost.
  template <class Body>
  __device__ void for_columns(int i, int first, int last, const Body& body) const {
    const Raw* row = f.costs + int64_t(i) * f.stride;
    if (f.aligned) {
      constexpr int kStep = kPack * kWarpSize, kAhead = sizeof(Raw) == 4 ? 4 : 2;
      const int last_pack = (cols - 1) / kPack * kPack;
      for (int j = first + lane() * kPack; j - lane() * kPack < last; j += kAhead * kStep) {
        Pack<Raw, kPack> raws[kAhead];
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          raws[a] = *reinterpret_cast<const Pack<Raw, kPack>*>(row + min(j + a * kStep, last_pack));
        }
        keep_loads_together();
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          const int at = j + a * kStep;
          if (at >= last) break;
          const auto prices = *reinterpret_cast<const Pack<float, kPack>*>(price + at);
#pragma unroll
          for (int k = 0; k < kPack; ++k) body(at + k, raws[a].x[k], prices.x[k]);
        }
      }
    } else {
#pragma unroll 8
      for (int j = first + lane(); j < last; j += kWarpSize) body(j, row[j], price[j]);
    }
  }

  // Called by one warp. Finds the two least reduced costs of row i in the columns from `first` to
  // `last`. Costs are perturbed by less than `perturbation` (see pair_hash.h).
  __device__ TwoLeast<float> two_least(int i, int first, int last, float perturbation) const {
    if (perturbation == 0) {
      return two_least_of(i, first, last, [](int) { return 0.0f; });
    }
    const float step = perturbation * 0x1p-24f;
    return two_least_of(i, first, last,
                        [&](int j) { return step * float(pair_hash(uint32_t(i), uint32_t(j))); });
  }
  __device__ TwoLeast<float> two_least(int i, float perturbation = 0) const {
    return two_least(i, 0, cols, perturbation);
  }

  // Like two_least(), with more(j) added to the cost of column j.
  template <class More>
  __device__ TwoLeast<float> two_least_of(int i, int first, int last, More more) const {
    TwoLeast<float> o{kFar, kFar, INT32_MAX};
    for_columns(i, first, last, [&](int j, Raw raw, float p) {
      // merge() compares bits, so x must not be -0. Adding more(j), which is not negative, turns -0
      // into 0.
      const float x = (value(raw) - p) + more(j);
      const float higher = x < o.least ? o.least : x;
      o.next = higher < o.next ? higher : o.next;
      o.col = x < o.least ? j : o.col;
      o.least = x < o.least ? x : o.least;
    });
    return merge(o);
  }

  // Reads the masks, copies the costs into canonical form, and clears the state. Afterwards, blocks
  // may write to each other's shared memory.
  __device__ void begin() {
    choose_orientation(f, kPack);
    f.group.size = size;  // choose_orientation() has reduced it, but all threads are needed
    gather_costs(f, cluster.rank, cluster.blocks);
    rows = f.rows;
    cols = f.cols;
    const int width = (cols + 127) / 128 * 128;
    for (int j = thread; j < width; j += size) price[j] = j < cols ? 0 : -kFar;
    for (int j = thread; j < cols; j += size) {
      best[j] = ~uint64_t(0);
      row4col[j] = kNone;
    }
    for (int i = thread; i < rows; i += size) col4row[i] = kFree;
    cluster.sync();
  }
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUCTION_STATE_CUH_
