// Start prices by an auction with epsilon scaling (Bertsekas and Castanon 1991): in rounds, every
// free row bids for its best column. Each scale is cut off once few rows are free, because the last
// rows would bid against each other for long; the exact solver that starts from the prices matches
// them. Prices are float32 and decide nothing: any prices are a valid start.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_CUH_

#include "assignment/cuda/auction_plan.h"
#include "assignment/cuda/canonical.cuh"
#include "assignment/cuda/cluster.cuh"
#include "assignment/cuda/costs.cuh"
#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {

// The blocks of a cluster hold the same prices and the same matching. A row belongs to block i %
// blocks, which bids for it. Bids go to all blocks, and every block resolves all of them. The
// result depends neither on the number of blocks nor on the speed of warps: the lowest price wins a
// column, of equal ones that of the least row.
template <class Costs>
struct Auction {
  using Raw = typename Costs::Raw;
  static constexpr int kPack = 4;
  static constexpr uint32_t kNoColumn = 0xffff;
  static constexpr float kFar = __builtin_huge_valf();
  enum Word { kMine0, kMine1, kLess };

  const AuctionBatch& b;
  const Cluster cluster;
  const int64_t problem;
  const int n, thread, size, shift;  // 2^shift blocks
  const Raw* const dense;            // the first cost if rows can be read in packs, else null
  float* const price;
  uint64_t* const best;
  Index *const row4col, *const col4row;
  int* const control;
  const float sign;
  double base = 0;  // the least cost, subtracted from all
  int free_rows = 0, rounds = 0, scans = 0;

  __device__ Auction(const AuctionBatch& batch, int64_t which, Cluster blocks)
      : b(batch),
        cluster(blocks),
        problem(which),
        n(int(batch.n)),
        thread(threadIdx.x),
        size(blockDim.x),
        shift(batch.shift),
        dense(pack_start()),
        price(shared<float>(batch.shared.price)),
        best(shared<uint64_t>(batch.shared.best)),
        row4col(shared<Index>(batch.shared.row4col)),
        col4row(shared<Index>(batch.shared.col4row)),
        control(shared<int>(batch.shared.control)),
        sign(batch.maximize ? -1 : 1) {}

  __device__ const Raw* pack_start() const {
    const bool aligned = n % kPack == 0 && reinterpret_cast<uintptr_t>(b.cost) % 16 == 0;
    if (!aligned || (sizeof(Raw) == 4 && b.cost_dtype < Dtype::kF32)) return nullptr;
    return static_cast<const Raw*>(b.cost) + problem * n * n;
  }
  template <class T>
  __device__ static T* shared(int offset) {
    return reinterpret_cast<T*>(shared_memory + offset);
  }
  __device__ void sync() const { __barrier_sync_count(1, size); }
  __device__ int lane() const { return thread % kWarpSize; }
  __device__ int warp() const { return thread / kWarpSize; }
  __device__ int warps() const { return size / kWarpSize; }
  __device__ bool is_mine(int i) const { return (i & (cluster.blocks - 1)) == cluster.rank; }
  __device__ Index* mine(int which) const {
    return shared<Index>(b.shared.mine) + which * b.most_of_mine;
  }
  // What block `from` has sent to this block in a round.
  __device__ uint64_t* mail(int round, int from) const {
    return shared<uint64_t>(b.shared.mail) + ((round & 1) * cluster.blocks + from) * b.most_of_mine;
  }
  __device__ int* mail_count(int round, int from) const {
    return shared<int>(b.shared.mail_count) + (round & 1) * cluster.blocks + from;
  }

  __device__ float value(Raw raw) const {
    if constexpr (sizeof(Raw) == 4 && !Costs::kIntegral) {
      return Costs::single(raw) * sign - float(base);
    } else {
      return float(Costs::real(raw) * double(sign) - base);
    }
  }

