// The inner loops of a grid cut: sweeps over all cells of a tile that push and relabel, or that
// lower distances.
//
// Each sweep is a separate function that is not inlined, with one instance per tile width. So the
// compiler allocates registers for this sweep alone, and offsets to neighbours and arcs are
// constants.
#ifndef JAXMATCH_GRID_CUT_CUDA_SWEEPS_CUH_
#define JAXMATCH_GRID_CUT_CUDA_SWEEPS_CUH_

#include <cstdint>
#include <type_traits>

#include "grid_cut/cuda/tiling.h"

namespace jaxmatch::grid_cut {

constexpr int kGridFar = 1 << 28;  // the height of cells that reach no deficit

// Volatile access to memory that other threads may write.
template <class X>
__device__ inline volatile X& seen(X& x) {
  return x;
}
__device__ inline void add_to(int32_t* at, int32_t x) { atomicAdd(at, x); }
__device__ inline void add_to(int64_t* at, int64_t x) {
  atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)x);
}

template <int kArcs, class T, int kLogX>
class GridSweeps {
 public:
  __device__ GridSweeps(const GridTiling& tiling, T* memory)
      : memory_(memory),
        cells_(tiling.cells()),
        log_y_(tiling.log_y),
        slab_(kArcs == 6 ? tiling.slab_stride() : 0) {
#ifndef JAXMATCH_EMULATED
    __builtin_assume(__isShared(memory_));
#endif
  }

