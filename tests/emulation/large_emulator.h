// CUDA functions that a GridTeam needs beyond grid_emulator.h: atomics, and communication between
// blocks.
#ifndef JAXMATCH_TESTS_LARGE_EMULATOR_H_
#define JAXMATCH_TESTS_LARGE_EMULATOR_H_

#include "grid_emulator.h"

template <class T>
T atomicMin(T* at, T x) {
  return emulator::exchanged(at, std::min(*at, x));
}
template <class T>
T atomicMax(T* at, T x) {
  return emulator::exchanged(at, std::max(*at, x));
}
inline unsigned atomicAdd(unsigned* at, unsigned x) { return emulator::exchanged(at, *at + x); }
inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  emulator::perhaps_yield();
  return emulator::exchanged(at, *at + x);
}
inline unsigned atomicExch(unsigned* at, unsigned x) { return emulator::exchanged(at, x); }
inline int atomicCAS(int* at, int expected, int x) {
  emulator::perhaps_yield();
  return emulator::exchanged(at, *at == expected ? x : *at);
}
inline void __threadfence_block() { emulator::perhaps_yield(); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
namespace jaxmatch {
inline void atomic_add_release(uint64_t* at, uint64_t x) { *at += x; }
template <class T>
void atomic_min_relaxed(T* at, T x) {
  atomicMin(at, x);
}
inline int64_t nanoseconds() { return 0; }
}  // namespace jaxmatch

#endif  // JAXMATCH_TESTS_LARGE_EMULATOR_H_
