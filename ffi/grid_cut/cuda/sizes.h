// Sizes of the buffers for grid cuts on a GPU, queried by Python.
#ifndef JAXMATCH_GRID_CUT_CUDA_SIZES_H_
#define JAXMATCH_GRID_CUT_CUDA_SIZES_H_

#include <algorithm>
#include <cstdint>

#include "common/sizes.h"

namespace jaxmatch::grid_cut {

constexpr int64_t kControlWords = 32;

constexpr int64_t power_of_two_from(int64_t x) {
  int64_t power = 1;
  while (power < x) power *= 2;
  return power;
}

// Upper bound, in int32 words, of GridCutLayout for one grid on any GPU: two messages of four words
// for each arc across a border of tiles, and excess, arcs and height of each cell where tiles take
// turns. A grid that fits the shared memory of every GPU needs none.
inline int64_t scratch_words(int64_t depth, int64_t height, int64_t width, int64_t connectivity) {
  const bool deep = connectivity == 6;
  const int64_t longest = std::max({depth, height, width});
  if (longest <= 32 && depth * height * width <= 1024) {
    const int64_t across = std::max<int64_t>(deep ? 8 : 16, power_of_two_from(width));
    const int64_t up = deep ? std::max<int64_t>(4, power_of_two_from(height)) : height;
    const int64_t inside = across * up * depth;
    const int64_t padded = (across + 2) * (up + 2) * (deep ? depth + 2 : 1);
    const int64_t links = (padded - inside) * (connectivity == 8 ? 3 : 1);
    if (8 * padded * (connectivity + 2) + 12 * links <= 96'000) return 4;
  }
  const auto rounded = [](int64_t size, int64_t part) { return (size + part - 1) / part * part; };
  const int64_t cells = deep ? rounded(depth, 8) * rounded(height, 8) * rounded(width, 8)
                             : rounded(height, 8) * rounded(width, 16);
  const int64_t messages = connectivity == 4 ? 8 : connectivity == 6 ? 12 : 24;
  return cells * (messages + 2 * (connectivity + 1) + 1) + 65'536;
}

constexpr Size kSizes[] = {
    {"grid_cut.control", constant<kControlWords>},
    {"grid_cut.scratch",  // of depth, height, width and connectivity
     [](const int64_t* a) { return scratch_words(a[0], a[1], a[2], a[3]); }},
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_SIZES_H_
