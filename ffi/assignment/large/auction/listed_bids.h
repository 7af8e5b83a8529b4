// Bids on costs that are computed from points. Each row keeps a list of its cheapest columns,
// because computing all costs of a row takes long.
//
// A scan of all columns of a row lists the columns whose perturbed reduced cost is below a bound,
// the horizon. Prices only fall during an auction, so reduced costs only rise, and no other column
// ever comes below the horizon. As long as the list contains the row's two least reduced costs, the
// row can bid without another scan. The perturbation changes from one scale to the next, so the
// horizon is lowered between scales. Lists only save time; they do not change any bid. They are
// stored in the memory of the candidate sets, which are selected anew after the auction.
#ifndef JAXMATCH_LARGE_LISTED_BIDS_H_
#define JAXMATCH_LARGE_LISTED_BIDS_H_

#include "assignment/large/auction/two_least.h"

namespace jaxmatch::assignment::large {

// Epsilon falls by this factor from one scale to the next.
constexpr int64_t kScaleFactor = 4;

// Lowers the horizon of row i before a scale. Perturbations may be smaller than in the previous
// scale, where they were below kScaleFactor * (epsilon + 1). (In the first scale no list is valid
// yet.)
JAXMATCH_DEVICE inline void lower_horizon(const LargeState& s, int64_t i, int64_t epsilon) {
  const double horizon = real_of(uint64_t(load_relaxed(s.horizon + i)));
  const double lower = horizon - double(kScaleFactor * (epsilon + 1));
  store_relaxed(s.horizon + i, int64_t(bits_of(lower)));
}

}  // namespace jaxmatch::assignment::large

#if defined(__CUDACC__)

#include "assignment/large/cuda/team.cuh"

namespace jaxmatch::assignment::large {

template <class P>
struct ListsColumns {
  static constexpr bool value = P::kComputed;
};

// What a lane finds in its columns of a row: the three least reduced costs, and the columns and
// costs of the first two.
template <class Cost>
struct LaneScan {
  TwoLeast two;
  double third = infinity();
  int32_t next_col = -1;
  Cost cost{}, next_cost{};

  // Adds column j. Calls must be in order of increasing j, so that the first of several equal
  // columns is kept.
  __device__ void include(double x, int32_t j, Cost c) {
    const bool first = x < two.least, second = x < two.next;
    third = second ? two.next : lesser(third, x);
    next_col = first ? two.col : second ? j : next_col;
    next_cost = first ? cost : second ? c : next_cost;
    cost = first ? c : cost;
    two.include(x, j);
  }
};

// Scans columns `first` to `last` of some rows. Each column is loaded once for all these rows.
template <int kRows, class P>
JAXMATCH_NOINLINE void scan_rows(const P& problem, Lanes g, const int32_t (&row)[kRows], int first,
                                 int last, Perturbation more,
                                 LaneScan<typename P::Element> (&found)[kRows]) {
  using Cost = typename P::Element;
  constexpr int kCols = 16 / int(sizeof(Cost));  // as many columns as registers hold
  const P p = problem;
  const double* const v = p.s.v_real;
  LaneScan<Cost> own[kRows];
  for (int j = first + g.lane; j < last; j += kCols * g.kCount) {
    const auto place = [&](int a) { return lesser(j + a * g.kCount, last - 1); };
    Cost cost[kRows][kCols];
    double price[kCols];
    JAXMATCH_UNROLL
    for (int a = 0; a < kCols; ++a) {
      price[a] = j + a * g.kCount < last ? v[place(a)] : -infinity();
    }
    p.costs.estimate(row, place, cost);
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      JAXMATCH_UNROLL
      for (int a = 0; a < kCols; ++a) {
        const int col = j + a * g.kCount;
        const double x = p.costs.real_key_of(cost[r][a]) - price[a] + more.of(row[r], col);
        own[r].include(x, col, cost[r][a]);
      }
    }
  }
  JAXMATCH_UNROLL
  for (int r = 0; r < kRows; ++r) found[r] = own[r];
}

constexpr int kWarpsOfLists = 16;  // greatest number of warps in a block

// Makes the bids of the rows that this block of threads processes.
template <class P>
class ListedBids {
  using Scan = LaneScan<typename P::Element>;

