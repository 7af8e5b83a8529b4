// Links, which are arcs across the border of a tile, and the messages that two tiles exchange along
// them.
#ifndef JAXMATCH_GRID_CUT_CUDA_BORDERS_CUH_
#define JAXMATCH_GRID_CUT_CUDA_BORDERS_CUH_

#include <cstdint>

#include "grid_cut/cuda/tiling.h"

namespace jaxmatch::grid_cut {

template <int kArcs>
__device__ inline GridLink link_of(const GridTiling& t, GridPlace p, int j) {
  const GridStep in = grid_step<kArcs>(j), s = t.tile_step(p);
  // The inner end of the link, in the coordinates of the neighbouring tile, where it is a halo
  // cell.
  const GridPlace back{p.z + in.z - s.z * t.size_z, p.y + in.y - s.y * t.size_y,
                       p.x + in.x - s.x * t.size_x()};
  const int distance = t.link<kArcs>(back, opposite<kArcs>(j)) - t.link<kArcs>(p, j);
  const int tiles = (s.z * t.count_y + s.y) * t.count_x + s.x;
  const int halo = t.at(p), beside = (s.z + 1) * 9 + (s.y + 1) * 3 + s.x + 1;
  return {uint16_t(halo), uint16_t(halo + t.offset(in)), int8_t(j), int8_t(beside),
          tiles * t.links() + distance};
}

// Finds all links of a tile; they are the same for every tile. Not inlined, because the function
// needs many registers but runs only once.
template <int kArcs>
__device__ __noinline__ void find_links(const GridTiling& t, GridLink* links) {
  for (int l = threadIdx.x; l < t.links(); l += blockDim.x) links[l].direction = -1;
  __syncthreads();
  for (int i = threadIdx.x; i < t.halo() * kArcs; i += blockDim.x) {
    const GridPlace p = t.halo_place(i / kArcs);
    const int j = i % kArcs;
    if (t.leads_inside(p, grid_step<kArcs>(j)))
      links[t.link<kArcs>(p, j)] = link_of<kArcs>(t, p, j);
  }
  __syncthreads();
}

// A message across a link: the amount pushed out of the tile, and the height of the link's cell.
template <class T>
struct alignas(2 * sizeof(T)) GridMessage {
  T sent;
  int32_t height;
};
template <class T>
__device__ inline void write_message(GridMessage<T>* at, GridMessage<T> m) {
  if constexpr (sizeof(T) == 4) {
    __stcg(reinterpret_cast<int2*>(at), make_int2(m.sent, m.height));
  } else {
    __stcg(reinterpret_cast<longlong2*>(at), make_longlong2(m.sent, m.height));
  }
}
template <class T>
__device__ inline GridMessage<T> read_message(const GridMessage<T>* at) {
  if constexpr (sizeof(T) == 4) {
    const int2 m = __ldcg(reinterpret_cast<const int2*>(at));
    return {m.x, m.y};
  } else {
    const longlong2 m = __ldcg(reinterpret_cast<const longlong2*>(at));
    return {T(m.x), int32_t(m.y)};
  }
}

}  // namespace jaxmatch::grid_cut

#endif  // JAXMATCH_GRID_CUT_CUDA_BORDERS_CUH_
