// The team that solves one large problem on a GPU: all threads of a cooperative launch.
#ifndef JAXMATCH_LARGE_CUDA_TEAM_CUH_
#define JAXMATCH_LARGE_CUDA_TEAM_CUH_

#include "assignment/large/cuda/arc_cache.cuh"
#include "common/compensated_sum.h"
#include "common/cuda/memory_order.cuh"

namespace jaxmatch::assignment::large {

// All threads of the grid call all functions in the same order.
// - each() and rows() contain no barrier.
// - prices(), gather_arcs() and share_rows() may synchronise the block. A barrier of the grid must
//   separate two calls of share_rows().
// - lower_offers() may synchronise the grid inside, but not at its end.
// - sync() and every function that returns a sum synchronise the grid.
// - relax_to_fixed_point() ends for all threads in the same round of termination detection.
class GridTeam {
 public:
  __device__ GridTeam(Control* control, ArcCacheSize cache_size)
      : control_(control),
        barrier_(barrier_of(control)),
        thread_(int64_t(blockIdx.x) * blockDim.x + threadIdx.x),
        threads_(int64_t(gridDim.x) * blockDim.x),
        arcs_(cache_size, kBytesOfTeam) {
    if (threadIdx.x == 0) shared() = Shared{};
    __syncthreads();
  }

  static constexpr bool kSearchesInOwnKernel = true;  // see assignment/large/sharded/solve.h
  __host__ __device__ static BarrierState* barrier_of(Control* control) {
    return reinterpret_cast<BarrierState*>(reinterpret_cast<int32_t*>(control) + kBarrierAt);
  }
  // Size of the shared memory, in bytes.
  __host__ __device__ static int64_t bytes(ArcCacheSize cache_size) {
    return kBytesOfTeam + cache_size.bytes();
  }
  static constexpr int kPartsAt = 64, kBytesOfTeam = 1 << 12, kMostWarps = 32;

  __device__ void sync() { barrier_reduce(0); }
  __device__ static int64_t now() { return nanoseconds(); }
  // Prices for a pass over all costs. If they fit, they are copied to shared memory, where they
  // replace the cached arcs.
  __device__ const double* prices(const LargeState& s) {
    if (s.m * int64_t(sizeof(double)) > arcs_.bytes()) return s.v_real;
    double* const mine = reinterpret_cast<double*>(arcs_.memory());
    for (int64_t j = threadIdx.x; j < s.m; j += blockDim.x) mine[j] = load_relaxed(s.v_real + j);
    __syncthreads();
    return mine;
  }
  // Caches the arcs that a search can use. A barrier must follow before they are read.
  template <class P>
  __device__ void gather_arcs(const P& p, const Search& search) {
    arcs_.gather(p, search, label_layout(p.s), RowsOfWarps::of(p.s.n));
  }
  // Calls f(position, step) for the cached arcs of row i. The row must belong to this block, as in
  // relax_to_fixed_point() and in rows() with labels.
  template <class P, class F>
  __device__ void for_each_arc(const P& p, const Search& search, Lanes g, int64_t i, F f) const {
    arcs_.for_each(p, search, label_layout(p.s), RowsOfWarps::of(p.s.n), g, i, f);
  }
  // Labels are stored by row if there are so many rows that polling labels stored by column would
  // exceed the memory bandwidth.
  __device__ static LabelLayout label_layout(const LargeState& s) {
    return {s, RowsOfWarps::of(s.n).bits > 0};
  }

  template <class F>
  __device__ void leader(F f) {
    if (thread_ == 0) f();
  }
  template <class F>
  __device__ void leader_lanes(F f) {
    if (warp() == 0) f(lanes());
  }

