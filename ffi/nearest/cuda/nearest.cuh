// Finds the columns of least cost - price for each row by looking at all pairs of points.
//
// A group of lanes has kRows rows. It goes through the columns tile by tile. A bound below the
// reduced cost, computed in the precision of the points, dismisses nearly all pairs; only the
// others are computed exactly. Tiles whose box is too far from the rows of a warp are skipped:
// points that are sorted along a space-filling curve need few tiles.
#ifndef JAXMATCH_CUDA_NEAREST_NEAREST_CUH_
#define JAXMATCH_CUDA_NEAREST_NEAREST_CUH_

#include <cmath>
#include <cstdint>

#include "common/cuda/group.cuh"
#include "common/cuda/warp.cuh"
#include "nearest/costs.h"
#include "nearest/operands.h"

namespace jaxmatch::nearest {

constexpr int kThreads = 128, kRows = 4;
constexpr int kDims = int(kMostDims);  // points of fewer coordinates get zeros
// The columns in shared memory. Each warp loads a part of them.
constexpr int kParts = kThreads / kWarpSize, kPart = 128, kTile = kParts * kPart;

// The part of a batch that one launch solves.
struct Launch {
  NearestProblem first;
  int64_t blocks;  // of a problem
  int lanes;       // of a group
};

// Greater than or equal to x, in the precision of T.
template <class T>
__device__ T round_up(double x);
template <>
__device__ inline float round_up<float>(double x) {
  return __double2float_ru(x);
}
template <>
__device__ inline double round_up<double>(double x) {
  return x;
}

// A box that holds some points.
template <class Real>
struct Box {
  Real least[kDims], most[kDims];

  __device__ Box() {
    for (int a = 0; a < kDims; ++a) {
      least[a] = Real(HUGE_VAL);
      most[a] = -Real(HUGE_VAL);
    }
  }
  __device__ void include(int a, Real x) {
    least[a] = fmin(least[a], x);
    most[a] = fmax(most[a], x);
  }
  __device__ void merge_lanes() {
    for (int a = 0; a < kDims; ++a) {
      for (int step = kWarpSize / 2; step > 0; step /= 2) {
        least[a] = fmin(least[a], __shfl_xor_sync(kAllLanes, least[a], step));
        most[a] = fmax(most[a], __shfl_xor_sync(kAllLanes, most[a], step));
      }
    }
  }
};

// Columns of a problem in shared memory: coordinates, and bounds above their prices. For each part
// its box and its largest price.
template <class Real>
struct Tile {
  Real at[kDims][kTile], price[kTile];
  Box<Real> box[kParts];
  Real most[kParts];
};
template <class Real>
__device__ Real most_of_warp(Real x) {
  for (int step = kWarpSize / 2; step > 0; step /= 2) {
    x = fmax(x, __shfl_xor_sync(kAllLanes, x, step));
  }
  return x;
}

template <class Real>
struct Nearest {
  const NearestProblem& p;
  Tile<Real>& tile;
  int64_t row;  // first row of the group
  int lane, lanes;
  Found* const found;  // [kRows], of this lane
  Real own[kRows][kDims], bound[kRows];

  static constexpr Real kNever = Real(HUGE_VAL);

  __device__ int64_t row_at(int r) const { return row + r < p.n ? row + r : p.n - 1; }
  __device__ double price(int64_t j) const { return read_real(p.price, p.price_dtype, j); }
  // A bound below every cost that follows from this sum over the coordinates. The sum has a few
  // roundings, and a cost is rounded to the dtype of the points. Prices are raised by the least
  // cost that is not denormal, and for the cosine by the rounding of its sum, so that relative
  // errors remain.
  template <Metric kMetric>
  __device__ static Real below(Real sum) {
    constexpr double kErrors = sizeof(Real) == 8 ? 0x1p-22 : 0x1p-20;
    constexpr Real kFactor = Real(1 - kErrors);
    if (kMetric == Metric::kEuclidean) return Real(sqrt(sum)) * kFactor;
    if (kMetric == Metric::kCosine) return (1 - sum) - Real(kErrors) * fabs(1 - sum);
    return sum * kFactor;
  }
  template <Metric kMetric>
  __device__ static Real add(Real sum, Real a, Real b) {
    if (kMetric == Metric::kCosine) return fma(a, b, sum);
    const Real apart = a - b;
    return kMetric == Metric::kL1 ? sum + fabs(apart) : fma(apart, apart, sum);
  }
  __device__ Real raised(double price) const {
    const double slack = p.metric == Metric::kCosine ? 0x1p-47
                         : p.dtype == Dtype::kF64    ? 0x1p-1000
                                                     : 0x1p-120;
    return round_up<Real>(price + slack);
  }

