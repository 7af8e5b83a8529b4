// Tiles with many arcs in device memory, while another tile is in shared memory.
#ifndef JAXMATCH_GRID_CUT_CUDA_STORED_CUH_
#define JAXMATCH_GRID_CUT_CUDA_STORED_CUH_

#include <cstdint>

#include "grid_cut/cuda/tile.cuh"

namespace jaxmatch::grid_cut {

// Stores a tile, or restores it with an empty halo. `stored` is that of GridCutScratch; `first` is
// the place in the grid of the tile's first cell. Not inlined, because it is needed in many places,
// which would make the library too large.
template <class T>
__device__ __noinline__ void move_many(bool restores, const GridTiling& tiling, char* memory,
                                       GridShape shape, T* stored, GridPlace first) {
  const GridTile<kManyArcs, T> tile(tiling, memory);
  const int64_t cells = shape.cells();
  int32_t* const heights = reinterpret_cast<int32_t*>(stored + (kManyArcs + 1) * cells);
  if (restores) tile.clear_halo();
  tile.each_cell([&](int a, int i) {
    const GridPlace p = tiling.cell(i);
    const GridPlace g{first.z + p.z - 1, first.y + p.y - 1, first.x + p.x - 1};
    const bool there = shape.holds(g.z, g.y, g.x);
    if (!there && !restores) return;
    const int64_t at = there ? (int64_t(g.z) * shape.height + g.y) * shape.width + g.x : 0;
    constexpr int kTogether = 9;  // numbers that are loaded before the first of them is stored
    static_assert((kManyArcs + 1) % kTogether == 0, "the numbers of a cell in three turns");
#pragma unroll 1
    for (int k = 0; k <= kManyArcs; k += kTogether) {
      T x[kTogether];
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        x[j] = !restores ? tile.number(k + j, a) : there ? stored[(k + j) * cells + at] : T(0);
      }
#pragma unroll
      for (int j = 0; j < kTogether; ++j) {
        *(restores ? &tile.number(k + j, a) : stored + (k + j) * cells + at) = x[j];
      }
    }
    if (restores) {
      tile.height(a) = there ? heights[at] : kGridFar;
    } else {
      heights[at] = tile.height(a);
    }
  });
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_STORED_CUH_
