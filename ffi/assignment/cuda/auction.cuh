// Finds start prices by an auction with epsilon scaling (Bertsekas and Castanon 1991): in each
// round, every free row bids for its best column. A scale is a phase of the auction in which
// epsilon is constant. A scale ends once few rows are free, because the last free rows would outbid
// each other for many rounds. The exact solver starts from the prices and pairs of the auction, and
// matches the rows that are still free. Prices may be rounded to float32, because the exact solver
// can start from any prices and pairs.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_CUH_

#include "assignment/cuda/auction_inspect.cuh"
#include "assignment/cuda/kernels.h"

namespace jaxmatch::assignment {

// Prices are column duals: to outbid another row, a row lowers the price of a column. The bid with
// the lowest price wins the column; among equal prices, the row with the lowest index wins. So the
// result depends neither on the number of blocks nor on the speed of warps.
//
// Columns that stay unmatched must have the greatest dual, `top`. Conceptually, each of these
// columns is held by a dummy row, whose cost is 0 in every column. All dummy rows are identical. If
// rows may stay unmatched, each row also has a private column. Its cost is the unmatched cost of
// the row, and its dual is `top`. A row that stays unmatched holds its private column; dummy rows
// hold the other private columns.
//
// A row pays the cost of its column minus the price of the column. next_best is a lower bound on
// what a row would pay if it gave up its present choice. This bound is computed when the row bids
// or the scale begins. It stays valid, because falling prices only raise what rows pay.
template <class CostsType>
struct Auction : AuctionState<CostsType> {
  using Base = AuctionState<CostsType>;
  using Base::b, Base::cluster, Base::thread, Base::size, Base::shift, Base::rows, Base::cols,
      Base::price, Base::best, Base::row4col, Base::col4row, Base::control, Base::free_rows,
      Base::rounds, Base::scans, Base::next_best;
  using Base::Base;
  using Base::kMine0, Base::kMine1, Base::kCount, Base::kNoColumn, Base::kStays, Base::kFree,
      Base::kNoChoice, Base::kUnmatched;

  float epsilon = 0, top = 0, step = 0, next_step = 0;
  int turn = 0;  // which of the two lists of free rows bids next

  // tagged() is a bid as stored in `best`. Its tag falls from round to round, so bids of later
  // rounds are smaller numbers and replace older ones.
  static constexpr int kFirstTag = 0x7fff;
  __device__ int tag() const { return kFirstTag - (rounds & kFirstTag); }
  __device__ uint64_t tagged(uint64_t e) const {
    return uint64_t(tag()) << 48 | e >> 32 << 16 | uint64_t(row_of_entry(e));
  }

  __device__ void end_round() {
    ++rounds;
    if (tag() != kFirstTag) return;
    for (int j = thread; j < cols; j += size) best[j] = ~uint64_t(0);
    this->sync();
  }

  __device__ int& listed(int which) const { return control[which ? kMine1 : kMine0]; }
  // What row i pays to stay unmatched: the reduced cost of its private column.
  __device__ float leaves_for(int i) const { return this->unmatched_cost_of(i) - top; }

  // Frees the rows that the blocks have sent in this round, and their columns.
  __device__ void free_mailed() {
    this->for_mail([&](uint64_t e) {
      col4row[row_of_entry(e)] = kFree;
      if (col_of_entry(e) != kNoColumn) row4col[col_of_entry(e)] = kNone;
    });
  }

  // Begins a scale with epsilon = `size_of_scale`. Frees and lists the rows that pay more than the
  // cost of their cheapest choice plus epsilon.
  __device__ void begin_scale(float size_of_scale) {
    epsilon = step = next_step = size_of_scale;
    turn = 0;
    if (thread == 0) control[kMine0] = control[kMine1] = 0;
    this->sync();
    for (int t = this->warp(); t < this->rows_here(); t += this->warps()) {
      const int i = this->row_at(t), own = col4row[i];
      if (own == kNoChoice) continue;
      bool keeps = false;
      if (own != kFree) {
        const TwoLeast<float> o = this->two_least(i);
        const float leave = leaves_for(i), other = own == o.col ? o.next : o.least;
        const float pays = own >= 0 ? this->cost(i, own) - price[own] : leave;
        if (this->lane() == 0) next_best[t] = own >= 0 ? fminf(other, leave) : other;
        keeps = pays <= fminf(o.least, leave) + epsilon;
      }
      if (keeps) continue;
      int at = 0;
      if (this->lane() == 0) {
        at = atomicAdd(&control[kMine0], 1);
        this->mine(0)[at] = Index(i);
      }
      at = __shfl_sync(kAllLanes, at, 0);
      this->send(at, make_entry(0, own >= 0 ? own : kNoColumn, i));
    }
    this->sync();
    this->send_count(control[kMine0]);
    cluster.sync();
    free_rows = this->all_mail();
    free_mailed();
    this->sync();
    end_round();
  }

