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
      const T e = seen(excess[a]);
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
      if (raised > here) seen(height[a]) = raised;
      active |= raised < kGridFar;
    });
    return active;
  }

  // Pushes and relabellings of so many sweeps, in which threads do not wait for each other: a cell
  // pushes to whoever it sees lower, and rises above the lowest it sees where that is not enough.
  // Only its own thread takes from a cell's excess and arcs, so these are right; heights need not
  // stay valid. Returns whether this thread has seen excess that might go somewhere.
  __device__ bool race(int sweeps) const {
    int place[kKept];
    keep_places(place);
    bool active = false;
    for (int sweep = 0; sweep < sweeps; ++sweep) {
      active = false;
      T e[kKept];
#pragma unroll
      for (int j = 0; j < kKept; ++j) e[j] = place[j] >= 0 ? T(seen(excess[place[j]])) : T(0);
#pragma unroll
      for (int j = 0; j < kKept; ++j) {
        if (e[j] > 0) active |= discharge(place[j], e[j]);
      }
      each_other_cell([&](int a) {
        const T more = seen(excess[a]);
        if (more > 0) active |= discharge(a, more);
      });
    }
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
    constexpr int kSweeps = 2;
    int place[kKept];
    unsigned open[kKept];  // arcs
    keep_places(place);
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      open[j] = 0;
      if (place[j] < 0 || excess[place[j]] < 0) continue;
#pragma unroll
      for (int k = 0; k < kArcs; ++k) open[j] |= unsigned(arc(k, place[j]) > 0) << k;
    }
    bool changed = false;
    for (bool again = true; again;) {
      bool lower = false;
      const auto lower_to = [&](int a, int32_t there) {
        if (there >= height[a]) return;
        seen(height[a]) = there;
        lower = true;
      };
      for (int sweep = 0; sweep < kSweeps; ++sweep) {
#pragma unroll
        for (int j = 0; j < kKept; ++j) {
          if (open[j] == 0) continue;
          int32_t lowest = kGridFar - 1;
#pragma unroll
          for (int k = 0; k < kArcs; ++k) {
            const int32_t there = seen(height[place[j] + offset[k]]);
            if (open[j] >> k & 1) lowest = there < lowest ? there : lowest;
          }
          lower_to(place[j], lowest + 1);
        }
        each_other_cell([&](int a) {
          if (height[a] != 0) lower_to(a, one_above_lowest(a));
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
  // The first cells of a thread, whose places it keeps in registers while it sweeps; -1: none.
  static constexpr int kKept = 3;
  __device__ void keep_places(int (&place)[kKept]) const {
#pragma unroll
    for (int j = 0; j < kKept; ++j) {
      const int i = int(threadIdx.x) + j * int(blockDim.x);
      place[j] = i < tiling.cells() ? tiling.at(tiling.cell(i)) : -1;
    }
  }
  template <class F>
  __device__ void each_other_cell(F f) const {
    for (int i = int(threadIdx.x) + kKept * int(blockDim.x); i < tiling.cells();
         i += int(blockDim.x)) {
      f(tiling.at(tiling.cell(i)));
    }
  }

  // Whether the cell, which has this excess, is one that might reach a deficit.
  __device__ bool discharge(int a, T e) const {
    const int32_t here = height[a];
    if (here >= kGridFar) return false;
    T room[kArcs];
    int32_t there[kArcs];
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      room[k] = seen(arc(k, a));
      there[k] = seen(height[a + offset[k]]);
    }
    T left = e;
    int32_t lowest = kGridFar - 1;
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      if (room[k] <= 0) continue;
      if (there[k] >= here) {
        lowest = there[k] < lowest ? there[k] : lowest;
        continue;
      }
      const T d = room[k] < left ? room[k] : left;
      if (d == 0) continue;
      const int b = a + offset[k];
      left -= d;
      add_to(&arc(k, a), -d);
      add_to(&arc(opposite<kArcs>(k), b), d);
      add_to(excess + b, d);
    }
    if (left != e) add_to(excess + a, left - e);
    if (left > 0) seen(height[a]) = lowest + 1;
    return true;
  }

  // What other threads may write meanwhile.
  template <class X>
  __device__ static volatile X& seen(X& x) {
    return x;
  }
  __device__ static void add_to(int32_t* at, int32_t x) { atomicAdd(at, x); }
  __device__ static void add_to(int64_t* at, int64_t x) {
    atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)x);
  }
  __device__ int32_t one_above_lowest(int a) const {
    int32_t lowest = kGridFar - 1;
#pragma unroll
    for (int k = 0; k < kArcs; ++k) {
      const int32_t there = seen(height[a + offset[k]]);
      if (there < lowest && arc(k, a) > 0) lowest = there;
    }
    return lowest + 1;
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GRID_CUT_TILE_CUH_
