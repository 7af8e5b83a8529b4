// Sizes of the buffers for grid cuts on a GPU, queried by Python.
#ifndef JAXMATCH_GRID_CUT_CUDA_SIZES_H_
#define JAXMATCH_GRID_CUT_CUDA_SIZES_H_

#include <cstdint>

#include "common/sizes.h"
#include "grid_cut/cuda/tiling.h"

namespace jaxmatch::grid_cut {

constexpr int64_t kControlWords = 34;

// Every GPU has at least this many bytes of shared memory per block for a tile.
constexpr int64_t kLeastRoom = 96'000;

// With many arcs no more shared memory than this is used, so that the bound on links holds.
constexpr int64_t kMostRoomOfMany = 240'000;

// Upper bound on the number of links in a grid with many arcs, on any GPU. Where all tiles are
// small, there are no more of them than with the least shared memory and 64-bit numbers.
inline int64_t most_links_of_many(const GridShape& s) {
  const GridTiling least = plan_grid_tiles(s, kManyArcs, 8, 1, kLeastRoom);
  int64_t most = 0;
  each_tiling(s, kManyArcs, [&](const GridTiling& t) {
    const int64_t links = int64_t(t.tiles()) * t.links();
    const bool is_candidate = !is_small(t) || t.tiles() <= least.tiles();
    if (is_candidate && t.bytes(4) <= kMostRoomOfMany && links > most) most = links;
  });
  return most;
}

// Upper bound on GridCutLayout::bytes for one grid on any GPU, in int32 words. But for many arcs,
// it assumes tiles of at least 8 x 16 or 8 x 8 x 8 cells. A grid that one block solves on every GPU
// needs almost no memory.
inline int64_t scratch_words(const GridShape& s, int connectivity) {
  const int arcs = tile_arcs(connectivity);
  if (s.cells() == 0 || needs_one_block(s, arcs, kLeastRoom)) return 4;
  const auto rounded = [](int64_t size, int64_t part) { return (size + part - 1) / part * part; };
  const int64_t cells = arcs == 6 ? rounded(s.depth, 8) * rounded(s.height, 8) * rounded(s.width, 8)
                        : arcs == kManyArcs ? s.cells()
                                            : rounded(s.height, 8) * rounded(s.width, 16);
  const int64_t links = arcs == 4           ? cells
                        : arcs == 6         ? cells * 3 / 2
                        : arcs == kManyArcs ? most_links_of_many(s)
                                            : 3 * cells;
  return words(GridCutLayout::message_bytes(links, 8) +
               GridCutLayout::stored_bytes(cells, arcs, 8)) +
         65'536;
}

constexpr Size kSizes[] = {
    {"grid_cut.control", constant<kControlWords>},
    {"grid_cut.scratch",  // arguments: depth, height, width, connectivity
     [](const int64_t* a) {
       return scratch_words({int32_t(a[0]), int32_t(a[1]), int32_t(a[2])}, int(a[3]));
     }},
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_SIZES_H_