  __device__ void send_bid(int k, int i, const TwoLeast<float>& o) const {
    const float leave = leaves_for(i);
    int col = kNoColumn;
    float lowered = 0, next = o.least;
    if (leave < kFar && !(leave > o.least)) {
      col = kStays;
    } else if (o.least < kFar) {
      col = o.col;
      next = fminf(o.next, leave);
      const float old = price[o.col];
      // If the row has no second choice, the price falls by epsilon only.
      lowered = old - epsilon - (next < kFar ? next - o.least : 0.0f);
      // If the step is too small for float32, the price moves to the next lower float.
      const uint32_t below = ordered_bits(old) - 1;
      lowered = lowered < old ? lowered : from_ordered_bits(below);
    }
    if (this->lane() == 0) next_best[this->position_of(i)] = next;
    this->send(k, make_entry(lowered, col, i));
  }

  // Bids for the `count` rows of the list `free`. While many rows are free, costs are perturbed, so
  // that not all rows bid for the same columns.
  __device__ void bid(const Index* free, int count) const {
    constexpr int kFewPart = 16;
    const float perturbation = free_rows > rows / kFewPart ? epsilon : 0;
    // If few rows bid, several warps share a row.
    int shares = 1;
    while (count * shares * 2 <= this->warps() && cols >= shares * 2 * 512) shares *= 2;
    if (shares == 1) {
      for (int k = this->warp(); k < count; k += this->warps()) {
        send_bid(k, free[k], this->two_least(free[k], perturbation));
      }
      return;
    }
    const int part = this->warp() % shares, k = this->warp() / shares;
    const int width = ((cols + shares - 1) / shares + 127) / 128 * 128;
    TwoLeast<float>* partial = this->f.template shared<TwoLeast<float>>(b.at.partial);
    if (k < count) {
      const TwoLeast<float> o =
          this->two_least(free[k], part * width, min((part + 1) * width, cols), perturbation);
      if (this->lane() == 0) partial[this->warp()] = o;
    }
    this->sync();
    if (k < count && part == 0) {
      const int at = this->warp() + this->lane();
      const TwoLeast<float> o =
          this->lane() < shares ? partial[at] : TwoLeast<float>{kFar, kFar, INT32_MAX};
      send_bid(k, free[k], merge(o));
    }
  }

  // Plays one round: every listed row bids, and every block resolves all bids.
  __device__ void play_round() {
    const int count = listed(turn);
    this->send_count(count);
    bid(this->mine(turn), count);
    cluster.sync();
    turn ^= 1;
    if (thread == 0) listed(turn) = control[kCount] = 0;
    scans += this->all_mail();
    this->for_mail([&](uint64_t e) {
      if (col_of_entry(e) < kStays) atomic_min(&best[col_of_entry(e)], tagged(e));
    });
    this->sync();
    const auto list = [&](int i) {
      if (this->is_mine(i)) this->mine(turn)[atomicAdd(&listed(turn), 1)] = Index(i);
    };
    this->for_mail([&](uint64_t e) {
      const int i = row_of_entry(e), j = col_of_entry(e);
      if (j >= kStays) {  // row i stays unmatched, or has no choice (infeasible)
        col4row[i] = Index(j == kStays ? kUnmatched : kNoChoice);
        atomicAdd(&control[kCount], 1);
      } else if (best[j] != tagged(e)) {
        list(i);
      } else {
        const int owner = row4col[j];
        row4col[j] = Index(i);
        col4row[i] = Index(j);
        price[j] = price_of_entry(e);
        if (owner >= 0) {
          col4row[owner] = kFree;
          list(owner);
        } else {
          atomicAdd(&control[kCount], 1);
        }
      }
    });
    this->sync();
    free_rows -= control[kCount];  // all blocks have the same count
    end_round();
  }

  // The number of dummy rows without a column. Dummy rows hold the free columns at price `top`.
  // There are as many free columns below `top` as free rows and dummy rows without a column
  // together.
  __device__ int lacking() const {
    this->sync();  // all threads have read the previous count
    if (thread == 0) control[kCount] = 0;
    this->sync();
    int low = 0;
    for (int j = thread; j < cols; j += size) low += row4col[j] == kNone && price[j] < top;
    if (low > 0) atomicAdd(&control[kCount], low);
    this->sync();
    return control[kCount] - free_rows;
  }

  // The identical dummy rows bid together: they lower `top`, by steps that grow like Fibonacci
  // numbers. Rows that now pay more than the cost of another choice plus epsilon become free.
  __device__ void lower_top() {
    top -= step;
    next_step += step;
    step = next_step - step;
    const int before = listed(turn);
    this->sync();
    for (int t = thread; t < this->rows_here(); t += size) {
      const int i = this->row_at(t), own = col4row[i];
      if (own == kFree || own == kNoChoice || (own >= 0 && !(price[own] > top))) continue;
      const float pays = own >= 0 ? this->cost(i, own) - top : leaves_for(i);
      if (!(pays > next_best[t] + epsilon)) continue;
      const int at = atomicAdd(&listed(turn), 1);
      this->mine(turn)[at] = Index(i);
      const uint64_t entry = make_entry(0, own >= 0 ? own : kNoColumn, i);
      for (int to = 0; to < cluster.blocks; ++to) {
        *cluster.in_block(this->mail(cluster.rank) + at - before, to) = entry;
      }
    }
    this->sync();
    this->send_count(listed(turn) - before);
    cluster.sync();
    free_rows += this->all_mail();
    free_mailed();
    for (int j = thread; j < cols; j += size) price[j] = fminf(price[j], top);
    this->sync();
    end_round();
  }