 public:
  __device__ ListedBids(const P& p, Perturbation more) : p_(p), more_(more) {}

  // Calls publish(lanes, k, two least) for each rows[k]. Neighbours in the list belong to different
  // blocks. This spreads scans evenly, because rows that were scanned lately, and need no scan now,
  // are neighbours in the list.
  template <class Publish>
  __device__ void bid(const int32_t* rows, int64_t count, Publish publish) const {
    const int64_t step = gridDim.x, mine = (count - blockIdx.x + step - 1) / step;
    for (int64_t first = 0; first < mine; first += kRowsAtOnce) {
      const int64_t k = blockIdx.x + first * step;
      bid_some(rows + k, int(lesser(mine - first, int64_t{kRowsAtOnce})),
               [&](Lanes g, int at, const TwoLeast& two) { publish(g, k + at * step, two); });
    }
  }

 private:
  static constexpr int kRowsAtOnce = 128, kGroup = 4, kWarps = kWarpsOfLists;

  // A scan tries two horizons. Each lane stores only its two cheapest columns, so no horizon may
  // exceed the third-least reduced cost of any lane. The first horizon is the minimum of these
  // costs over all lanes. If it makes the list too long, the second horizon is used, the minimum of
  // the lanes' second-least reduced costs.
  struct Shared {
    TwoLeast two[kWarps][kGroup];
    double horizon[2][kWarps][kGroup];
    uint32_t length[2][kGroup];
    uint32_t unknown;  // the number of rows to be scanned
    uint8_t scanned[kRowsAtOnce];
  };
  static_assert(GridTeam::kPartsAt + sizeof(Shared) <= GridTeam::kBytesOfTeam, "");
  __device__ static Shared& shared() {
    return *reinterpret_cast<Shared*>(shared_memory + GridTeam::kPartsAt);
  }
  __device__ static Lanes lanes() { return {int(threadIdx.x % Lanes::kCount)}; }
  __device__ static int warp() { return int(threadIdx.x) / Lanes::kCount; }
  __device__ static int warps() { return int(blockDim.x) / Lanes::kCount; }

  template <class Publish>
  __device__ void bid_some(const int32_t* rows, int count, Publish publish) const {
    Shared& b = shared();
    if (threadIdx.x == 0) b.unknown = 0;
    __syncthreads();
    for (int k = warp(); k < count; k += warps()) {
      TwoLeast two;
      if (find_in_list(load_relaxed(rows + int64_t(k) * gridDim.x), two)) {
        publish(lanes(), k, two);
      } else if (lanes().lane == 0) {
        b.scanned[atomicAdd(&b.unknown, 1u)] = uint8_t(k);
      }
    }
    __syncthreads();
    const int unknown = int(b.unknown);
    __syncthreads();
    for (int first = 0; first < unknown; first += kGroup) {
      const int left = unknown - first;
      if (left == 1) {
        scan_together<1>(rows, b.scanned + first, left, publish);
      } else {
        scan_together<kGroup>(rows, b.scanned + first, left, publish);
      }
    }
  }

