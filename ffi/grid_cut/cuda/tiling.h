// The division of a grid into tiles; a block holds one tile at a time in shared memory.
#ifndef JAXMATCH_GRID_CUT_CUDA_TILING_H_
#define JAXMATCH_GRID_CUT_CUDA_TILING_H_

#include <cstdint>

#include "grid_cut/operands.h"

namespace jaxmatch::grid_cut {

struct GridPlace {
  int z, y, x;
};

// A link: an arc across the border between two tiles, as one of them sees it. Its outer end is in
// the halo of this tile (see GridTiling).
struct GridLink {
  uint16_t halo, cell;  // places of its outer and its inner end in this tile
  int8_t direction;     // from the halo into the tile; -1: unused
  int8_t beside;        // which of the 3 x 3 x 3 tiles around this one owns the halo cell
  int32_t peer;         // offset to that tile's link for the same arc, in the array of all links
};

// A tile is surrounded by a halo, one cell wide: the neighbours that belong to other tiles. The
// width of a tile is a power of two, so that the place of a cell is computed without division.
struct GridTiling {
  int log_x, log_y;    // binary logarithms of a tile's width and height; log_y: 3D only
  int size_y, size_z;  // height and depth of a tile, in cells
  int count_x, count_y, count_z;
  bool solid;  // true: three dimensions
  int arcs;

  JAXMATCH_HOST_DEVICE int size_x() const { return 1 << log_x; }
  JAXMATCH_HOST_DEVICE int tiles() const { return count_x * count_y * count_z; }
  JAXMATCH_HOST_DEVICE int cells() const { return size_x() * size_y * size_z; }
  // Width of a row with its halo.
  JAXMATCH_HOST_DEVICE int row() const { return size_x() + 2; }
  JAXMATCH_HOST_DEVICE int padded() const {
    return row() * (size_y + 2) * (solid ? size_z + 2 : 1);
  }

  // Memory layout: each row of cells stores the excesses, then the arcs direction by direction,
  // then the heights. So the offsets from a cell to its data and to the neighbours with the same z
  // depend on the width only. The place of a cell is the index of its excess.
  JAXMATCH_HOST_DEVICE int row_stride() const { return (arcs + 2) * row(); }
  JAXMATCH_HOST_DEVICE int slab_stride() const { return row_stride() * (size_y + 2); }
  JAXMATCH_HOST_DEVICE int at(GridPlace p) const {
    return (solid ? p.z * slab_stride() : 0) + p.y * row_stride() + p.x;
  }
  JAXMATCH_HOST_DEVICE int offset(GridStep s) const {
    return s.z * slab_stride() + s.y * row_stride() + s.x;
  }

  // Coordinates of cell i of the tile. Coordinate 0 is the halo, so cells begin at 1.
  JAXMATCH_HOST_DEVICE GridPlace cell(int i) const {
    const int x = i & (size_x() - 1), rest = i >> log_x;
    if (!solid) return {0, rest + 1, x + 1};
    return {(rest >> log_y) + 1, (rest & (size_y - 1)) + 1, x + 1};
  }

