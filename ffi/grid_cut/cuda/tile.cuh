// One tile of a grid in shared memory: push-relabel and distances, by sweeps over all cells of the
// tile.
//
// Flow runs backwards, from the sink to the source: a cell has excess if its sink capacity exceeds
// its source capacity, and a deficit in the opposite case. A residual path from a cell to a deficit
// is, in the original direction, a residual path from the source to the cell. So at the end, the
// cells that still have such a path are the source side of a minimum cut.
#ifndef JAXMATCH_GRID_CUT_CUDA_TILE_CUH_
#define JAXMATCH_GRID_CUT_CUDA_TILE_CUH_

#include <cstdint>

#include "grid_cut/cuda/sweeps.cuh"
#include "grid_cut/cuda/tiling.h"

namespace jaxmatch::grid_cut {

// T is the type of excess and residual capacities, with bits to spare. GridNumbers limits the sum
// of a cell's arcs to less than 2^30 if T has 32 bits, and to less than 2^59 if T has 64 bits. The
// cell's excess stays within the same limit. If the given capacities are integers and T has 64
// bits, GridNumbers limits only each single number, to 2^59. A cell's excess is at most the sum of
// nine such numbers, its first excess and what arrives along eight arcs. So nothing overflows,
// whatever the capacities are. Because all numbers are integers, each push moves at least one unit,
// so a solve terminates.
//
// Neighbours in other tiles lie in the halo. Flow pushed to a halo cell adds up in the residual
// arcs from this cell back into the tile, until GridCutSolve::publish() sends it to the other tile.
// The excess of halo cells is not used.
template <int kArcs, class T>
class GridTile {
 public:
  __device__ GridTile(const GridTiling& tiling, char* memory)
      : tiling(tiling), memory_(reinterpret_cast<T*>(memory)), row_(tiling.row()) {
    for (int k = 0; k < kArcs; ++k) offset[k] = tiling.offset(grid_step<kArcs>(k));
  }

  __device__ T& excess(int a) const { return memory_[a]; }
  __device__ T& arc(int k, int a) const { return memory_[a + (k + 1) * row_]; }
  __device__ int32_t& height(int a) const {
    return *reinterpret_cast<int32_t*>(memory_ + a + (kArcs + 1) * row_);
  }
  __device__ void add(int a, T x) const { add_to(memory_ + a, x); }

  template <class F>
  __device__ void each_cell(F f) const {
    for (int i = threadIdx.x; i < tiling.cells(); i += blockDim.x) {
      f(tiling.at(tiling.cell(i)), i);
    }
  }
  // Marks a cell as outside the grid.
  __device__ void clear(int a) const {
    excess(a) = 0;
    height(a) = kGridFar;
#pragma unroll
    for (int k = 0; k < kArcs; ++k) arc(k, a) = 0;
  }
  __device__ void clear_halo() const {
    for (int q = threadIdx.x; q < tiling.halo(); q += blockDim.x) {
      clear(tiling.at(tiling.halo_place(q)));
    }
  }

  // Cells with excess push to neighbours that are lower by one. Heights do not change meanwhile, so
  // only the higher end of an arc pushes along it. Each residual capacity thus has one writer; an
  // excess has several. Valid heights stay valid. A barrier must follow.
  __device__ void push() const {
    each_cell([&](int a, int) {
      const T e = seen(excess(a));
      const int32_t here = height(a);
      if (e <= 0 || here >= kGridFar) return;
      T left = e;
#pragma unroll
      for (int k = 0; k < kArcs; ++k) {
        const int b = a + offset[k];
        if (left == 0 || height(b) != here - 1) continue;
        const T room = arc(k, a), d = room < left ? room : left;
        if (d == 0) continue;
        left -= d;
        arc(k, a) = room - d;
        arc(opposite<kArcs>(k), b) += d;
        add(b, d);
      }
      if (left != e) add(a, left - e);
    });
  }
  // Cells with excess left rise to one above the lowest neighbour that their residual arcs lead to.
  // Heights stay valid even if neighbours rise at the same time, because a height that is out of
  // date is only too low. Returns true if this thread has found a cell with excess that may still
  // reach a deficit.
  __device__ bool relabel() const {
    bool active = false;
    each_cell([&](int a, int) {
      const int32_t here = height(a);
      if (excess(a) <= 0 || here >= kGridFar) return;
      int32_t lowest = kGridFar - 1;
#pragma unroll
      for (int k = 0; k < kArcs; ++k) {
        const int32_t there = seen(height(a + offset[k]));
        if (there < lowest && arc(k, a) > 0) lowest = there;
      }
      if (lowest + 1 > here) seen(height(a)) = lowest + 1;
      active |= lowest + 1 < kGridFar;
    });
    return active;
  }

  // True if this thread finds a cell with excess that might reach a deficit.
  __device__ bool has_active() const {
    bool active = false;
    each_cell([&](int a, int) { active |= excess(a) > 0 && height(a) < kGridFar; });
    return active;
  }

  // See GridSweeps.
  __device__ bool race(int sweeps) const {
    return with_width<kArcs>(tiling, [&](auto log_x) {
      return race_over_tile<kArcs, T, log_x.value>(tiling, memory_, sweeps);
    });
  }
  // Sets initial distances: 0 for cells with a deficit, kGridFar for all others.
  __device__ void start_distances() const {
    each_cell([&](int a, int) { height(a) = excess(a) < 0 ? 0 : kGridFar; });
    for (int q = threadIdx.x; q < tiling.halo(); q += blockDim.x) {
      height(tiling.at(tiling.halo_place(q))) = kGridFar;
    }
    __syncthreads();
  }
  __device__ bool update_distances(int sweeps) const {
    return with_width<kArcs>(tiling, [&](auto log_x) {
      return run_sweeps<kArcs, T, log_x.value>(tiling, memory_, sweeps);
    });
  }

  const GridTiling& tiling;
  int offset[kArcs];

 private:
  T* const memory_;
  const int row_;
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_TILE_CUH_