  template <class F>
  __device__ void each(int64_t count, F f) {
    for (int64_t k = thread_; k < count; k += threads_) f(k);
  }
  // Lowers each column's label to the least offer that scan(block, column, offer) finds in all
  // blocks of rows, and sets the parent accordingly. All threads share the columns; several threads
  // may share a column.
  template <class Wanted, class Scan>
  __device__ void lower_offers(int64_t cols, int64_t blocks, int64_t* label, uint64_t* parent,
                               Wanted wanted, Scan scan) {
    const int64_t width = (cols + kWarp - 1) / kWarp * kWarp;
    const int64_t groups = lesser(width < threads_ ? threads_ / width : 1, blocks);
    const auto scan_group = [&](int64_t j, int64_t group) {
      Offer best;
      if (group == 0) best = {slack_of_label(load_relaxed(label + j)), load_relaxed(parent + j)};
      for (int64_t b = group; b < blocks; b += groups) scan(b, j, best);
      return best;
    };
    if (groups <= 1) {
      return each(cols, [&](int64_t j) {
        if (!wanted(j)) return;
        const Offer best = scan_group(j, 0);
        store_relaxed(label + j, whole_or_far(best.least));
        store_relaxed(parent + j, best.place);
      });
    }
    const int64_t j = thread_ % width, group = thread_ / width;
    const bool mine = group < groups && j < cols && wanted(j);
    Offer best;
    if (mine) best = scan_group(j, group);
    sync();
    const int64_t least = whole_or_far(best.least);
    if (mine) atomic_min(label + j, least);
    if (mine && group == 0) store_relaxed(parent + j, kNoParent);
    sync();
    if (mine && least == load_relaxed(label + j)) atomic_min(parent + j, best.place);
  }
  // Calls f(column, first row, step). All threads share the columns; several threads may share a
  // column.
  template <class F>
  __device__ void row_groups(int64_t cols, F f) {
    const int64_t width = (cols + kWarp - 1) / kWarp * kWarp;
    const int64_t groups = width < threads_ ? threads_ / width : 1;
    each(width * groups, [&](int64_t k) {
      if (k % width < cols) f(k % width, k / width, groups);
    });
  }
  // Distributes rows over the warps of all blocks. The arcs of a row need not be in the cache of
  // the block that gets it.
  template <class F>
  __device__ void rows(int64_t count, F f) {
    for (int64_t i = warp(); i < count; i += warps()) f(lanes(), i);
  }
  // The number of warps per row for `rows` rows, at most `most`.
  __device__ int64_t shares(int64_t rows, int64_t most) const {
    return greater(lesser(warps() / greater(rows, int64_t{1}), most), int64_t{1});
  }
  // Calls publish(lanes, k, find(lanes, k, first, last)), where find() scans columns `first` to
  // `last` of the k-th row. If there are few rows, several warps of a block share a row, and
  // Part::of_lanes() merges what they find.
  template <class Part, class Find, class Publish>
  __device__ void share_rows(int64_t count, int64_t cols, Find find, Publish publish) {
    constexpr int64_t kFewestCols = 256;  // fewest columns of a warp
    const int warps_of_block = int(blockDim.x) / kWarp;
    int shares = 1;
    while (warps_of_block % (2 * shares) == 0 && count * 2 * shares <= warps() &&
           cols >= 2 * shares * kFewestCols) {
      shares *= 2;
    }
    if (shares == 1) {
      return rows(count, [&](Lanes g, int64_t k) { publish(g, k, find(g, k, int64_t{0}, cols)); });
    }
    static_assert(kPartsAt + kMostWarps * sizeof(Part) <= kBytesOfTeam, "");
    Part* const parts = reinterpret_cast<Part*>(shared_memory + kPartsAt);
    const int mine = int(threadIdx.x) / kWarp, share = mine % shares;
    const int64_t k = int64_t(mine / shares) * gridDim.x + blockIdx.x;
    const int64_t width = ((cols + shares - 1) / shares + kWarp - 1) / kWarp * kWarp;
    if (k < count) {
      const Part part =
          find(lanes(), k, lesser(share * width, cols), lesser((share + 1) * width, cols));
      if (lanes().lane == 0) parts[mine] = part;
    }
    __syncthreads();
    if (k < count && share == 0) {
      const Part own = lanes().lane < shares ? parts[mine + lanes().lane] : Part{};
      publish(lanes(), k, Part::of_lanes(lanes(), own));
    }
  }
  template <class F>
  __device__ int64_t sum(int64_t count, F f) {
    int part = 0;
    for (int64_t k = thread_; k < count; k += threads_) part += int(f(k));
    return barrier_reduce(__reduce_add_sync(kAll, part));
  }
  // Returns a sum that may exceed 31 bits.
  template <class F>
  __device__ int64_t wide_sum(int64_t count, F f) {
    int64_t part = 0;
    for (int64_t k = thread_; k < count; k += threads_) part += f(k);
    auto* const sum = reinterpret_cast<unsigned long long*>(&barrier_->sum);
    leader([&] { *sum = 0; });
    sync();
    for (int step = kWarp / 2; step > 0; step /= 2) part += __shfl_xor_sync(kAll, part, step);
    if (lanes().lane == 0 && part != 0) atomicAdd(sum, (unsigned long long)part);
    sync();
    const int64_t total = int64_t(load_relaxed(sum));
    sync();  // before the next sum begins
    return total;
  }
  template <class F>
  __device__ int64_t sum_rows(int64_t count, F f) {
    int part = 0;
    for (int64_t i = warp(); i < count; i += warps()) part += int(f(lanes(), i));
    return barrier_reduce(part);
  }
  // Like sum_rows() above, but only for rows whose label is not negative. Each lane reads the
  // labels of its own rows.
  template <class Label, class F>
  __device__ int64_t sum_rows(int64_t count, Label label_of, F f) {
    int part = 0;
    rows(count, label_of, [&](Lanes g, int64_t i, int64_t label) { part += int(f(g, i, label)); });
    return barrier_reduce(part);
  }
  template <class Label, class F>
  __device__ void rows(int64_t count, Label label_of, F f) {
    const RowsOfWarps place = RowsOfWarps::of(count);
    for (int c = 0; c < kRowsPerLane && first_row(place, c) < count; ++c) {
      const int64_t mine = row_of_lane(place, c);
      work_on(place, c, mine < count ? int64_t(label_of(mine)) : -1, f);
    }
  }
  // Runs label correcting to its fixed point. poll(memo) loads a row's label. check(memo, label)
  // returns the label to propagate, or -1. relax(lanes, row, label) relaxes the row's arcs. When
  // the value of watch() changes, on_change(column, value) is called for every column. Returns the
  // number of rounds of termination detection. The callbacks, and code up to the next barrier, must
  // use load_relaxed() to read what other threads store meanwhile, because the L1 cache may hold
  // stale values.
  //
  // The loop has no barrier. Once a warp has polled all its rows and found no work, it announces
  // itself idle in the current round of termination detection, and continues to poll. A round ends
  // when all warps have announced themselves idle. The fixed point is reached when no warp has
  // relaxed a row since its announcement in the round before.
  template <class Memo, class Init, class Watch, class Poll, class Check, class Relax,
            class OnChange>
  __device__ int64_t relax_to_fixed_point(int64_t rows, int64_t cols, Init init, Watch watch,
                                          Poll poll, Check check, Relax relax, OnChange on_change) {
    const RowsOfWarps place = RowsOfWarps::of(rows);
    Memo memo[kRowsPerLane];
    bool exists[kRowsPerLane];
#pragma unroll
    for (int c = 0; c < kRowsPerLane; ++c) {
      const int64_t i = row_of_lane(place, c);
      exists[c] = i < rows;
      if (exists[c]) memo[c] = init(i);
    }
    int64_t seen = kFar;
    bool relaxed = false, announced = false;
    for (int64_t rounds = 0;;) {
      const uint64_t word = threadIdx.x == 0 ? load_relaxed(&barrier_->word[epoch_ & 1]) : 0;
      bool relaxes = false;
      if (cols > 0) {
        const int64_t current = __shfl_sync(kAll, watch(), 0);  // the same for all lanes
        if (current != seen) {
          seen = current;
          relaxes = true;
          for (int64_t k = thread_; k < cols; k += threads_) on_change(k, seen);
        }
      }
      int64_t label[kRowsPerLane];  // all loads in flight together
#pragma unroll
      for (int c = 0; c < kRowsPerLane; ++c) {
        if (exists[c]) label[c] = poll(memo[c]);
      }
#pragma unroll
      for (int c = 0; c < kRowsPerLane; ++c) {
        if (first_row(place, c) >= rows) break;
        relaxes |= work_on(place, c, exists[c] ? check(memo[c], label[c]) : -1, relax);
      }
      relaxed |= relaxes;
      if (!announced && !relaxes) {
        announce_idle(relaxed);
        announced = true;
        relaxed = false;
      } else if (bool any_worked; announced && detect_termination(word, any_worked)) {
        ++epoch_;
        ++rounds;
        announced = false;
        if (!any_worked) return rounds;
      }
    }
  }
  // Lowers *at to x. The row that owns the label polls it, so it need not be notified.
  template <class X>
  __device__ static void propagate_min(X* at, X x, const int32_t*) {
    atomic_min_relaxed(at, x);
  }
  __host__ __device__ static int64_t most_rows(int64_t warps) {
    return warps * kWarp * kRowsPerLane;
  }

