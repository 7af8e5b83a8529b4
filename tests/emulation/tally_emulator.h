// Emulation for kernels on the Grid of ffi/common/cuda/grid.cuh: vector types, atomics, and a
// barrier for all blocks.
#pragma once

#include "grid_emulator.h"

struct int2 {
  int x, y;
};
struct int4 {
  int x, y, z, w;
};

inline int atomicCAS(int* at, int expected, int x) {
  emulator::perhaps_yield();
  return *at == expected ? emulator::exchanged(at, x) : *at;
}
inline long long clock64() {
  static long long clock;
  return clock += 100;
}

namespace jaxmatch {
inline unsigned long arrived = 0;  // arrivals of blocks, over all barriers of a launch
inline void grid_barrier() {
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned long all = (arrived / gridDim.x + 1) * gridDim.x;
    for (++arrived; arrived < all;) emulator::yield();
  }
  __syncthreads();
}
inline int2 poll(const void* at) {
  emulator::yield();
  return *static_cast<const int2*>(at);
}
inline int32_t take_place(int32_t* count) { return atomicAdd(count, 1); }
inline void prefetch(const void*) {}
}  // namespace jaxmatch