  // Asynchronous sweeps of pushes and relabellings. A cell pushes to all lower neighbours. If
  // excess is left, the cell rises to one above the lowest of the other neighbours that its
  // residual arcs lead to. Only a cell's own thread reduces its excess and residual capacities, so
  // these stay correct. Heights may become invalid. Returns true if, in the last sweep, this thread
  // has found excess that might reach a deficit.
  __device__ bool race(int sweeps) const {
    bool active = false;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      active = false;
      for (int first = int(threadIdx.x); first < cells_; first += kTogether * int(blockDim.x)) {
        T* cell[kTogether];
        T e[kTogether];
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          const int i = first + j * int(blockDim.x);
          cell[j] = memory_ + place(i);
          e[j] = i < cells_ ? T(seen(*cell[j])) : T(0);
        }
#pragma unroll
        for (int j = 0; j < kTogether; ++j) {
          if (e[j] > 0) active |= discharge(cell[j], e[j]);
        }
      }
    }
    return active;
  }

  // Lowers distances until nothing changes within the tile, for at most `sweeps` sweeps. Returns
  // true if any distance changed. It tests for changes only after every kSweeps sweeps. Distances
  // only fall, so it does not matter whether a cell reads the old or the new distance of a
  // neighbour.
  __device__ bool sweep_to_fixed_point(int sweeps) const {
    constexpr int kSweeps = 2;
    // Addresses of a thread's first kKept cells, and the masks of their arcs (see lower_cell), are
    // kept in registers.
    T* cell[kKept];
    int32_t closed[kKept][kArcs];
    int kept = 0;
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      const int i = int(threadIdx.x) + j * int(blockDim.x);
      const bool there = i < cells_;
      cell[j] = memory_ + place(there ? i : 0);
      const bool has_deficit = *cell[j] < 0;
#pragma unroll
      for (int k = 0; k < kArcs; ++k) {
        closed[j][k] = there && !has_deficit && cell[j][(k + 1) * kRow] > 0 ? 0 : kGridFar;
      }
      kept += there;
    }
    bool changed = false, again = true;
    for (int done = 0; again && done < sweeps; done += kSweeps) {
      bool lower = false;
      for (int sweep = 0; sweep < kSweeps; ++sweep) {
#pragma unroll
        for (int j = 0; j < kKept; ++j) {
          if (j < kept) lower |= lower_cell(cell[j], closed[j]);
        }
        for (int i = int(threadIdx.x) + kKept * int(blockDim.x); i < cells_; i += int(blockDim.x)) {
          T* const other = memory_ + place(i);
          int32_t shut[kArcs];
#pragma unroll
          for (int k = 0; k < kArcs; ++k) shut[k] = other[(k + 1) * kRow] > 0 ? 0 : kGridFar;
          lower |= lower_cell(other, shut);
        }
      }
      again = __syncthreads_or(lower);
      changed |= again;
    }
    return changed;
  }

 private:
  static constexpr int kRow = (1 << kLogX) + 2, kStride = (kArcs + 2) * kRow;
  static constexpr int kTogether = 2;  // cells whose excess a thread loads together
  static constexpr int kKept = kArcs == 4 ? 4 : 3;

  // The same as at(cell(i)) in GridTiling.
  __device__ int place(int i) const {
    const int x = i & ((1 << kLogX) - 1), rest = i >> kLogX;
    if constexpr (kArcs != 6) return (rest + 1) * kStride + x + 1;
    return ((rest >> log_y_) + 1) * slab_ + ((rest & ((1 << log_y_) - 1)) + 1) * kStride + x + 1;
  }
  __device__ int offset(int k) const {
    const GridStep s = grid_step<kArcs>(k);
    return s.z * slab_ + s.y * kStride + s.x;
  }
  __device__ static int32_t& height(T* cell) {
    return *reinterpret_cast<int32_t*>(cell + (kArcs + 1) * kRow);
  }

  // Discharges a cell with excess e. Returns true if the excess might reach a deficit.
  __device__ bool discharge(T* cell, T e) const {
    const int32_t here = height(cell);
    if (here >= kGridFar) return false;
    T room[kArcs];
    int32_t there[kArcs];
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      room[k] = seen(cell[(k + 1) * kRow]);
      there[k] = seen(height(cell + offset(k)));
    }
    T left = e;
    int32_t lowest = kGridFar - 1;
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      const bool down = there[k] < here;
      if (!down && room[k] > 0) lowest = there[k] < lowest ? there[k] : lowest;
      const T d = !down ? T(0) : room[k] < left ? room[k] : left;
      if (d <= 0) continue;
      left -= d;
      T* const other = cell + offset(k);
      add_to(cell + (k + 1) * kRow, -d);
      add_to(other + (opposite<kArcs>(k) + 1) * kRow, d);
      add_to(other, d);
    }
    if (left != e) add_to(cell, left - e);
    if (left > 0) seen(height(cell)) = lowest + 1;
    return true;
  }
  // Lowers the height of a cell to one above the lowest neighbour that its residual arcs lead to.
  // Returns true if the height changed. `closed` is 0 for an arc with residual capacity, else a
  // mask that makes any height at least kGridFar. Cells with a deficit have height 0 and keep it.
  __device__ bool lower_cell(T* cell, const int32_t (&closed)[kArcs]) const {
    int32_t lowest = kGridFar;
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      const int32_t there = seen(height(cell + offset(k))) | closed[k];
      lowest = there < lowest ? there : lowest;
    }
    if (lowest + 1 >= seen(height(cell))) return false;
    seen(height(cell)) = lowest + 1;
    return true;
  }

  T* const memory_;
  const int cells_, log_y_, slab_;
};

template <int kArcs, class T, int kLogX>
__device__ __noinline__ bool race_over_tile(const GridTiling& tiling, T* memory, int sweeps) {
  return GridSweeps<kArcs, T, kLogX>(tiling, memory).race(sweeps);
}
template <int kArcs, class T, int kLogX>
__device__ __noinline__ bool run_sweeps(const GridTiling& tiling, T* memory, int sweeps) {
  return GridSweeps<kArcs, T, kLogX>(tiling, memory).sweep_to_fixed_point(sweeps);
}

// Calls f with the binary logarithm of the width of the tiles, as a std::integral_constant.
template <int kArcs, class F>
__device__ inline bool with_width(const GridTiling& tiling, F f) {
#ifdef JAXMATCH_EMULATED
  if (tiling.log_x == 1) return f(std::integral_constant<int, 1>{});
  if (tiling.log_x == 2) return f(std::integral_constant<int, 2>{});
#endif
  constexpr int kLeast = kArcs == 6 ? kLeastLogSolid : kLeastLogFlat;
  if (tiling.log_x == kLeast) return f(std::integral_constant<int, kLeast>{});
  if (tiling.log_x == kLeast + 1) return f(std::integral_constant<int, kLeast + 1>{});
  return f(std::integral_constant<int, kLeast + 2>{});
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_SWEEPS_CUH_
