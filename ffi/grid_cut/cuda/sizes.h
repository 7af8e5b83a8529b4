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

// Upper bound on GridCutLayout::bytes for one grid on any GPU, in int32 words. It assumes tiles of
// at least 8 x 16 or 8 x 8 x 8 cells. A grid that one block solves on every GPU needs almost no
// memory.
inline int64_t scratch_words(const GridShape& s, int connectivity) {
  if (s.cells() == 0 || needs_one_block(s, connectivity, kLeastRoom)) return 4;
  const auto rounded = [](int64_t size, int64_t part) { return (size + part - 1) / part * part; };
  const bool solid = connectivity == 6;
  const int64_t cells = solid ? rounded(s.depth, 8) * rounded(s.height, 8) * rounded(s.width, 8)
                              : rounded(s.height, 8) * rounded(s.width, 16);
  const int64_t links = connectivity == 4 ? cells : connectivity == 6 ? cells * 3 / 2 : 3 * cells;
  return words(GridCutLayout::message_bytes(links, 8) +
               GridCutLayout::stored_bytes(cells, connectivity, 8)) +
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