  // Writes prices and pairs; prices are NaN unless `usable`. The exact solver will round prices to
  // the unit that its arithmetic needs.
  __device__ void write_result(bool usable) const {
    if (cluster.rank != 0) return;
    const float most = this->cols_optional() ? 0.0f : kFar;
    float* prices = this->f.template auction<float>(kAuctionPrices);
    for (int j = thread; j < cols; j += size) {
      prices[j] = usable ? fminf(price[j] - top, most) : __builtin_nanf("");
    }
    int* cols_of_rows = this->f.template auction<int>(auction_pairs(b));
    for (int i = thread; i < rows; i += size) {
      const int j = col4row[i];
      cols_of_rows[i] = j >= 0 ? j : j == kUnmatched ? kDropped : kNone;
    }
    if (b.counts && thread == 0) {
      b.counts[2 * this->f.problem] = rounds;
      b.counts[2 * this->f.problem + 1] = scans;
    }
  }

  // True if searches alone are expected to be faster. There are two such cases:
  //   - Many rows can have their best columns at the same time, so that few rows are left to
  //     searches. (With uniform random costs, 63 % of the rows can.)
  //   - Few pairs are useful (Inspected::useful), so that searches are short.
  __device__ bool is_easy(const Inspected& costs) const {
    constexpr int kLarge = 512, kFewUseful = 16;
    const float easy = rows > kLarge ? 0.66f : 0.5f;
    return !b.always &&
           (float(costs.satisfied) >= easy * float(rows) || costs.useful <= kFewUseful * rows);
  }

  // The first and the last epsilon, and the limit `most` up to which the first epsilon may rise.
  // They are fixed fractions of the spread of the costs. But if the costs have a heavy tail,
  // `first` and `last` are fractions of the scale of what rows pay (scale_of_rows()). Then `first`
  // is a guess, and epsilon rises, up to `most`, if too many rows stay free.
  struct Schedule {
    float first, last, most;
  };
  __device__ static Schedule schedule(const Inspected& costs) {
    constexpr float kFirst = 1.0f / 32, kLast = 1e-6f, kFirstOfTail = 0.125f,
                    kLastOfTail = 0x1p-20f;
    const float first = costs.spread * kFirst;
    if (!(costs.scale < costs.spread)) return {first, costs.spread * kLast, first};
    return {costs.scale * kFirstOfTail, costs.scale * kLastOfTail, first};
  }

  __device__ void run() {
    // kStopPart and kLackingPart are divisors: of the number of rows and of the number of dummy
    // rows. kPatience is a number of rounds.
    constexpr float kFactor = 0.25f, kRise = 8;
    constexpr int kStopPart = 128, kFewest = 4, kRoundsPerRow = 4, kLackingPart = 4, kPatience = 64;
    this->begin();
    const Inspected costs = inspect(*this);
    if (rows <= kFewest || cols <= kFewest) return write_result(false);
    const bool tied = costs.unit > 0 && costs.spread <= costs.unit * float(rows);
    if (!costs.usable || tied || is_easy(costs)) return write_result(false);
    const int stop = max(kFewest, rows / kStopPart);
    const int dummies = this->may_leave() ? cols : cols - rows;
    const int few = min(stop, dummies / kLackingPart);
    const Schedule falls = schedule(costs);
    const float last = fmaxf(falls.last, costs.unit / 2);
    float rises_to = falls.most;  // epsilon can rise in the first scale only
    for (float scale = falls.first;; scale = epsilon * kFactor) {
      begin_scale(scale);
      // Limits the rounds, because rows of an infeasible problem would bid forever.
      const int most_rounds = rounds + kRoundsPerRow * rows;
      int since = rounds, before = free_rows;
      for (; rounds < most_rounds;) {
        if (free_rows > stop) {
          if (epsilon < rises_to && rounds - since >= kPatience) {
            if (free_rows > before / 2) epsilon = step = next_step = epsilon * kRise;
            since = rounds, before = free_rows;
          }
          play_round();
        } else if (dummies > 0 && lacking() > few) {
          lower_top();
        } else {
          break;
        }
      }
      if (epsilon <= last || rounds >= most_rounds) break;
      rises_to = 0;
      this->sync();
    }
    write_result(true);
  }
};

template <class Costs>
__global__ void __launch_bounds__(kAuctionThreads, 2)
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