  // Adds the numbers in an order that depends only on the count.
  __device__ double ordered_sum(int64_t count, const double* x) {
    sync();
    leader_lanes([&](Lanes g) {
      FullRangeSum sum;
      for (int64_t k = g.lane; k < count; k += kWarp) sum.add(load_relaxed(x + k));
      for (int step = kWarp / 2; step > 0; step /= 2) {
        const auto down = [step](double y) { return __shfl_down_sync(kAll, y, step); };
        sum.add(FullRangeSum{{down(sum.small.sum), down(sum.small.error)},
                             {down(sum.large.sum), down(sum.large.error)}});
      }
      if (g.lane == 0) control_->sum = sum.value();
    });
    sync();
    return load_relaxed(&control_->sum);
  }

  // Computes the range of all costs, and the column minima in v_real.
  template <class P>
  __device__ void scan_costs(P& p) {
    int64_t* const least = reinterpret_cast<int64_t*>(p.s.v_real);
    // As integers, the bits of negative doubles compare in reverse order.
    const auto to_ordered = [](int64_t bits) { return bits < 0 ? bits ^ INT64_MAX : bits; };
    leader([&] { p.s.control->range = QuantRange{}; });
    each(p.s.m, [&](int64_t j) {
      store_relaxed(least + j, to_ordered(__double_as_longlong(infinity())));
    });
    sync();
    // A warp scans a tile of neighbouring rows and columns. Tiles scanned at the same time lie in
    // the same rows, i.e. in few memory pages. Without this order, a scan of 90 GB took 1.5 times
    // as long.
    constexpr int kCols = P::kComputed ? 4 : 8, kWidth = kCols * kWarp, kUsualRows = 128;
    constexpr int kRows = Integral<typename P::Element>::value ? 2 : 4;
    const int64_t tiles = greater((p.s.m + kWidth - 1) / kWidth, int64_t{1});
    const int64_t rounds = (p.s.n * tiles - 1) / (warps() * kUsualRows) + 1;
    const int64_t bands = greater(warps() * rounds / tiles, int64_t{1});
    const int64_t height = (p.s.n + bands - 1) / bands;
    const int64_t at = int64_t(blockIdx.x) * (blockDim.x / kWarp) + threadIdx.x / kWarp;
    typename P::Range range;
    for (int64_t k = at; k / tiles * height < p.s.n; k += warps()) {
      const int64_t row = k / tiles * height, first = k % tiles * kWidth;
      p.template least_of_columns<kRows, kCols>(
          int(first) + lanes().lane, kWarp, int(lesser(first + kWidth, p.s.m)), row,
          lesser(row + height, p.s.n), range, [&](int j, double x) {
            const int64_t mine = to_ordered(__double_as_longlong(x));
            if (mine < load_relaxed(least + j)) atomic_min(least + j, mine);
          });
    }
    const QuantRange found = QuantRange::of(range);
    const int64_t most = -Lanes::min(-found.most), lowest = Lanes::min(found.lowest);
    const int32_t invalid = Lanes::min(found.invalid);
    if (lanes().lane == 0) {
      atomic_max(&p.s.control->range.most, most);
      atomic_min(&p.s.control->range.lowest, lowest);
      atomic_min(&p.s.control->range.invalid, invalid);
    }
    sync();
    each(p.s.m, [&](int64_t j) {
      store_relaxed(p.s.v_real + j, __longlong_as_double(to_ordered(load_relaxed(least + j))));
    });
    sync();
  }

