// Problems with many rows and few columns. A problem with few rows and many columns is turned: in
// the code for few columns, its rows are called columns, and its columns are called rows.
#ifndef JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_CUH_
#define JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_CUH_

#include "assignment/pair_hash.h"
#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// The costs by row and column. Threads keep copies of this struct in registers.
//
// exact() shifts the costs to the left by `shift` bits. If there is room, it adds a hash below the
// lowest bit of the costs, which breaks ties between equal rows. The hashes of a path sum to less
// than the least difference between two different path costs.
template <class C>
struct FewCosts {
  using Raw = typename C::Raw;
  using Row = typename RowOf<typename C::Type>::Row;
  C c;
  bool turned;
  Row origin;
  int64_t row_step, col_step;
  int shift = 0;
  uint32_t mask = 0;  // bits of the hash that are used

  __device__ explicit FewCosts(const C& c)
      : c(c),
        turned(has_few_rows(c.p.n, c.p.m)),
        origin(c.row(0)),
        row_step(turned ? 1 : c.p.m),
        col_step(turned ? c.p.m : 1) {}

  __device__ Raw raw(int64_t i, int64_t k) const {
    if constexpr (C::kComputed) {
      return turned ? c.raw(k, i) : c.raw(i, k);
    } else {
      return origin.from(i * row_step + k * col_step).raw(0);
    }
  }
  __device__ int64_t exact(Raw x, int32_t i, int32_t k) const {
    const int64_t hash = int64_t(assignment::pair_hash(uint32_t(i), uint32_t(k)) & mask);
    return int64_t(uint64_t(c.units_of(x)) << shift) + hash;
  }
  __device__ int64_t exact(int32_t i, int32_t k) const { return exact(raw(i, k), i, k); }
};

// kLane: the greatest number of columns that a lane has.
template <class C, int kLane>
struct FewColumns {
  Team team;
  const C& c;
  const Workspace& w;
  const bool turned;
  const int32_t rows, cols;
  // A group of `width` lanes works on a row. These lanes share the columns. A warp has `groups`
  // groups.
  const int32_t width, groups;
  FewCosts<C> costs;
  int64_t bit = 1;    // lowest bit that is set in any cost, in units
  int64_t total = 0;  // total mass
  // In normalised costs, see Costs::normal:
  float typical = 0;  // typical gap of a row's two least costs; 0 if unknown
  float spread = 0;   // greatest minus least cost

  __device__ FewColumns(Team team, const C& c, const Workspace& w)
      : team(team),
        c(c),
        w(w),
        turned(has_few_rows(c.p.n, c.p.m)),
        rows(int32_t(turned ? c.p.m : c.p.n)),
        cols(int32_t(turned ? c.p.n : c.p.m)),
        width(group_width(cols)),
        groups(kWarpSize / width),
        costs(c) {}

  __device__ static int32_t group_width(int32_t cols) {
    int32_t width = 1;
    while (width < cols && width < kWarpSize) width *= 2;
    return width;
  }
  __device__ int64_t mass(int64_t i) const { return turned ? c.demand[i] : c.supply[i]; }
  __device__ int64_t wanted(int64_t k) const { return turned ? c.supply[k] : c.demand[k]; }
  // The mass of row i as a float, scaled to a total of kWhole. The ascent uses it.
  __device__ float& part(int64_t i) const { return w.shadow[i]; }
  // The total of the loads (masses that columns get in the ascent). Loads are whole numbers, so
  // sums do not depend on the order of threads.
  static constexpr float kWhole = 0x1p31f;
  // The dual of column k, in whole units.
  __device__ int64_t& price(int64_t k) const { return w.price[turned ? k : c.p.n + k]; }