  __device__ void load_rows() {
    for (int r = 0; r < kRows; ++r) {
      const int64_t i = row_at(r);
      for (int a = 0; a < kDims; ++a)
        own[r][a] = a < p.dims ? Real(read_real(p.x, p.dtype, i * p.dims + a)) : Real(0);
      // The k-th best of all columns is no worse than the worst of k columns or more.
      double worst = -HUGE_VAL;
      for (int64_t s = lane; s < p.known; s += lanes) {
        const int32_t j = p.near[i * p.known + s];
        const double x = uint32_t(j) < uint32_t(p.m) ? reduced_cost(p, i, j) : HUGE_VAL;
        worst = fmax(worst, x < HUGE_VAL ? x : HUGE_VAL);
      }
      for (int step = lanes / 2; step > 0; step /= 2) {
        worst = fmax(worst, __shfl_xor_sync(kAllLanes, worst, step));
      }
      bound[r] = round_up<Real>(worst);
    }
  }
  __device__ Box<Real> box_of_rows() const {
    Box<Real> box;
    for (int r = 0; r < kRows; ++r) {
      for (int a = 0; a < kDims; ++a) box.include(a, own[r][a]);
    }
    box.merge_lanes();
    return box;
  }
  __device__ void load_tile(int64_t first) const {
    const int part = int(threadIdx.x) / kWarpSize;
    Box<Real> box;
    Real most = -kNever;
    for (int c = int(threadIdx.x) % kWarpSize; c < kPart; c += kWarpSize) {
      const int at = part * kPart + c;
      const int64_t j = first + at;
      for (int a = 0; a < kDims; ++a) {
        const Real x =
            j < p.m && a < p.dims ? Real(read_real(p.y, p.dtype, j * p.dims + a)) : Real(0);
        tile.at[a][at] = x;
        if (j < p.m) box.include(a, x);
      }
      const Real price = j < p.m ? raised(this->price(j)) : -kNever;
      tile.price[at] = price;
      most = fmax(most, price);
    }
    box.merge_lanes();
    most = most_of_warp(most);
    if (threadIdx.x % kWarpSize == 0) {
      tile.box[part] = box;
      tile.most[part] = most;
    }
  }
  // True if no row of the warp, whose points are in `box` and whose largest bound is `most`, can
  // take a column of this part.
  template <Metric kMetric>
  __device__ bool is_far(const Box<Real>& box, Real most, int part) const {
    if (kMetric == Metric::kCosine) return false;
    Real sum = 0;
    for (int a = 0; a < kDims; ++a) {
      const Real before = box.least[a] - tile.box[part].most[a];
      const Real after = tile.box[part].least[a] - box.most[a];
      sum = add<kMetric>(sum, fmax(Real(0), fmax(before, after)), Real(0));
    }
    return below<kMetric>(sum) - tile.most[part] > most;
  }
  // All lanes of a group take the least bound of its lanes.
  __device__ void share_bounds() {
    for (int r = 0; r < kRows; ++r) {
      for (int step = lanes / 2; step > 0; step /= 2) {
        bound[r] = fmin(bound[r], __shfl_xor_sync(kAllLanes, bound[r], step));
      }
    }
  }
  // Takes account of a pair, and returns the new bound of the row. It is not inlined, and not given
  // this object, so that what scan() uses stays in registers.
  __device__ __noinline__ static Real include(const NearestProblem& p, Found& best, int64_t i,
                                              int64_t j, Real bound) {
    if (j >= p.m || i >= p.n) return bound;
    const double x = reduced_cost(p, i, j);
    if (!(x < HUGE_VAL)) return bound;
    best.insert(i, x, int32_t(j), int(p.k));
    return best.count < p.k ? bound : fmin(bound, round_up<Real>(best.reduced[p.k - 1]));
  }
  template <Metric kMetric>
  __device__ void scan(int64_t first, const Box<Real>& box) {
    Real most = bound[0];
    for (int r = 1; r < kRows; ++r) most = fmax(most, bound[r]);
    most = most_of_warp(most);
    for (int part = 0; part < kParts; ++part) {
      if (!is_far<kMetric>(box, most, part)) scan_part<kMetric>(first, part * kPart);
    }
  }
  template <Metric kMetric>
  __device__ void scan_part(int64_t first, int at_part) {
#pragma unroll 1
    for (int c = at_part + lane; c < at_part + kPart; c += lanes) {
      Real at[kDims];
      for (int a = 0; a < kDims; ++a) at[a] = tile.at[a][c];
      const Real price = tile.price[c];
#pragma unroll
      for (int r = 0; r < kRows; ++r) {
        Real sum = 0;
        for (int a = 0; a < kDims; ++a) sum = add<kMetric>(sum, own[r][a], at[a]);
        if (below<kMetric>(sum) - price <= bound[r]) {
          bound[r] = include(p, found[r], row + r, first + c, bound[r]);
        }
      }
    }
  }
  // Floats take only metrics whose sums need no more precision: see the handler.
  __device__ void scan_tile(int64_t first, const Box<Real>& box) {
    if (p.metric == Metric::kSqeuclidean) return scan<Metric::kSqeuclidean>(first, box);
    if (p.metric == Metric::kL1) return scan<Metric::kL1>(first, box);
    if constexpr (sizeof(Real) == 8) {
      if (p.metric == Metric::kEuclidean) return scan<Metric::kEuclidean>(first, box);
      if (p.metric == Metric::kCosine) return scan<Metric::kCosine>(first, box);
    }
  }