  // Number of cells in the halo: the whole frame in two dimensions, the faces of the box in three.
  JAXMATCH_HOST_DEVICE int halo() const {
    const int x = size_x(), y = size_y, z = size_z;
    return solid ? 2 * (x * y + x * z + y * z) : 2 * row() + 2 * y;
  }
  JAXMATCH_HOST_DEVICE GridPlace halo_place(int q) const {
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
  // Inverse of halo_place().
  JAXMATCH_HOST_DEVICE int halo_index(GridPlace p) const {
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

  // The step from this tile to the tile that owns a halo cell: -1, 0 or 1 in each dimension.
  JAXMATCH_HOST_DEVICE GridStep tile_step(GridPlace p) const {
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
  JAXMATCH_HOST_DEVICE bool is_inside(GridPlace p) const {
    const GridStep s = tile_step(p);
    return s.z == 0 && s.y == 0 && s.x == 0;
  }

  // Links are numbered by the index of their halo cell. With diagonals, up to three arcs lead from
  // one halo cell into the tile.
  JAXMATCH_HOST_DEVICE static constexpr int links_of_place(int arcs) { return arcs == 8 ? 3 : 1; }
  JAXMATCH_HOST_DEVICE int links() const { return halo() * links_of_place(arcs); }
  // True if the step s leads from a place of the halo into the tile.
  JAXMATCH_HOST_DEVICE bool leads_inside(GridPlace p, GridStep s) const {
    return is_inside({p.z + s.z, p.y + s.y, p.x + s.x});
  }
  template <int kArcs>
  JAXMATCH_HOST_DEVICE int link(GridPlace p, int j) const {
    int before = 0;
    for (int i = 0; kArcs == 8 && i < j; ++i) before += leads_inside(p, grid_step<kArcs>(i));
    return halo_index(p) * links_of_place(kArcs) + before;
  }

  // Bytes of shared memory for a tile with numbers of `number` bytes; bytes() adds its links.
  JAXMATCH_HOST_DEVICE int64_t tile_bytes(int number) const {
    return (int64_t(padded()) * (arcs + 2) * number + 15) / 16 * 16;
  }
  JAXMATCH_HOST_DEVICE int64_t bytes(int number) const {
    return tile_bytes(number) + int64_t(links()) * int64_t(sizeof(GridLink));
  }
};

// Binary logarithms of the smallest tile widths to plan; two and four times these widths are tried
// as well.
constexpr int kLeastLogFlat = 4, kLeastLogSolid = 3;

// Plans the tiles for a grid. Among the sizes that fit into `most_bytes` of shared memory, it
// minimises the number of tiles per block, for `blocks` blocks, and then the size of the tiles.
// Tiles of fewer than kLeastCells cells are avoided, because borders dominate in small tiles. If
// all sizes that fit are that small, it minimises the number of tiles.
inline GridTiling plan_grid_tiles(const GridShape& s, int arcs, int number, int blocks,
                                  int64_t most_bytes) {
  constexpr int kLeastCells = 512;
  const bool solid = arcs == 6;
  const auto up = [](int a, int b) { return (a + b - 1) / b; };
  GridTiling best{};
  const auto is_small = [](const GridTiling& t) {
    return t.tiles() > 1 && t.cells() < kLeastCells;
  };
  const auto is_better = [&](const GridTiling& a, const GridTiling& b) {
    if (is_small(a) || is_small(b)) {
      return is_small(a) && is_small(b) ? a.tiles() < b.tiles() : is_small(b);
    }
    const int turns = up(a.tiles(), blocks), of_b = up(b.tiles(), blocks);
    return turns != of_b ? turns < of_b : a.padded() < b.padded();
  };
  const auto offer = [&](int log_x, int log_y, int size_y, int size_z) {
    const GridTiling t{log_x,
                       log_y,
                       size_y,
                       size_z,
                       up(s.width, 1 << log_x),
                       up(s.height, size_y),
                       up(s.depth, size_z),
                       solid,
                       arcs};
    const bool places_fit = (arcs + 2) * t.padded() <= UINT16_MAX;  // into GridLink
    if (t.bytes(number) > most_bytes || !places_fit) return;
    if (best.count_x == 0 || is_better(t, best)) best = t;
  };
  const int least = solid ? kLeastLogSolid : kLeastLogFlat;
  for (int log_x = least; log_x <= least + 2; ++log_x) {
    for (int last = 1; last <= 64; ++last) {
      if (!solid && last <= s.height) offer(log_x, 0, last, 1);
      for (int log_y = 2; solid && last <= s.depth && log_y <= 5; ++log_y) {
        offer(log_x, log_y, 1 << log_y, last);
      }
    }
  }
  return best;
}

// One block solves a grid of up to this many cells, if the grid fits one tile. `room` is the number
// of bytes of shared memory for a tile.
constexpr int64_t kCellsOfBlock = 1024;
inline bool needs_one_block(const GridShape& s, int arcs, int64_t room) {
  return s.cells() <= kCellsOfBlock && plan_grid_tiles(s, arcs, 8, 1, room).tiles() == 1;
}

// The division of a GPU among the grids of a batch: each team of blocks solves one grid at a time.
struct GridTeams {
  int64_t count;  // of teams
  int blocks;     // of each team

  // A grid in `tiles` tiles, the fewest possible, keeps `tiles` blocks busy. As many teams as have
  // that many blocks work at once: blocks with large tiles do more of their work between two
  // barriers. If teams need several turns, all have about as many; blocks to spare are shared out.
  static GridTeams of(int64_t batch, int tiles, int most_blocks) {
    const int64_t most_teams = tiles < most_blocks ? most_blocks / tiles : 1;
    const int64_t turns = (batch + most_teams - 1) / most_teams;
    const int64_t count = (batch + turns - 1) / turns;
    return {count, int(most_blocks / count)};
  }
};

// Layout of device memory. It has room for tiles of 32-bit numbers (narrow) and for tiles of 64-bit
// numbers (wide).
struct GridCutLayout {
  GridTiling narrow, wide;
  int blocks = 0;
  // Offsets in bytes. Each block's part of a sum comes first.
  int64_t messages = 0, stored = 0, bytes = 0;

  // Two messages per link, because of double buffering, each with two numbers.
  static constexpr int64_t message_bytes(int64_t links, int64_t number) {
    return 2 * links * 2 * number;
  }
  // Excess, arcs and height of each cell; needed if a block has several tiles.
  static constexpr int64_t stored_bytes(int64_t cells, int64_t arcs, int64_t number) {
    return cells * ((arcs + 1) * number + 4);
  }

  static GridCutLayout of(const GridShape& s, int arcs, int most_blocks, int64_t shared) {
    GridCutLayout l{plan_grid_tiles(s, arcs, 4, most_blocks, shared),
                    plan_grid_tiles(s, arcs, 8, most_blocks, shared)};
    const int tiles = l.narrow.tiles() > l.wide.tiles() ? l.narrow.tiles() : l.wide.tiles();
    l.blocks = tiles < most_blocks ? tiles : most_blocks;
    const auto messages = [&](const GridTiling& t, int64_t number) {
      return t.tiles() > 1 ? message_bytes(int64_t(t.tiles()) * t.links(), number) : 0;
    };
    const auto stored = [&](const GridTiling& t, int64_t number) {
      return t.tiles() > l.blocks ? stored_bytes(s.cells(), arcs, number) : 0;
    };
    const auto larger = [](int64_t a, int64_t b) { return ((a > b ? a : b) + 15) / 16 * 16; };
    l.messages = larger(8 * int64_t(l.blocks), 0);
    l.stored = l.messages + larger(messages(l.narrow, 4), messages(l.wide, 8));
    l.bytes = l.stored + larger(stored(l.narrow, 4), stored(l.wide, 8));
    return l;
  }
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_TILING_H_
