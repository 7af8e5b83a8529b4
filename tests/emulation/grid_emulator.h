// Functions of kernels with a cooperative launch, in addition to cuda_emulator.h: accesses to
// memory that several blocks share. Each access yields to other threads at random.
#pragma once

#include <algorithm>

#include "cuda_emulator.h"

#define __CUDACC__ 1
#define JAXMATCH_EMULATED

namespace emulator {
inline std::mt19937 interruptions;
inline void perhaps_yield() {
  if (interruptions() % 8 == 0) yield();
}
template <class T>
T exchanged(T* at, T x) {
  const T old = *at;
  *at = x;
  return old;
}
}  // namespace emulator

template <class T>
T __ldcg(const T* at) {
  emulator::perhaps_yield();
  return *at;
}
template <class T>
void __stcg(T* at, T x) {
  *at = x;
  emulator::perhaps_yield();
}
inline void __syncthreads() { emulator::barrier(0, emulator::block_dim.x, false); }
inline void __threadfence() { emulator::perhaps_yield(); }
inline uint32_t __reduce_or_sync(unsigned, uint32_t x) {
  return emulator::reduce(kReduceOr, x, [](uint32_t a, uint32_t b) { return a | b; });
}

namespace jaxmatch {
template <class T>
T load_acquire(const T* at) {
  emulator::yield();
  return *at;
}
}  // namespace jaxmatch
