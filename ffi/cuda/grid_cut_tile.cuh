// One tile of a grid in shared memory: push-relabel and distances by sweeps over all of its cells.
//
// Flow runs backwards, from the sink to the source: a cell has excess where the sink takes more
// than the source gives, and a deficit where it is the other way round. So what still reaches a
// deficit in the end is what residual arcs reach from the source.
#ifndef JAXMATCH_CUDA_GRID_CUT_TILE_CUH_
#define JAXMATCH_CUDA_GRID_CUT_TILE_CUH_

#include <cstdint>

#include "grid_cut_tiling.h"

namespace jaxmatch {

constexpr int kGridFar = 1 << 28;  // the height of cells that reach nothing

// T holds excess and residual capacities, all of fewer bits than it has. Neighbours in other tiles
// lie in the halo. What is pushed to them adds up in the residual arcs of the halo, one for each
// arc into the tile; their excess there means nothing.
template <int kArcs, class T>
class GridTile {
 public:
  __device__ GridTile(const GridTiling& tiling, char* memory) : tiling(tiling) {
    excess = reinterpret_cast<T*>(memory);
    residual = excess + tiling.padded();
    height = reinterpret_cast<int32_t*>(residual + kArcs * tiling.padded());
    for (int k = 0; k < kArcs; ++k) offset[k] = tiling.offset(grid_step<kArcs>(k));
  }

  template <class F>
  __device__ void each_cell(F f) const {
    for (int i = threadIdx.x; i < tiling.cells(); i += blockDim.x) {
      f(tiling.at(tiling.cell(i)), i);
    }
  }
  // f(place in the halo, its number there, direction, place of the cell of the tile that lies
  // there)
  template <class F>
  __device__ void each_halo_arc(F f) const {
    for (int q = threadIdx.x; q < tiling.halo(); q += blockDim.x) {
      const GridPlace p = tiling.halo_place(q);
#pragma unroll
      for (int j = 0; j < kArcs; ++j) {
        const GridStep s = grid_step<kArcs>(j);
        const GridPlace to{p.z + s.z, p.y + s.y, p.x + s.x};
        const bool there = to.z >= 0 && to.y >= 0 && to.x >= 0 && to.y <= tiling.size_y + 1 &&
                           to.x <= tiling.size_x() + 1;
        if (there && tiling.is_inside(to)) f(p, q, j, to);
      }
    }
  }
  __device__ T& arc(int k, int a) const { return residual[k * tiling.padded() + a]; }

  __device__ void clear() const {
    for (int a = threadIdx.x; a < tiling.padded(); a += blockDim.x) {
      excess[a] = 0;
      height[a] = kGridFar;
      for (int k = 0; k < kArcs; ++k) arc(k, a) = 0;
    }
    __syncthreads();
  }

  // Cells with excess push to neighbours one below. While heights stand still only the higher end
  // of an arc pushes, so residual capacities have one writer; excess has several. Valid heights
  // stay valid. Whoever comes next must wait.
  __device__ void push() const {
    each_cell([&](int a, int) {
      const T e = const_cast<volatile T&>(excess[a]);
      const int32_t here = height[a];
      if (e <= 0 || here >= kGridFar) return;
      T left = e;
#pragma unroll
      for (int k = 0; k < kArcs; ++k) {
        const int b = a + offset[k];
        if (left == 0 || height[b] != here - 1) continue;
        const T room = arc(k, a), d = room < left ? room : left;
        if (d == 0) continue;
        left -= d;
        arc(k, a) = room - d;
        arc(opposite<kArcs>(k), b) += d;
        add_to(excess + b, d);
      }
      if (left != e) add_to(excess + a, left - e);
    });
  }
  // Cells that could not get rid of their excess rise to one above their lowest neighbour. Heights
  // of neighbours may rise meanwhile: that leaves them valid. Returns whether this thread has seen
  // a cell with excess that may still reach a deficit.
  __device__ bool relabel() const {
    bool active = false;
    each_cell([&](int a, int) {
      const int32_t here = height[a];
      if (excess[a] <= 0 || here >= kGridFar) return;
      const int32_t raised = one_above_lowest(a);
      if (raised > here) const_cast<volatile int32_t&>(height[a]) = raised;
      active |= raised < kGridFar;
    });
    return active;
  }

  __device__ void add(int a, T x) const { add_to(excess + a, x); }

  // Distances to deficits.
  __device__ void start_distances() const {
    for (int a = threadIdx.x; a < tiling.padded(); a += blockDim.x) height[a] = kGridFar;
    __syncthreads();
    each_cell([&](int a, int) {
      if (excess[a] < 0) height[a] = 0;
    });
    __syncthreads();
  }
  // To the end within the tile. Returns whether anything changed. Several sweeps go between two
  // looks at that; heights only fall, so it does no harm which of them a neighbour sees.
  __device__ bool settle_distances() const {
    constexpr int kSweeps = 4;
    bool changed = false;
    for (bool again = true; again;) {
      bool lower = false;
      for (int sweep = 0; sweep < kSweeps; ++sweep) {
        each_cell([&](int a, int) {
          const int32_t here = height[a];
          if (here == 0) return;
          const int32_t there = one_above_lowest(a);
          if (there >= here) return;
          const_cast<volatile int32_t&>(height[a]) = there;
          lower = true;
        });
      }
      again = __syncthreads_or(lower);
      changed |= again;
    }
    return changed;
  }

  const GridTiling& tiling;
  T *excess, *residual;
  int32_t* height;
  int offset[kArcs];

 private:
  __device__ static void add_to(int32_t* at, int32_t x) { atomicAdd(at, x); }
  __device__ static void add_to(int64_t* at, int64_t x) {
    atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)x);
  }
  __device__ int32_t one_above_lowest(int a) const {
    int32_t lowest = kGridFar - 1;
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      const int32_t there = const_cast<volatile int32_t&>(height[a + offset[k]]);
      if (there < lowest && arc(k, a) > 0) lowest = there;
    }
    return lowest + 1;
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GRID_CUT_TILE_CUH_