  // Finds the two least reduced costs of row i in its list. Returns false if the row must be
  // scanned.
  __device__ bool find_in_list(int64_t i, TwoLeast& two) const {
    const LargeState& s = p_.s;
    const Lanes g = lanes();
    const int length = load_relaxed(s.listed + i), first = g.lane * kCandidatesPerClass;
    const double horizon = real_of(uint64_t(load_relaxed(s.horizon + i)));
    TwoLeast own;
    if (first < length) {
      const ClassCols col = s.core_col[i * kColumnClasses + g.lane];
      const ClassKeys key = s.core_key[i * kColumnClasses + g.lane];
      double x[kCandidatesPerClass];
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) {
        const bool listed = first + b < length;
        x[b] = listed ? real_of(uint64_t(key.x[b])) - p_.s.v_real[col.x[b]] + more_.of(i, col.x[b])
                      : infinity();
      }
      JAXMATCH_UNROLL
      for (int b = 0; b < kCandidatesPerClass; ++b) own.include_unordered(x[b], col.x[b]);
    }
    two = TwoLeast::of_lanes(g, own);
    return two.least < horizon && two.next <= horizon;
  }

  // All warps of the block scan the next kRows rows, or `count` rows if these are fewer, and write
  // their lists.
  template <int kRows, class Publish>
  __device__ void scan_together(const int32_t* rows, const uint8_t* places, int count,
                                Publish publish) const {
    Shared& b = shared();
    const Lanes g = lanes();
    const int cols = int(p_.s.m), width = (cols + warps() - 1) / warps();
    const int first = lesser(warp() * width, cols), last = lesser(first + width, cols);
    int32_t row[kRows];
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      row[r] = load_relaxed(rows + int64_t(places[lesser(r, count - 1)]) * gridDim.x);
    }
    Scan found[kRows];
    scan_rows(p_, g, row, first, last, more_, found);
    if (threadIdx.x < 2 * kGroup) b.length[0][threadIdx.x] = 0;
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      const TwoLeast two = TwoLeast::of_lanes(g, found[r].two);
      const double third = g.min_real(found[r].third), next = g.min_real(found[r].two.next);
      if (g.lane != r) continue;
      b.two[warp()][r] = two;
      b.horizon[0][warp()][r] = third;
      b.horizon[1][warp()][r] = next;
    }
    __syncthreads();
    double horizon[2][kRows];
    uint32_t at[2][kRows];
    JAXMATCH_UNROLL
    for (int h = 0; h < 2; ++h) {
      JAXMATCH_UNROLL
      for (int r = 0; r < kRows; ++r) {
        horizon[h][r] = g.min_real(g.lane < warps() ? b.horizon[h][g.lane][r] : infinity());
        at[h][r] = place_in_list(found[r], horizon[h][r], b.length[h] + r);
      }
    }
    __syncthreads();
    JAXMATCH_UNROLL
    for (int r = 0; r < kRows; ++r) {
      if (r >= count) break;
      const int h = b.length[0][r] <= uint32_t{kCandidates} ? 0 : 1;
      const uint32_t length = b.length[h][r];
      const bool fits = length <= uint32_t{kCandidates};
      if (fits) write_list(found[r], horizon[h][r], row[r], at[h][r]);
      if (warp() != r % warps()) continue;
      if (g.lane == 0) {
        store_relaxed(p_.s.listed + row[r], fits ? int32_t(length) : 0);
        store_relaxed(p_.s.horizon + row[r], int64_t(bits_of(horizon[h][r])));
      }
      const TwoLeast own = g.lane < warps() ? b.two[g.lane][r] : TwoLeast{};
      publish(g, places[r], TwoLeast::of_lanes(g, own));
    }
    __syncthreads();
  }

  // Reserves places in a list for the columns of all lanes of a warp that lie below the horizon.
  // Returns this lane's first place.
  __device__ static uint32_t place_in_list(const Scan& own, double horizon, uint32_t* length) {
    const Lanes g = lanes();
    const bool one = own.two.least < horizon, two = own.two.next < horizon;
    const int ones = g.sum(one), all = ones + g.sum(two);
    uint32_t start = 0;
    if (g.lane == 0 && all > 0) start = atomicAdd(length, uint32_t(all));
    start = __shfl_sync(0xffffffffu, start, 0);
    return start + g.rank(one) + g.rank(two);
  }
  __device__ void write_list(const Scan& own, double horizon, int64_t i, uint32_t at) const {
    int64_t* const keys = reinterpret_cast<int64_t*>(p_.s.core_key + i * kColumnClasses);
    int32_t* const cols = reinterpret_cast<int32_t*>(p_.s.core_col + i * kColumnClasses);
    const auto write = [&](int32_t j, typename P::Element cost) {
      cols[at] = j;
      keys[at++] = int64_t(bits_of(p_.costs.real_key_of(cost)));
    };
    if (own.two.least < horizon) write(own.two.col, own.cost);
    if (own.two.next < horizon) write(own.next_col, own.next_cost);
  }

  const P& p_;
  const Perturbation more_;
};

}  // namespace jaxmatch::assignment::large

#else

namespace jaxmatch::assignment::large {

template <class P>
struct ListsColumns {
  static constexpr bool value = false;
};
template <class P>
class ListedBids;

}  // namespace jaxmatch::assignment::large

#endif

#endif  // JAXMATCH_LARGE_LISTED_BIDS_H_
