// How a grid is divided into tiles, one at a time in the shared memory of a block.
#ifndef JAXMATCH_CUDA_GRID_CUT_TILING_H_
#define JAXMATCH_CUDA_GRID_CUT_TILING_H_

#include <cstdint>

#include "jaxmatch/grid_cut_operands.h"

namespace jaxmatch {

struct GridPlace {
  int z, y, x;
};

// A tile has a border of one cell around it, its halo: the neighbours that belong to other tiles.
// Widths are powers of two, so that a cell's place in the tile takes no division.
struct GridTiling {
  int log_x, log_y;    // of the size; in two dimensions log_y does not matter
  int size_y, size_z;  // of a tile
  int count_x, count_y, count_z;
  bool solid;  // three dimensions

  JAXMATCH_GRID_FN int size_x() const { return 1 << log_x; }
  JAXMATCH_GRID_FN int tiles() const { return count_x * count_y * count_z; }
  JAXMATCH_GRID_FN int cells() const { return size_x() * size_y * size_z; }
  // With the halo.
  JAXMATCH_GRID_FN int row() const { return size_x() + 2; }
  JAXMATCH_GRID_FN int plane() const { return row() * (size_y + 2); }
  JAXMATCH_GRID_FN int padded() const { return solid ? plane() * (size_z + 2) : plane(); }
  JAXMATCH_GRID_FN int at(GridPlace p) const {
    return (solid ? p.z * plane() : 0) + p.y * row() + p.x;
  }
  JAXMATCH_GRID_FN int offset(GridStep s) const { return s.z * plane() + s.y * row() + s.x; }

  // The place of a cell of the tile, with the halo counted.
  JAXMATCH_GRID_FN GridPlace cell(int i) const {
    const int x = i & (size_x() - 1), rest = i >> log_x;
    if (!solid) return {0, rest + 1, x + 1};
    return {(rest >> log_y) + 1, (rest & (size_y - 1)) + 1, x + 1};
  }

  // The cells of the halo: of two dimensions the whole frame, of three the faces of the box.
  JAXMATCH_GRID_FN int halo() const {
    const int x = size_x(), y = size_y, z = size_z;
    return solid ? 2 * (x * y + x * z + y * z) : 2 * row() + 2 * y;
  }
  JAXMATCH_GRID_FN GridPlace halo_place(int q) const {
    const int x = size_x(), y = size_y, z = size_z;
    if (!solid) {
      if (q < 2 * row()) return {0, q < row() ? 0 : y + 1, q < row() ? q : q - row()};
      q -= 2 * row();
      return {0, (q >> 1) + 1, q & 1 ? x + 1 : 0};
    }
    if (q < 2 * x * y) {
      const int far = q >= x * y, r = far ? q - x * y : q;
      return {far ? z + 1 : 0, (r >> log_x) + 1, (r & (x - 1)) + 1};
    }
    q -= 2 * x * y;
    if (q < 2 * x * z) {
      const int far = q >= x * z, r = far ? q - x * z : q;
      return {(r >> log_x) + 1, far ? y + 1 : 0, (r & (x - 1)) + 1};
    }
    q -= 2 * x * z;
    const int far = q >= y * z, r = far ? q - y * z : q;
    return {(r >> log_y) + 1, (r & (y - 1)) + 1, far ? x + 1 : 0};
  }
  // The inverse.
  JAXMATCH_GRID_FN int halo_index(GridPlace p) const {
    const int x = size_x(), y = size_y, z = size_z;
    if (!solid) {
      if (p.y == 0) return p.x;
      if (p.y == y + 1) return row() + p.x;
      return 2 * row() + 2 * (p.y - 1) + (p.x == x + 1);
    }
    if (p.z == 0 || p.z == z + 1) {
      return (p.z == 0 ? 0 : x * y) + ((p.y - 1) << log_x) + p.x - 1;
    }
    if (p.y == 0 || p.y == y + 1) {
      return 2 * x * y + (p.y == 0 ? 0 : x * z) + ((p.z - 1) << log_x) + p.x - 1;
    }
    return 2 * (x * y + x * z) + (p.x == 0 ? 0 : y * z) + ((p.z - 1) << log_y) + p.y - 1;
  }