  // Reduces x over the lanes of each group. Every lane of a group gets the result.
  template <class T, class F>
  __device__ T of_group(T x, const F& join) const {
    for (int step = width / 2; step > 0; step /= 2)
      x = join(x, __shfl_xor_sync(kAllLanes, x, step));
    return x;
  }
  // Each block has consecutive rows.
  __device__ int32_t first_row() const { return int32_t(int64_t(rows) * team.rank / team.blocks); }
  __device__ int32_t last_row() const {
    return int32_t(int64_t(rows) * (team.rank + 1) / team.blocks);
  }
  // Calls f(row, exists) for the rows of this block. `exists`: there is such a row, and it has
  // mass. All lanes of a warp call f, those of a group with the same row.
  template <class F>
  __device__ void each_row(const F& f) const {
    const int32_t last = last_row(), own = team.lane() / width;
    for (int32_t i = first_row() + team.warp_of_block() * groups; i < last;
         i += team.block_warps() * groups) {
      f(i + own, i + own < last && mass(i + own) > 0);
    }
  }
  // Calls f(a, column) for each column of a lane, where a counts these columns. The last ones may
  // be beyond the last column of the problem.
  template <class F>
  __device__ void each_column(const F& f) const {
    const int32_t first = team.lane() % width;
#pragma unroll
    for (int a = 0; a < kLane; ++a) {
      if (a * kWarpSize < cols) f(a, first + a * kWarpSize);
    }
  }

  // Calls f(column) for the columns of this thread. The threads of a block share the columns.
  template <class F>
  __device__ void each_own_column(const F& f) const {
    for (int32_t k = int32_t(threadIdx.x); k < cols; k += team.block_threads()) f(k);
  }

  // Computes statistics of the costs, and chooses the shift and the mask of FewCosts.
  __device__ void survey() {
    constexpr float kPart = 256;  // logarithms are rounded to multiples of 1 / kPart
    const FewCosts<C> x(costs);
    const int64_t forbidden = c.forbidden;
    uint64_t bits = 0, most = 0;
    int64_t logs = 0, counted = 0, own_total = 0;
    float low = kFarFloat, high = -kFarFloat;
    each_row([&](int32_t i, bool exists) {
      float least = kFarFloat, next = kFarFloat;
      each_column([&](int, int32_t k) {
        if (!exists || k >= cols || wanted(k) == 0) return;
        const auto raw = x.raw(i, k);
        const int64_t units = x.c.units_of(raw);
        if (units == forbidden && units != 0) {
          most = max(most, uint64_t(forbidden));
          return;
        }
        bits |= uint64_t(units);
        most = max(most, uint64_t(units < 0 ? -units : units));
        const float y = x.c.estimate(raw);
        next = fminf(next, fmaxf(least, y));
        least = fminf(least, y);
        low = fminf(low, y);
        high = fmaxf(high, y);
      });
      for (int step = width / 2; step > 0; step /= 2) {
        const float other = __shfl_xor_sync(kAllLanes, least, step);
        const float after = __shfl_xor_sync(kAllLanes, next, step);
        next = fminf(fmaxf(least, other), fminf(next, after));
        least = fminf(least, other);
      }
      if (!exists || team.lane() % width != 0) return;
      own_total += mass(i);
      if (next < kFarFloat && next > least) {
        logs += int64_t(rintf(log2f(next - least) * kPart));
        ++counted;
      }
    });
    total = team.sum(own_total);
    logs = team.sum(logs);
    counted = team.sum(counted);
    if (counted > 0) typical = exp2f(float(double(logs) / double(counted)) / kPart);
    spread = float(team.most(high)) + float(team.most(-low));
    uint64_t key = bits & (~bits + 1), none = 0;
    key = key == 0 ? ~uint64_t(0) : key;
    team.least(key, none);
    bit = key < uint64_t(1) << 58 ? int64_t(key) : 1;
    uint64_t key_most = ~most;
    team.least(key_most, none);
    choose_shift(double(~key_most));
    const double whole = double(kWhole) / double(total);
    for (int32_t i = first_row() + int32_t(threadIdx.x); i < last_row();
         i += team.block_threads()) {
      part(i) = float(double(mass(i)) * whole);
    }
    team.sync_block();
  }

 private:
  __device__ void choose_shift(double most) {
    constexpr int kMostShift = 20;
    constexpr uint32_t kMostMask = (1u << 24) - 1;
    const double arcs = most_arcs(cols);
    int& shift = costs.shift;
    uint32_t& mask = costs.mask;
    while (shift < kMostShift && most * arcs * 2 <= kMostOnPath / 2) {
      most *= 2;
      ++shift;
    }
    // The hashes on a cycle sum to less than the lowest bit.
    const double below = double(bit) * double(1 << shift) / (2 * arcs);
    while (mask < kMostMask && double(mask) * 2 + 1 < below) mask = 2 * mask + 1;
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_FEW_COLUMNS_CUH_
