// Finds the plan of a small problem by shortest augmenting paths, with one warp.
#ifndef JAXMATCH_CUDA_TRANSPORT_SMALL_PATHS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_SMALL_PATHS_CUH_

#include "transport/cuda/small_prices.cuh"

namespace jaxmatch::transport {

// A bit set of all rows, or of all columns. It has 32 bits (one per lane) for each of the kOwn rows
// that a lane has.
template <int kOwn>
struct MaskOf {
  using Type = std::conditional_t<kOwn == 1, uint32_t,
                                  std::conditional_t<kOwn == 2, uint64_t, unsigned __int128>>;
};
__device__ inline int32_t first_of(uint32_t x) { return __ffs(int(x)) - 1; }
__device__ inline int32_t first_of(uint64_t x) {
  return uint32_t(x) != 0 ? first_of(uint32_t(x)) : 32 + first_of(uint32_t(x >> 32));
}
__device__ inline int32_t first_of(unsigned __int128 x) {
  return uint64_t(x) != 0 ? first_of(uint64_t(x)) : 64 + first_of(uint64_t(x >> 64));
}
__device__ inline int count_of(uint32_t x) { return __popc(x); }
__device__ inline int count_of(uint64_t x) { return count_of(uint32_t(x)) + __popc(x >> 32); }
__device__ inline int count_of(unsigned __int128 x) {
  return count_of(uint64_t(x)) + count_of(uint64_t(x >> 64));
}
template <class T>
__device__ T from_lane(T x, int lane) {
  return __shfl_sync(kAllLanes, x, lane);
}
__device__ inline unsigned __int128 from_lane(unsigned __int128 x, int lane) {
  const uint64_t high = __shfl_sync(kAllLanes, uint64_t(x >> 64), lane);
  return (unsigned __int128)(high) << 64 | __shfl_sync(kAllLanes, uint64_t(x), lane);
}

// Free mass is mass of a row that is not in a column yet. A search starts from a row with free
// mass. It leads over columns, and over rows whose mass these columns hold, to the nearest column
// that lacks mass.
template <class C, int kOwn>
struct SmallPaths {
  using Problem = SmallProblem<C, kOwn>;
  using Mask = typename MaskOf<kOwn>::Type;

  const Problem& f;
  int64_t* const flow;  // [rows, cols] mass; set only where `held` has a bit
  int64_t* const rest;  // [rows] free mass
  // For each column of this lane:
  // - v: the price
  // - lacks: the missing mass
  // - far: in a search, the distance
  // - held: the set of rows of which the column holds mass
  // - from: in a search, the row before the column on its path
  int64_t v[kOwn], lacks[kOwn], far[kOwn];
  Mask held[kOwn];
  int32_t from[kOwn];
  // For each row of this lane: in a search, the column before the row on its path.
  int32_t into[kOwn];
  uint32_t closed = 0;  // bit a: the search has passed column a, or must not use it
  int32_t searches = 0, scans = 0;

  __device__ SmallPaths(const Problem& f, int64_t* flow, int64_t* rest)
      : f(f), flow(flow), rest(rest) {
    unroll<kOwn>([&](int a) {
      v[a] = lacks[a] = from[a] = into[a] = 0;
      held[a] = 0;
    });
    f.each_column([&](int a, int32_t j) { lacks[a] = f.c.demand[j]; });
  }

  // Moves all mass. Returns false if some mass cannot move, or after too many searches, which
  // happens only with unusual masses.
  __device__ bool run() {
    const int32_t most = 64 * (f.rows + f.cols);
    f.team.each(f.rows, [&](int64_t i) { rest[i] = f.c.supply[i]; });
    __syncwarp();
    for (int pass = 0; pass < 2; ++pass) {
      // In the first pass, each row gives what it can to its cheapest column.
      for (int32_t i = 0; i < f.rows; ++i) {
        int64_t left = rest[i];
        while (left > 0) {
          if (++searches > most || !search(i, pass == 0, left)) return false;
          if (pass == 0) break;
        }
        __syncwarp();  // all lanes have read rest[i]
        if (f.team.lane() == 0) rest[i] = left;
      }
      __syncwarp();
    }
    return true;
  }

  // The entry of `x` for column or row `at`, from the lane that has it.
  template <class T>
  __device__ T of(const T (&x)[kOwn], int32_t at) const {
    return from_lane(pick(x, at), at % kWarpSize);
  }
  template <class T>
  __device__ void set(T (&x)[kOwn], int32_t at, T y) const {
    unroll<kOwn>([&](int a) {
      if (f.col(a) == at) x[a] = y;
    });
  }
  __device__ int64_t& flow_of(int32_t i, int32_t j) const { return flow[i * f.cols + j]; }