  // -1, 0 or 1 for each direction: in which tile beside this one a place of the halo lies.
  JAXMATCH_GRID_FN GridStep tile_step(GridPlace p) const {
    return {int8_t(!solid || (p.z > 0 && p.z <= size_z) ? 0
                   : p.z == 0                           ? -1
                                                        : 1),
            int8_t(p.y > 0 && p.y <= size_y ? 0
                   : p.y == 0               ? -1
                                            : 1),
            int8_t(p.x > 0 && p.x <= size_x() ? 0
                   : p.x == 0                 ? -1
                                              : 1)};
  }
  JAXMATCH_GRID_FN bool is_inside(GridPlace p) const {
    const GridStep s = tile_step(p);
    return s.z == 0 && s.y == 0 && s.x == 0;
  }

  // Shared memory for a tile whose numbers have so many bytes.
  JAXMATCH_GRID_FN int64_t bytes(int arcs, int number) const {
    return int64_t(padded()) * ((arcs + 1) * number + 4) + 16;
  }
};

// The tiles for a grid: as small as allows each of `blocks` to keep one, but not so small that
// borders are most of it; as large as fit the memory of a block where there are more.
inline GridTiling PlanGridTiles(const GridShape& s, int arcs, int number, int blocks,
                                int64_t most_bytes) {
  constexpr int kLeastCells = 512;
  const bool solid = arcs == 6;
  const auto up = [](int a, int b) { return (a + b - 1) / b; };
  GridTiling best{};
  bool best_stays = false;
  const auto offer = [&](int log_x, int log_y, int size_y, int size_z) {
    const GridTiling t{log_x,
                       log_y,
                       size_y,
                       size_z,
                       up(s.width, 1 << log_x),
                       up(s.height, size_y),
                       up(s.depth, size_z),
                       solid};
    if (t.bytes(arcs, number) > most_bytes) return;
    const bool stays = t.tiles() == 1 || (t.tiles() <= blocks && t.cells() >= kLeastCells);
    if (best.count_x == 0 || (stays && !best_stays) ||
        (stays == best_stays && (stays ? t.padded() < best.padded() : t.tiles() < best.tiles()))) {
      best = t;
      best_stays = stays;
    }
  };
  for (int log_x = solid ? 3 : 4; log_x <= (solid ? 5 : 6); ++log_x) {
    for (int last = 1; last <= 64; ++last) {
      if (!solid && last <= s.height) offer(log_x, 0, last, 1);
      for (int log_y = 2; solid && last <= s.depth && log_y <= 5; ++log_y) {
        offer(log_x, log_y, 1 << log_y, last);
      }
    }
  }
  return best;
}

// Where things lie in the memory of the device, for tiles of numbers of 32 and of 64 bits.
struct GridCutLayout {
  GridTiling narrow, wide;
  int blocks = 0;
  // Where they begin, behind a part of the value by block.
  int64_t heights = 0, boxes = 0, stored = 0, bytes = 0;

  static GridCutLayout of(const GridShape& s, int arcs, int most_blocks, int64_t shared) {
    GridCutLayout l{PlanGridTiles(s, arcs, 4, most_blocks, shared),
                    PlanGridTiles(s, arcs, 8, most_blocks, shared)};
    const int tiles = l.narrow.tiles() > l.wide.tiles() ? l.narrow.tiles() : l.wide.tiles();
    l.blocks = tiles < most_blocks ? tiles : most_blocks;
    const auto boxes = [&](const GridTiling& t, int64_t number) {
      return t.tiles() > 1 ? 2 * int64_t(t.tiles()) * arcs * t.halo() * number : 0;
    };
    const auto stored = [&](const GridTiling& t, int64_t number) {
      return t.tiles() > l.blocks ? s.cells() * ((arcs + 1) * number + 4) : 0;
    };
    const auto larger = [](int64_t a, int64_t b) { return ((a > b ? a : b) + 15) / 16 * 16; };
    l.heights = larger(8 * int64_t(l.blocks), 0);
    l.boxes = l.heights + larger(8 * s.cells(), 0);
    l.stored = l.boxes + larger(boxes(l.narrow, 4), boxes(l.wide, 8));
    l.bytes = l.stored + larger(stored(l.narrow, 4), stored(l.wide, 8));
    return l;
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_GRID_CUT_TILING_H_