  // Calls body(j, raw) for the columns from `first` to `last` of row i that this lane has.
  template <class Body>
  __device__ void for_columns(int i, int first, int last, const Body& body) const {
    if (dense) {
      const Raw* row = dense + int64_t(i) * n;
      constexpr int kStep = kPack * kWarpSize, kAhead = sizeof(Raw) == 4 ? 4 : 2;
      for (int j = first + lane() * kPack; j - lane() * kPack < last; j += kAhead * kStep) {
        Pack<Raw, kPack> raws[kAhead];
#pragma unroll
        for (int a = 0; a < kAhead; ++a) {
          raws[a] = *reinterpret_cast<const Pack<Raw, kPack>*>(row + min(j + a * kStep, n - kPack));
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
      for (int j = first + lane(); j < last; j += kWarpSize) {
        body(j, Costs::load(b.cost, (problem * n + i) * n + j, b.cost_dtype), price[j]);
      }
    }
  }

  struct Offer {
    float least, next;
    int col;
  };
  // By one warp: the least and the second least reduced cost of row i, all lanes return the same.
  __device__ Offer find_offer(int i, int first, int last) const {
    Offer o{kFar, kFar, INT32_MAX};
    for_columns(i, first, last, [&](int j, Raw raw, float p) {
      const float x = (value(raw) - p) + 0.0f;  // a negative zero becomes positive, as bits decide
      const float higher = x < o.least ? o.least : x;
      o.next = higher < o.next ? higher : o.next;
      o.col = x < o.least ? j : o.col;
      o.least = x < o.least ? x : o.least;
    });
    return merge(o);
  }
  __device__ Offer merge(const Offer& own) const {
    const uint32_t bits = ordered_bits(own.least);
    const uint32_t least = __reduce_min_sync(kAllLanes, bits);
    const int col = __reduce_min_sync(kAllLanes, bits == least ? own.col : INT32_MAX);
    const uint32_t rest = ordered_bits(own.col == col ? own.next : own.least);
    return {from_ordered_bits(least), from_ordered_bits(__reduce_min_sync(kAllLanes, rest)), col};
  }

  // By one warp: sends an entry to every block.
  __device__ void send(int at, uint64_t entry) const {
    if (lane() < cluster.blocks) {
      *cluster.in_block(mail(rounds, cluster.rank) + at, lane()) = entry;
    }
  }
  __device__ void send_count(int count) const {
    if (thread < cluster.blocks)
      *cluster.in_block(mail_count(rounds, cluster.rank), thread) = count;
  }
  // Calls body(entry) for all entries of this round, on one thread each.
  template <class Body>
  __device__ void for_mail(const Body& body) const {
    // Every warp has the entries of one block.
    const int from = warp() & (cluster.blocks - 1);
    const int count = *mail_count(rounds, from);
    for (int t = (warp() >> shift) * kWarpSize + lane(); t < count; t += size >> shift) {
      body(mail(rounds, from)[t]);
    }
  }
  __device__ static uint64_t entry(float x, int col, int row) {
    return uint64_t(ordered_bits(x)) << 32 | uint64_t(uint32_t(col) & 0xffff) << 16 | uint32_t(row);
  }
  __device__ static int row_of_entry(uint64_t e) { return int(e & 0xffff); }
  __device__ static int col_of_entry(uint64_t e) { return int(e >> 16 & 0xffff); }

  // Reads the masks. Returns the number of rows that take part, or -1 if there are not as many
  // columns.
  __device__ int read_masks() {
    int rows = 0, cols = 0;
    const uint8_t* row_mask = b.row_mask ? b.row_mask + problem * n : nullptr;
    const uint8_t* col_mask = b.col_mask ? b.col_mask + problem * n : nullptr;
    if (thread < 8) control[thread] = 0;
    sync();
    const int width = (n + 127) / 128 * 128;
    for (int k = thread; k < width; k += size) {
      const bool col = k < n && (!col_mask || col_mask[k]),
                 row = k < n && (!row_mask || row_mask[k]);
      price[k] = col ? 0 : -kFar;
      if (k < n) {
        best[k] = ~uint64_t(0);
        row4col[k] = -1;
        col4row[k] = row ? -1 : -2;
      }
      rows += row, cols += col;
    }
    atomicAdd(&control[0], rows);
    atomicAdd(&control[1], cols);
    sync();
    rows = control[0], cols = control[1];
    sync();
    return rows == cols ? rows : -1;
  }

  struct CostBounds {
    float spread, unit;  // of the finite costs; all are multiples of the unit
    bool usable;
  };
  // By all blocks together.
  __device__ CostBounds find_bounds() {
    typename Costs::Range range;
    double least = __builtin_huge_val(), most = -__builtin_huge_val();
    for (int i = cluster.rank + warp() * cluster.blocks; i < n; i += warps() * cluster.blocks) {
      if (col4row[i] == -2) continue;
      for_columns(i, 0, n, [&](int, Raw raw, float p) {
        const double x = Costs::real(raw) * double(sign);
        if (!(p == 0 && fabs(x) < __builtin_huge_val())) return;
        range.include(raw, false);
        least = x < least ? x : least;
        most = x > most ? x : most;
      });
    }
    uint64_t words[3] = {ordered_bits(most), ordered_bits(-least), 0};
    if constexpr (!Costs::kIntegral) words[2] = range.word[1];
    const Group<false> group{thread, size};
    group.all_max(words, shared<uint64_t>(b.shared.best));
    uint64_t* slots = shared<uint64_t>(b.shared.range);
    if (thread < cluster.blocks) {
      uint64_t* there = cluster.in_block(slots + cluster.rank * kRangeWords, thread);
      for (int k = 0; k < 3; ++k) there[k] = words[k];
    }
    cluster.sync();
    for (int from = 0; from < cluster.blocks; ++from) {
      for (int k = 0; k < 3; ++k) words[k] = max(words[k], slots[from * kRangeWords + k]);
    }
    for (int j = thread; j < n; j += size) best[j] = ~uint64_t(0);
    sync();
    most = from_ordered_bits(words[0]), least = -from_ordered_bits(words[1]);
    base = least;
    double unit = 1;
    if constexpr (!Costs::kIntegral) {
      range.word[1] = typename Costs::Word(words[2]);
      unit = range.lowest_bit();
    }
    const double spread = most - least;
    const bool usable = spread > 1e-30 && spread < 1e37;
    return {float(spread), float(unit), usable && !is_far_wider(float(spread), float(unit))};
  }

  // True if the spread is that of big-M costs, such as 1e30 in place of infinity: the two best
  // columns of a good part of the rows differ by next to nothing of it. An auction at that scale
  // could not tell the other costs apart, and the duals of the exact solver would round them away.
  // By all blocks together.
  __device__ bool is_far_wider(float spread, float unit) {
    constexpr float kSuspect = sizeof(Raw) == 8 ? 0x1p90f : 0x1p60f, kNothing = 0x1p-45f;
    constexpr int kGoodPart = 4;
    if (Costs::kIntegral || !(unit * kSuspect < spread)) return false;  // in all blocks alike
    if (thread == 0) control[0] = 0;
    sync();
    int rows = 0;
    for (int i = cluster.rank + warp() * cluster.blocks; i < n; i += warps() * cluster.blocks) {
      if (col4row[i] == -2) continue;
      const Offer o = find_offer(i, 0, n);
      rows += o.least < o.next && o.next - o.least < spread * kNothing;
    }
    if (lane() == 0 && rows > 0) atomicAdd(&control[0], rows);
    sync();
    // A word of the slots that find_bounds() does not use.
    uint64_t* slots = shared<uint64_t>(b.shared.range);
    if (thread < cluster.blocks) {
      cluster.in_block(slots + cluster.rank * kRangeWords, thread)[3] = uint64_t(control[0]);
    }
    cluster.sync();
    int64_t all = 0;
    for (int from = 0; from < cluster.blocks; ++from) all += int64_t(slots[from * kRangeWords + 3]);
    return all * kGoodPart >= n;
  }

  // Frees the rows whose column costs them more than epsilon above the least, and lists them.
  __device__ void begin_scale(float epsilon, bool first) {
    if (thread == 0) control[kMine0] = control[kMine1] = 0;
    sync();
    for (int i = cluster.rank + warp() * cluster.blocks; i < n; i += warps() * cluster.blocks) {
      const int own = col4row[i];
      if (own == -2) continue;
      bool keeps = false;
      if (own >= 0) {
        const Offer o = find_offer(i, 0, n);
        const Raw raw = Costs::load(b.cost, (problem * n + i) * n + own, b.cost_dtype);
        keeps = value(raw) - price[own] <= o.least + epsilon;
      }
      if (keeps) continue;
      int at = 0;
      if (lane() == 0) {
        at = atomicAdd(&control[kMine0], 1);
        mine(0)[at] = Index(i);
      }
      at = __shfl_sync(kAllLanes, at, 0);
      send(at, entry(0, own >= 0 ? own : int(kNoColumn), i));
    }
    sync();
    send_count(control[kMine0]);
    cluster.sync();
    free_rows = 0;
    for (int from = 0; from < cluster.blocks; ++from) free_rows += *mail_count(rounds, from);
    for_mail([&](uint64_t e) {
      col4row[row_of_entry(e)] = -1;
      if (col_of_entry(e) != int(kNoColumn)) row4col[col_of_entry(e)] = -1;
    });
    sync();
    if (!first) scans += n;
    ++rounds;
  }

  __device__ void send_bid(int k, int i, const Offer& o, float epsilon) const {
    uint64_t bid = entry(0, int(kNoColumn), i);
    if (o.least < kFar) {
      const float old = price[o.col];
      // The only allowed column is worth any price.
      float lowered = old - epsilon - (o.next < kFar ? o.next - o.least : 0.0f);
      // Below the resolution of float32 a price still moves.
      const uint32_t below = ordered_bits(old) - 1;
      lowered = lowered < old ? lowered : from_ordered_bits(below);
      bid = entry(lowered, o.col, i);
    }
    send(k, bid);
  }

  __device__ void bid(const Index* rows, int count, float epsilon) const {
    // Several warps share a row while rows are few.
    int shares = 1;
    while (count * shares * 2 <= warps() && n >= shares * 2 * 512) shares *= 2;
    if (shares == 1) {
      for (int k = warp(); k < count; k += warps())
        send_bid(k, rows[k], find_offer(rows[k], 0, n), epsilon);
      return;
    }
    const int part = warp() % shares, k = warp() / shares;
    const int width = ((n + shares - 1) / shares + 127) / 128 * 128;
    Offer* partial = shared<Offer>(b.shared.partial);
    if (k < count) {
      const Offer o = find_offer(rows[k], part * width, min((part + 1) * width, n));
      if (lane() == 0) partial[warp()] = o;
    }
    sync();
    if (k < count && part == 0) {
      const Offer o = lane() < shares ? partial[warp() + lane()] : Offer{kFar, kFar, INT32_MAX};
      send_bid(k, rows[k], merge(o), epsilon);
    }
  }

  // One round of bids.
  __device__ void play_round(float epsilon, int turn) {
    const int count = control[turn ? kMine1 : kMine0];
    int* next_count = &control[turn ? kMine0 : kMine1];
    send_count(count);
    bid(mine(turn), count, epsilon);
    cluster.sync();
    if (thread == 0) {
      *next_count = 0;
      control[kLess] = 0;
    }
    int all = 0;
    for (int from = 0; from < cluster.blocks; ++from) all += *mail_count(rounds, from);
    for_mail([&](uint64_t e) {
      if (col_of_entry(e) != int(kNoColumn)) {
        atomicMin(reinterpret_cast<unsigned long long*>(&best[col_of_entry(e)]),
                  static_cast<unsigned long long>(e));
      }
    });
    sync();
    const auto list = [&](int i) {
      if (is_mine(i)) mine(!turn)[atomicAdd(next_count, 1)] = Index(i);
    };
    for_mail([&](uint64_t e) {
      const int i = row_of_entry(e), j = col_of_entry(e);
      if (j == int(kNoColumn)) {
        col4row[i] = -2;  // has no allowed column: found infeasible by the exact solver
        atomicAdd(&control[kLess], 1);
      } else if (best[j] != e) {
        list(i);
      } else {
        const int owner = row4col[j];
        row4col[j] = Index(i);
        col4row[i] = Index(j);
        price[j] = from_ordered_bits(uint32_t(e >> 32));
        if (owner >= 0) {
          col4row[owner] = -1;
          list(owner);
        } else {
          atomicAdd(&control[kLess], 1);
        }
      }
    });
    sync();
    free_rows -= control[kLess];  // in all blocks alike
    for_mail([&](uint64_t e) {
      if (col_of_entry(e) != int(kNoColumn)) best[col_of_entry(e)] = ~uint64_t(0);
    });
    scans += all;
    ++rounds;
  }

  __device__ void write_prices(bool usable) const {
    if (cluster.rank != 0) return;
    for (int j = thread; j < n; j += size) {
      b.prices[problem * n + j] = usable ? price[j] : __builtin_nanf("");
    }
    if (b.counts && thread == 0) {
      b.counts[2 * problem] = rounds;
      b.counts[2 * problem + 1] = scans;
    }
  }

  // True if searches alone are expected to be faster. After the first round the rows that won a
  // column are those with nearest columns of their own. With uniform random costs they are 63 %,
  // and the more they are, the fewer rows are left to searches.
  __device__ bool is_easy(int rows) const {
    constexpr int kLarge = 512;
    const float easy = rows > kLarge ? 0.66f : 0.5f;
    return float(rows - free_rows) >= easy * float(rows);
  }

  __device__ void run() {
    // Limits in parts of the spread of the costs, of rows, and in rounds.
    constexpr float kFirst = 1.0f / 32, kFactor = 0.25f, kLast = 1e-6f;
    constexpr int kStopPart = 128, kFewest = 4, kRoundsPerRow = 4;
    const int rows = read_masks();
    cluster.sync();  // every block has begun, so that its memory may be written
    if (rows <= kFewest) return write_prices(false);
    const CostBounds costs = find_bounds();
    const bool tied = costs.unit > 0 && costs.spread <= costs.unit * float(rows);
    if (!costs.usable || tied) return write_prices(false);
    const int stop = max(kFewest, rows / kStopPart);
    const float last = fmaxf(costs.spread * kLast, costs.unit / 2);
    for (float epsilon = costs.spread * kFirst;; epsilon *= kFactor) {
      const bool first = rounds == 0;
      begin_scale(epsilon, first);
      // If the problem is infeasible, rows bid without end.
      const int most_rounds = rounds + kRoundsPerRow * rows;
      for (int turn = 0; free_rows > stop && rounds < most_rounds; turn ^= 1) {
        play_round(epsilon, turn);
        if (first && rounds == 2 && !b.always && is_easy(rows)) return write_prices(false);
      }
      if (epsilon <= last || rounds >= most_rounds) break;
      sync();
    }
    write_prices(true);
  }
};

template <class Costs>
__global__ void __launch_bounds__(kMostAuctionWarps* kWarpSize, 1)
    assignment_auction_kernel(const __grid_constant__ AuctionBatch b) {
  const int blocks = 1 << b.shift;
  Auction<Costs>(b, blockIdx.x / blocks, {blocks, int(blockIdx.x) % blocks}).run();
}

template <class Costs>
AuctionKernel pick_auction_kernel() {
  return assignment_auction_kernel<Costs>;
}

}  // namespace jaxmatch::assignment

#define JAXMATCH_INSTANCE(Costs)                       \
  namespace jaxmatch::assignment {                     \
  template AuctionKernel pick_auction_kernel<Costs>(); \
  }                                                    \
  static_assert(true, "a semicolon follows")

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUCTION_CUH_