  // Merges what the lanes have found for row r, and writes it.
  __device__ void write(int r) {
    const int64_t i = row + r;
    int32_t last = 0;
    for (int64_t s = 0, taken = 0; s < p.k; ++s) {
      const bool has = taken < found[r].count;
      const double own_least = has ? found[r].reduced[taken] : HUGE_VAL;
      const int32_t own_col = has ? found[r].col[taken] : INT32_MAX;
      double least = own_least;
      int32_t col = own_col;
      for (int step = lanes / 2; step > 0; step /= 2) {
        const double x = __shfl_xor_sync(kAllLanes, least, step);
        const int32_t j = __shfl_xor_sync(kAllLanes, col, step);
        if (x < least || (x == least && is_preferred(i, j, col))) {
          least = x;
          col = j;
        }
      }
      if (has && own_col == col) ++taken;
      if (col == INT32_MAX) col = last;  // fewer columns than k, or no finite cost
      last = col;
      if (lane != 0 || i >= p.n) continue;
      p.col[i * p.k + s] = col;
      write_real(p.cost, p.dtype, i * p.k + s, cost_of(p, i, col));
      if (s > 0) continue;
      const int32_t known = p.near[i * p.known];
      const bool is_column = uint32_t(known) < uint32_t(p.m);
      write_real(p.known_cost, p.dtype, i, is_column ? cost_of(p, i, known) : HUGE_VAL);
      write_real(p.reduced, p.price_dtype, i, reduced_cost(p, i, col));
    }
  }

  __device__ void run() {
    load_rows();
    const Box<Real> box = box_of_rows();
    for (int64_t first = 0; first < p.m; first += kTile) {
      __barrier_sync_count(0, kThreads);
      load_tile(first);
      __barrier_sync_count(0, kThreads);
      share_bounds();
      scan_tile(first, box);
    }
    for (int r = 0; r < kRows; ++r) write(r);
  }
};

template <class Real>
__global__ void __launch_bounds__(kThreads) nearest_kernel(const __grid_constant__ Launch launch) {
  auto& tile = *reinterpret_cast<Tile<Real>*>(shared_memory);
  const NearestProblem p = problem_at(launch.first, int64_t(blockIdx.x) / launch.blocks);
  const int64_t groups = kThreads / launch.lanes;
  const int64_t group = int64_t(blockIdx.x) % launch.blocks * groups + threadIdx.x / launch.lanes;
  Found found[kRows];
  const int lane = int(threadIdx.x) % launch.lanes;
  Nearest<Real> work{p, tile, group * kRows, lane, launch.lanes, found};
  work.run();
}

}  // namespace jaxmatch::nearest

#endif  // JAXMATCH_CUDA_NEAREST_NEAREST_CUH_
