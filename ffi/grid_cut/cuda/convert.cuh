// Converts the given capacities to the integers that tiles compute with.
#ifndef JAXMATCH_GRID_CUT_CUDA_CONVERT_CUH_
#define JAXMATCH_GRID_CUT_CUDA_CONVERT_CUH_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "grid_cut/cuda/barrier.cuh"
#include "grid_cut/cuda/tiling.h"
#include "grid_cut/fixed_point.h"
#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

constexpr int64_t kGridMostFlow = grid_most_flow(8);  // kernels have up to 8 neighbours

// In tiles of 32-bit numbers, the sum of all capacities around a cell is below 2^kNarrowBits. In
// tiles of 64-bit numbers it is below 2^kWideBits if the capacities are floats; for integers see
// GridTile.
constexpr int kNarrowBits = 30, kWideBits = 59;

template <class T>
__device__ inline T over_warp_max(T x) {
  for (int step = 16; step > 0; step /= 2) {
    const T other = __shfl_xor_sync(0xffffffffu, x, step);
    x = other > x ? other : x;
  }
  return x;
}
template <class T>
__device__ inline T over_warp_sum(T x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

template <int kArcs, class G>
class GridNumbers {
 public:
  static constexpr bool kReal = std::is_floating_point_v<G>;

  __device__ GridNumbers(const GridCapacities<G>& g, GridBarrier& barrier, GridCutControl* control,
                         GridCutControl* block_control, int block, int blocks)
      : g_(g),
        barrier_(barrier),
        all_(barrier.is_alone() ? block_control : control),
        mine_(block_control),
        block_(block),
        blocks_(blocks) {}

  enum class Kind { kInvalid, kOverflow, kNarrow, kWide };

  // Surveys the capacities, and chooses the units and the width of numbers. All threads of all
  // blocks must call it.
  __device__ Kind survey() {
    surveyed_ = true;
    if (known_ > 0) {
      if constexpr (kReal) {
        return survey_known();
      } else {
        return choose_shift();
      }
    }
    if (survey_pass<true>(GridBound{})) return Kind::kInvalid;
    if constexpr (kReal) {
      const GridSurvey s{most(kMostExcess), most(kMostDeficit), most(kMostFinite),
                         most(kMostAround)};
      const GridBound bound = GridBound::of(s, g_.shape.cells(), kArcs);
      const bool clip = bound.must_clip(most(kMostArc), s.most_around);
      if (clip) survey_pass<false>(bound);
      return choose_units(bound, clip ? most(kMostAroundBounded) : s.most_around,
                          clip ? bound.exponent : 0);
    } else {
      const int64_t source = total(0), sink = total(2);
      const int64_t least = source < sink ? source : sink;
      if (least < kGridMostFlow) return choose_width(least + 1);
      const double gives = rough_total(0), takes = rough_total(2);
      least_ = gives < takes ? gives : takes;
      return choose_shift();
    }
  }

  // `cut` is the capacity of the minimum cut that was found. Returns true if no further solve is
  // needed. Otherwise the next solve uses `cut` as a bound on the flow. All threads must call it
  // with the same `cut`.
  __device__ bool is_fine(double cut) {
    if (kReal ? are_fine(around_, exponent_, cut) : shift_ == 0) return true;
    // For integers in units above 1, another solve in such units helps only if this cut has at most
    // half the capacity of the previous one.
    if (!kReal) is_last_ = known_ > 0 && cut > known_ / 2;
    known_ = cut;
    return false;
  }

  __device__ int64_t capacity(G c) const {
    if constexpr (kReal) {
      return units_.capacity(double(c));
    } else {
      const int64_t x = int64_t(c) >> shift_;
      return x < beyond_ ? x : beyond_;
    }
  }
  // The excess of a cell for a flow that runs backwards, from the sink to the source.
  __device__ int64_t excess(G source, G sink) const {
    if constexpr (kReal) {
      return -units_.excess(double(source), double(sink));
    } else {
      const int64_t by_bits = int64_t{1} << bits_;
      const int64_t most = by_bits < beyond_ ? by_bits : beyond_;
      const int64_t difference = int64_t(sink) - int64_t(source);
      const int64_t e = difference < 0 ? -(-difference >> shift_) : difference >> shift_;
      return e > most ? most : e < -most ? -most : e;
    }
  }

  // Calls f(k, index of the neighbour in direction k) for each neighbour of a cell.
  template <class F>
  __device__ void each_neighbour(GridPlace g, int64_t cell, F f) const {
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      const GridStep s = grid_step<kArcs>(k);
      if (g_.shape.holds(g.z + s.z, g.y + s.y, g.x + s.x)) f(k, cell + g_.shape.offset(s));
    }
  }
  // Sets the excess and the arcs of all cells of a tile; see GridCutSolve::run. Returns true if
  // there was no survey and a number is so large that the sum around a cell might not fit.
  template <class Tile, class Global>
  __device__ bool fill(const Tile& tile, const Global& global) const {
    using T = std::remove_reference_t<decltype(tile.excess(0))>;
    bool unfit = false;
    const int cells = tile.tiling.cells(), step = int(blockDim.x);
    // Loads of two cells are issued before any store.
    for (int i = int(threadIdx.x); i < cells; i += 2 * step) {
      const GridPlace first = tile.tiling.cell(i);
      const GridPlace second = tile.tiling.cell(i + step < cells ? i + step : i);
      const Given one = load_cell(global(first)), two = load_cell(global(second));
      unfit |= !surveyed_ && !(is_small(one) && is_small(two));
      store_cell<T>(tile, tile.tiling.at(first), one);
      store_cell<T>(tile, tile.tiling.at(second), two);
    }
    return unfit;
  }

 private:
  // The given capacities of a cell; 0 outside the grid. As flow runs backwards, `arcs` lead from
  // the neighbours to the cell.
  struct Given {
    G source, sink, arcs[kArcs];
  };
  __device__ Given load_cell(GridPlace g) const {
    const bool there = g_.shape.holds(g.z, g.y, g.x);
    const int64_t cell = (int64_t(g.z) * g_.shape.height + g.y) * g_.shape.width + g.x;
    Given x;
    x.source = there ? __ldg(g_.source + cell) : G(0);
    x.sink = there ? __ldg(g_.sink + cell) : G(0);
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      const GridStep s = grid_step<kArcs>(k);
      const bool is_arc = there && g_.shape.holds(g.z + s.z, g.y + s.y, g.x + s.x);
      const int64_t other = cell + g_.shape.offset(s);
      x.arcs[k] = is_arc ? __ldg(g_.template arc_at<kArcs>(other, cell, opposite<kArcs>(k))) : G(0);
    }
    return x;
  }
  // With numbers this small, 16 arcs and an excess sum to less than 2^kNarrowBits.
  __device__ static bool is_small(G x) { return x >= 0 && x < G(1 << (kNarrowBits - 5)); }
  __device__ static bool is_small(const Given& x) {
    bool small = is_small(x.source) && is_small(x.sink);
#pragma unroll
    for (int k = 0; k < kArcs; ++k) small = small && is_small(x.arcs[k]);
    return small;
  }
  template <class T, class Tile>
  __device__ void store_cell(const Tile& tile, int a, const Given& x) const {
    tile.excess(a) = T(excess(x.source, x.sink));
#pragma unroll
    for (int k = 0; k < kArcs; ++k) tile.arc(k, a) = T(capacity(x.arcs[k]));
  }

  enum { kMostExcess, kMostDeficit, kMostFinite, kMostAround, kMostAroundBounded, kMostArc };

  __device__ double most(int which) const {
    return __longlong_as_double((long long)(read(all_->most + which)));
  }
  __device__ int64_t total(int which) const {
    const uint64_t low = read(all_->sums + which), high = read(all_->sums + which + 1);
    // At most 2^28 numbers are summed, so both halves are exact, and the upper half decides whether
    // the total is too large.
    return high + (low >> 32) >= uint64_t(kGridMostFlow >> 32) ? kGridMostFlow
                                                               : int64_t((high << 32) + low);
  }
  __device__ double rough_total(int which) const {
    return double(read(all_->sums + which)) + 0x1p32 * double(read(all_->sums + which + 1));
  }
  __device__ unsigned long long read(const unsigned long long* at) const {
    return barrier_.is_alone() ? *at : __ldcg(at);
  }

  // For integers: the unit is 1, or 2^shift_ if the flow might be 2^59 or more. A solve in such
  // coarse units finds a cut, whose capacity bounds the flow in the next solve.
  __device__ Kind choose_shift() {
    const bool by_cut = known_ > 0 && known_ < least_;
    // An upper bound on the flow, even though the sums were rounded.
    const double bound = (by_cut ? known_ : least_) * (1 + 0x1p-20);
    shift_ = 0;
    if (bound >= double(kGridMostFlow)) {
      if (sizeof(G) == 4 || is_last_) return Kind::kOverflow;
      shift_ = ilogb(bound) - 57;
    }
    return choose_width(int64_t(ldexp(bound, -shift_)) + 1);
  }
  __device__ Kind choose_width(int64_t beyond) {
    beyond_ = beyond;
    const bool narrow = most(kMostAround) < double(1 << kNarrowBits);
    bits_ = narrow ? kNarrowBits : kWideBits;
    return narrow ? Kind::kNarrow : Kind::kWide;
  }
  __device__ Kind choose_units(const GridBound& bound, double around, int exponent) {
    around_ = around, exponent_ = exponent;
    units_ = GridUnits::of(bound, around, exponent, kNarrowBits);
    if (!is_rounded()) return Kind::kNarrow;
    units_ = GridUnits::of(bound, around, exponent, kWideBits);
    return Kind::kWide;
  }
  __device__ Kind survey_known() {
    if (threadIdx.x == 0) {
      mine_->most[kMostAroundBounded] = 0;
      if (block_ == 0) all_->most[kMostAroundBounded] = 0;
    }
    barrier_.barrier_reduce(false);
    const GridBound bound = GridBound::of_cut(known_);
    survey_pass<false>(bound);
    return choose_units(bound, most(kMostAroundBounded), bound.exponent);
  }

  template <class F>
  __device__ void each_cell(F f) const {
    const int64_t cells = g_.shape.cells();
    for (int64_t cell = int64_t(block_) * blockDim.x + threadIdx.x; cell < cells;
         cell += int64_t(blocks_) * blockDim.x) {
      const int32_t row = int32_t(cell) / g_.shape.width;
      f(cell, GridPlace{row / g_.shape.height, row % g_.shape.height,
                        int32_t(cell) - row * g_.shape.width});
    }
  }
  __device__ void raise(int which, double x) {
    const unsigned long long most = over_warp_max((unsigned long long)__double_as_longlong(x));
    if (threadIdx.x % 32 == 0 && most > 0) atomicMax(mine_->most + which, most);
  }
  __device__ void count(int which, unsigned long long x) {
    x = over_warp_sum(x);
    if (threadIdx.x % 32 == 0 && x > 0) atomicAdd(mine_->sums + which, x);
  }
  // Merges the survey of this block into the survey of all blocks. Returns true if `fault` is true
  // for any thread.
  __device__ bool share_survey(bool fault) {
    __syncthreads();
    if (!barrier_.is_alone() && threadIdx.x == 0) {
      for (int k = 0; k < 6; ++k) {
        if (mine_->most[k] > 0) atomicMax(all_->most + k, mine_->most[k]);
      }
      for (int k = 0; k < 4; ++k) {
        if (mine_->sums[k] > 0) atomicAdd(all_->sums + k, mine_->sums[k]);
      }
    }
    return barrier_.barrier_reduce(fault);
  }

  static constexpr uint64_t kMostClipped = uint64_t{1} << 62;
  __device__ static uint64_t add_clipped(uint64_t sum, uint64_t x) {
    return sum + x < kMostClipped ? sum + x : kMostClipped;
  }

  // Surveys all capacities. With kFirst, they are taken as given, and the function returns true if
  // any of them is invalid. Otherwise they are taken in units of 2^bound.exponent and clipped at
  // the bound.
  template <bool kFirst>
  __device__ bool survey_pass(const GridBound& bound) {
    bool fault = false;
    double most_excess = 0, most_deficit = 0, most_finite = 0, most_around = 0, most_arc = 0;
    unsigned long long sums[4] = {};
    each_cell([&](int64_t cell, GridPlace g) {
      const G s = g_.source[cell], t = g_.sink[cell];
      fault |= !(s >= 0) || !(t >= 0);
      double out = 0, in = 0;
      uint64_t leaves = 0, enters = 0;  // sums of integer capacities, at most kMostClipped
      each_neighbour(g, cell, [&](int k, int64_t other) {
        const G away = g_.template arc<kArcs>(cell, other, k);
        const G back = g_.template arc<kArcs>(other, cell, opposite<kArcs>(k));
        fault |= !(away >= 0);
        const double a = double(away), b = double(back);
        out += kFirst ? a : bound.clip(a);
        in += kFirst ? b : bound.clip(b);
        if (kReal) {
          most_arc = a > most_arc ? a : most_arc;
          most_finite = a < double(INFINITY) && a > most_finite ? a : most_finite;
        } else {
          leaves = add_clipped(leaves, uint64_t(away));
          enters = add_clipped(enters, uint64_t(back));
        }
      });
      double around = in + out;
      if constexpr (kReal) {
        const double difference = s == t ? 0 : double(s) - double(t);
        const double e = kFirst ? difference : bound.clip_both(difference);
        const double excess = e > 0 ? (e < out ? e : out) : 0;
        const double deficit = e < 0 ? (-e < in ? -e : in) : 0;
        around += excess + deficit;
        most_excess = excess > most_excess ? excess : most_excess;
        most_deficit = deficit > most_deficit ? deficit : most_deficit;
        most_finite = double(s) < double(INFINITY) && s > most_finite ? double(s) : most_finite;
        most_finite = double(t) < double(INFINITY) && t > most_finite ? double(t) : most_finite;
      } else {
        // The excess or deficit, at most what the cell's arcs can carry.
        const uint64_t gives = s > t ? uint64_t(s) - uint64_t(t) : 0;
        const uint64_t takes = t > s ? uint64_t(t) - uint64_t(s) : 0;
        const uint64_t excess = gives < leaves ? gives : leaves;
        const uint64_t deficit = takes < enters ? takes : enters;
        sums[0] += excess & 0xffffffffu;
        sums[1] += excess >> 32;
        sums[2] += deficit & 0xffffffffu;
        sums[3] += deficit >> 32;
      }
      most_around = around > most_around ? around : most_around;
    });
    if (!kFirst) {
      raise(kMostAroundBounded, most_around);
      return share_survey(false);
    }
    raise(kMostAround, most_around);
    if constexpr (kReal) {
      raise(kMostExcess, most_excess);
      raise(kMostDeficit, most_deficit);
      raise(kMostFinite, most_finite);
      raise(kMostArc, most_arc);
    } else {
      for (int k = 0; k < 4; ++k) count(k, sums[k]);
    }
    return share_survey(fault);
  }
  __device__ bool is_rounded() const {
    bool rounded = false;
    each_cell([&](int64_t cell, GridPlace g) {
      const double s = double(g_.source[cell]), t = double(g_.sink[cell]);
      double whole;
      rounded |= !units_.exact_excess(s, t, &whole);
      each_neighbour(g, cell, [&](int k, int64_t other) {
        rounded |= !units_.is_exact(double(g_.template arc<kArcs>(cell, other, k)));
      });
    });
    return barrier_.barrier_reduce(rounded);
  }

  const GridCapacities<G>& g_;
  GridBarrier& barrier_;
  GridCutControl* const all_;
  GridCutControl* const mine_;
  const int block_, blocks_;
  GridUnits units_{};
  double known_ = 0;  // capacity of a cut already found; 0: none
  double around_ = 0;
  int exponent_ = 0;
  // For integers only.
  double least_ = 0;  // the smaller of total excess and total deficit
  int shift_ = 0;     // the unit is 2^shift_
  bool is_last_ = false;
  int64_t beyond_ = INT64_MAX;
  int bits_ = 62;  // excess is clipped at 2^bits_
  bool surveyed_ = false;
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_CONVERT_CUH_