 private:
  template <class T>
  __device__ static T pick(const T (&x)[kOwn], int32_t at) {
    T found = x[0];
    unroll<kOwn - 1>([&](int a) { found = at / kWarpSize > a ? x[a + 1] : found; });
    return found;
  }

  // Updates the distances of open columns (those not `closed`) with paths over row i. The row is
  // the root of the search if `by` is kNone. Otherwise it was reached from column `by`, whose
  // distance is `last`.
  __device__ void scan(int32_t i, int32_t by, int64_t last) {
    ++scans;
    int64_t x[kOwn] = {};
    f.each_cost(i, [&](int a, auto raw) { x[a] = f.c.finite_units(raw) - v[a]; });
    const int64_t base = by == kNone ? 0 : last - of(x, by);
    unroll<kOwn>([&](int a) {
      const int64_t here = base + x[a];
      if ((closed >> a & 1) || here >= far[a]) return;
      far[a] = here;
      from[a] = i;
    });
  }
  // Returns the nearest open column, or kNone, and sets `distance` to its distance.
  __device__ int32_t nearest(int64_t& distance) const {
    constexpr uint64_t kSign = uint64_t(1) << 63;
    uint64_t key = ~uint64_t(0);
    int32_t own = 0;
    unroll<kOwn>([&](int a) {
      const uint64_t here = uint64_t(far[a]) ^ kSign;
      if ((closed >> a & 1) || here >= key) return;
      key = here;
      own = f.col(a);
    });
    const uint64_t least = warp_least(key);
    if (least == ~uint64_t(0)) return kNone;
    distance = int64_t(least ^ kSign);
    const int lane = __ffs(int(__ballot_sync(kAllLanes, key == least))) - 1;
    return __shfl_sync(kAllLanes, own, lane);
  }

  // Moves mass from the row `root` along shortest paths, and changes the prices. `left` is the free
  // mass of the row. `once`: moves mass only to the nearest column. Returns false if no column can
  // be reached.
  __device__ bool search(int32_t root, bool once, int64_t& left) {
    closed = ~f.wanted;
    unroll<kOwn>([&](int a) { far[a] = INT64_MAX; });
    Mask seen = Mask(1) << root;
    scan(root, kNone, 0);
    int64_t last;
    for (;;) {
      const int32_t j = nearest(last);
      if (j == kNone) return false;
      const int64_t lacking = of(lacks, j);
      if (lacking > 0) {
        bool cut = false;
        const int64_t moved = move(root, j, min(left, lacking), cut);
        left -= moved;
        if (left == 0 || cut || moved < lacking) break;
      }
      if (once) break;
      unroll<kOwn>([&](int a) { closed |= uint32_t(f.col(a) == j) << a; });
      Mask next = of(held, j) & ~seen;
      seen |= next;
      while (next != 0) {
        const int32_t i = first_of(next);
        next &= next - 1;
        set(into, i, j);
        scan(i, j, last);
      }
    }
    unroll<kOwn>([&](int a) {
      if ((closed & f.wanted) >> a & 1) v[a] += far[a] - last;
    });
    return true;
  }

  // Moves at most the mass `most` along the path to column j. Sets `cut` if an arc of the path
  // becomes empty. Returns the mass moved.
  __device__ int64_t move(int32_t root, int32_t j, int64_t most, bool& cut) {
    for (int32_t at = j;;) {
      const int32_t i = of(from, at);
      if (i == root) break;
      at = of(into, i);
      most = min(most, flow_of(i, at));
    }
    set(lacks, j, of(lacks, j) - most);
    for (int32_t at = j;;) {
      const int32_t i = of(from, at);
      const Mask row = Mask(1) << i, holds = of(held, at);
      const int64_t more = (holds & row ? flow_of(i, at) : 0) + most;
      __syncwarp();
      if (f.team.lane() == 0) flow_of(i, at) = more;
      set(held, at, holds | row);
      if (i == root) break;
      at = of(into, i);
      const int64_t less = flow_of(i, at) - most;
      __syncwarp();
      if (f.team.lane() == 0) flow_of(i, at) = less;
      if (less == 0) {
        cut = true;
        set(held, at, of(held, at) & ~row);
      }
    }
    __syncwarp();
    return most;
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_SMALL_PATHS_CUH_