 private:
  static constexpr unsigned kAll = 0xffffffffu;
  static constexpr int kWarp = 32;

  static constexpr int kRowsPerLane = 3;

  struct Shared {
    uint32_t part[2], total;  // sums at a barrier: of this block, and of all blocks
    uint32_t arrived;         // idle warps; in the high half, idle warps that relaxed a row before
    uint32_t outcome;  // the last complete round; in bit 0, whether any warp relaxed a row in it
  };
  static_assert(sizeof(Shared) <= kPartsAt, "");
  __device__ static Shared& shared() { return *reinterpret_cast<Shared*>(shared_memory); }
  __device__ Lanes lanes() const { return {int(threadIdx.x % kWarp)}; }
  // Neighbouring rows belong to different multiprocessors.
  __device__ int64_t warp() const { return int64_t(threadIdx.x / kWarp) * gridDim.x + blockIdx.x; }
  __device__ int64_t warps() const { return threads_ / kWarp; }

  // The rows of lane 0 and of this lane in a chunk of the warp's rows.
  __device__ static int64_t first_row(RowsOfWarps place, int chunk) {
    return place.row_of_warp(chunk * kWarp);
  }
  __device__ int64_t row_of_lane(RowsOfWarps place, int chunk) const {
    return place.row_of_warp(chunk * kWarp + lanes().lane);
  }

