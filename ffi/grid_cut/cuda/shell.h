// The shell of a box: the cells around it that touch it, also across its edges and corners.
#ifndef JAXMATCH_GRID_CUT_CUDA_SHELL_H_
#define JAXMATCH_GRID_CUT_CUDA_SHELL_H_

#include "common/host_device.h"

namespace jaxmatch::grid_cut {

struct GridPlace {
  int z, y, x;
};

// The box has the coordinates 1 .. x, 1 .. y and 1 .. z; those of its shell begin at 0. Cells of
// the shell are numbered like this: the slabs below and above the box, then ring after ring.
struct GridShell {
  int x, y, z;

  JAXMATCH_HOST_DEVICE int row() const { return x + 2; }
  JAXMATCH_HOST_DEVICE int slab() const { return row() * (y + 2); }
  JAXMATCH_HOST_DEVICE int ring() const { return 2 * row() + 2 * y; }
  JAXMATCH_HOST_DEVICE int size() const { return 2 * slab() + z * ring(); }

  JAXMATCH_HOST_DEVICE GridPlace place(int q) const {
    if (q < 2 * slab()) {
      const int r = q < slab() ? q : q - slab();
      return {q < slab() ? 0 : z + 1, r / row(), r % row()};
    }
    q -= 2 * slab();
    const int level = q / ring() + 1, r = q % ring();
    if (r < 2 * row()) return {level, r < row() ? 0 : y + 1, r % row()};
    const int side = r - 2 * row();
    return {level, side / 2 + 1, side % 2 == 0 ? 0 : x + 1};
  }
  // Inverse of place().
  JAXMATCH_HOST_DEVICE int index(GridPlace p) const {
    if (p.z == 0 || p.z == z + 1) return (p.z == 0 ? 0 : slab()) + p.y * row() + p.x;
    const int first = 2 * slab() + (p.z - 1) * ring();
    if (p.y == 0 || p.y == y + 1) return first + (p.y == 0 ? 0 : row()) + p.x;
    return first + 2 * row() + 2 * (p.y - 1) + (p.x == 0 ? 0 : 1);
  }
};

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_SHELL_H_