  // Barrier of all blocks. Returns the sum of part_of_warp over all warps, modulo 2^32. Two words
  // alternate, so that a block that arrives early at the next barrier does not change the word that
  // other blocks have yet to read. One word holds both the number of blocks that have arrived and
  // the sum. The words are never cleared, unlike the words of GridBarrier
  // (grid_cut/cuda/barrier.cuh), because relax_to_fixed_point() counts idle blocks in them, too.
  __device__ uint32_t barrier_reduce(int part_of_warp) {
    Shared& s = shared();
    const int parity = epoch_ & 1;
    if (threadIdx.x % kWarp == 0 && part_of_warp != 0) atomicAdd(&s.part[parity], part_of_warp);
    __syncthreads();
    if (threadIdx.x == 0) {
      uint64_t* const word = &barrier_->word[parity];
      const uint64_t mine = uint64_t(s.part[parity]) << 32 | 1;
      s.part[parity] = 0;
      atomic_add_release(word, mine);
      const uint32_t all = gridDim.x * (epoch_ / 2 + 1);
      uint64_t now;
      do {
        now = load_acquire(word);
      } while (int32_t(uint32_t(now) - all) < 0);
      // The difference of whole words cancels a carry out of the count.
      s.total = uint32_t((now - before_[parity]) >> 32);
      before_[parity] = now;
    }
    __syncthreads();
    ++epoch_;
    return s.total;
  }

  // Calls f(lanes, row, label) for each row with label >= 0 in a chunk of this warp's rows. Returns
  // whether there is such a row.
  template <class F>
  __device__ bool work_on(RowsOfWarps place, int chunk, int64_t label, F f) {
    const unsigned all = __ballot_sync(kAll, label >= 0);
    for (unsigned left = all; left; left &= left - 1) {
      const int lane = __ffs(left) - 1;
      f(lanes(), place.row_of_warp(chunk * kWarp + lane), __shfl_sync(kAll, label, lane));
    }
    return all != 0;
  }
  // Announces this warp idle in the current round. The last warp of a block announces the block.
  __device__ void announce_idle(bool worked) {
    __syncwarp();
    if (lanes().lane != 0) return;
    if (worked) __threadfence();
    const uint32_t before = atomicAdd(&shared().arrived, uint32_t(worked) << 16 | 1);
    if ((before & 0xffff) + 1 < blockDim.x / kWarp) return;
    atomicExch(&shared().arrived, 0u);
    __threadfence();
    const uint64_t sum = uint64_t((before >> 16) + worked) << 32 | 1;
    atomicAdd(reinterpret_cast<unsigned long long*>(&barrier_->word[epoch_ & 1]), sum);
  }
  // Returns whether this round of termination detection is complete. Sets `worked` if any warp
  // relaxed a row. The block's first thread polls the global word and publishes the outcome to the
  // block.
  __device__ bool detect_termination(uint64_t word, bool& worked) {
    uint32_t outcome = 0;
    if (threadIdx.x == 0) {
      const int parity = epoch_ & 1;
      if (int32_t(uint32_t(word) - gridDim.x * (epoch_ / 2 + 1)) >= 0) {
        outcome = (epoch_ + 1) << 1 | ((word - before_[parity]) >> 32 != 0);
        before_[parity] = word;
        __threadfence_block();
        atomicExch(&shared().outcome, outcome);
      }
    } else if (lanes().lane == 0) {
      outcome = atomicOr(&shared().outcome, 0u);
    }
    outcome = __shfl_sync(kAll, outcome, 0);
    worked = outcome & 1;
    return outcome >> 1 == ((epoch_ + 1) & (UINT32_MAX >> 1));
  }

  Control* control_;
  BarrierState* barrier_;
  int64_t thread_, threads_;
  ArcCache arcs_;
  uint32_t epoch_ = 0;
  uint64_t before_[2] = {0, 0};
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_CUDA_TEAM_CUH_
