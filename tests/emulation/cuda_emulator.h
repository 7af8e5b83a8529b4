// Runs CUDA kernels on the CPU, to test them where there is no GPU: included before a kernel's
// header, it stands in for the language extensions and functions that the kernels use.
//
// A thread is a fiber. Fibers of a block take turns in a random order and switch at every warp-wide
// function and barrier, so that a result that depends on the speed of warps differs between seeds.
// All 32 lanes of a warp must be converged at warp-wide functions. If lanes call different
// functions, or if some threads do not reach a barrier, the process ends with a message. Memory is
// sequentially consistent here: errors of memory order do not show.
#pragma once

#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <type_traits>
#include <utility>
#include <vector>

#define __device__
#define __host__
#define __global__
#define __shared__
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))

struct Dim {
  unsigned x = 0;
};

namespace emulator {

constexpr int kLanes = 32;

struct Fiber;

// Exchange between the lanes of a warp.
struct Warp {
  int operation = 0;
  std::vector<Fiber*> arrived;
  uint64_t given[kLanes], taken[kLanes];
  int other[kLanes];  // a lane
};

struct Barrier {
  std::vector<Fiber*> arrived;
  unsigned set = 0, all_set = 0;  // threads with a set flag, of this use and of the last one
};

struct Fiber {
  ucontext_t context;  // of its start; afterwards it continues at `at`
  jmp_buf at;
  bool begun = false;
  std::unique_ptr<char[]> stack;
  int thread = 0;
  enum { kReady, kWaiting, kDone } state = kReady;
};

struct Block {
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  Barrier barriers[16];
  jmp_buf scheduler;
  Fiber* running = nullptr;
  std::vector<Fiber*> ready;  // the others wait for a warp or at a barrier, or are done
  int left = 0;               // fibers that are not done
  std::vector<char> shared;
  unsigned index = 0;
  unsigned long progress = 0;  // arrivals and ends of threads
};

inline Block* block;
inline Dim block_idx, block_dim, grid_dim;

inline Dim thread_idx() { return {unsigned(block->running->thread)}; }

// Fibers switch by _longjmp, since each swapcontext is a system call for the signal mask.
[[gnu::noinline]] inline void yield() {
  if (_setjmp(block->running->at) == 0) _longjmp(block->scheduler, 1);
}

[[gnu::noinline]] inline void resume(Fiber& fiber) {
  if (_setjmp(block->scheduler) != 0) return;
  if (fiber.begun) _longjmp(fiber.at, 1);
  fiber.begun = true;
  setcontext(&fiber.context);
}

[[noreturn]] inline void fail(const char* message) {
  std::fprintf(stderr, "emulated kernel, block %u, thread %d: %s\n", block_idx.x,
               block->running ? block->running->thread : -1, message);
  std::abort();
}

// Leaves a warp-wide function or a barrier once `count` fibers are there. Who waits takes no turns.
template <class Last>
void gather(std::vector<Fiber*>& arrived, int count, const Last& last) {
  ++block->progress;
  block->running->state = Fiber::kWaiting;
  arrived.push_back(block->running);
  if (int(arrived.size()) == count) {
    last();
    for (Fiber* fiber : arrived) {
      fiber->state = Fiber::kReady;
      if (fiber != block->running) block->ready.push_back(fiber);
    }
    arrived.clear();
  }
  // Always yields, so that no thread runs ahead of a memory access that is not synchronised.
  yield();
}

// One warp-wide function: the last lane to arrive computes the results of all lanes.
template <class Compute>
uint64_t converge(int operation, uint64_t given, int other, const Compute& compute) {
  Warp& warp = block->warps[block->running->thread / kLanes];
  const int lane = block->running->thread % kLanes;
  if (warp.arrived.empty()) {
    warp.operation = operation;
  } else if (warp.operation != operation) {
    fail("lanes of a warp call different functions");
  }
  warp.given[lane] = given;
  warp.other[lane] = other;
  gather(warp.arrived, kLanes, [&] { compute(warp); });
  return warp.taken[lane];
}

template <class T, class Combine>
T reduce(int operation, T x, const Combine& combine) {
  return T(converge(operation, uint64_t(std::make_unsigned_t<T>(x)), 0, [&](Warp& warp) {
    T all = T(warp.given[0]);
    for (int lane = 1; lane < kLanes; ++lane) all = combine(all, T(warp.given[lane]));
    for (uint64_t& taken : warp.taken) taken = uint64_t(std::make_unsigned_t<T>(all));
  }));
}

template <class T>
T move(int operation, T x, int lane) {
  uint64_t bits = 0;
  std::memcpy(&bits, &x, sizeof x);
  bits = converge(operation, bits, lane, [](Warp& warp) {
    for (int i = 0; i < kLanes; ++i) {
      const int from = warp.other[i];
      warp.taken[i] = warp.given[from >= 0 && from < kLanes ? from : i];
    }
  });
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline unsigned barrier(unsigned id, unsigned count, bool x) {
  Barrier& b = block->barriers[id];
  b.set += x;
  gather(b.arrived, int(count), [&] { b.all_set = std::exchange(b.set, 0); });
  return b.all_set;
}

inline void start(Block& home, unsigned index, int threads, void (*body)()) {
  constexpr size_t kStack = 64 << 10;
  home.index = index;
  home.left = threads;
  home.fibers.resize(size_t(threads));
  home.warps.resize(size_t(threads + kLanes - 1) / kLanes);
  for (int thread = 0; thread < threads; ++thread) {
    Fiber& fiber = home.fibers[size_t(thread)];
    fiber.thread = thread;
    fiber.stack.reset(new char[kStack]);
    getcontext(&fiber.context);
    fiber.context.uc_stack.ss_sp = fiber.stack.get();
    fiber.context.uc_stack.ss_size = kStack;
    fiber.context.uc_link = nullptr;  // a body never returns
    makecontext(&fiber.context, body, 0);
    home.ready.push_back(&fiber);
  }
}

// Resumes every fiber that is ready once, except those of warps that are `slow` now.
template <class Slow>
void run_pass(Block& home, std::mt19937& random, const Slow& slow) {
  block = &home;
  block_idx.x = home.index;
  static std::vector<Fiber*> turns;
  turns.swap(home.ready);
  home.ready.clear();
  std::shuffle(turns.begin(), turns.end(), random);
  for (Fiber* fiber : turns) {
    if (!slow(fiber->thread / kLanes)) {
      home.running = fiber;
      resume(*fiber);
    }
    if (fiber->state == Fiber::kReady) home.ready.push_back(fiber);
  }
}

// The entry function of a fiber. The kernel is static, since makecontext passes integers only.
template <class Kernel>
void (*body_of(const Kernel& kernel))() {
  static const Kernel* body;
  body = &kernel;
  return +[] {
    (*body)();
    block->running->state = Fiber::kDone;
    --block->left;
    ++block->progress;
    _longjmp(block->scheduler, 1);
  };
}

// Runs `kernel` for every block of a grid, with `threads` threads each. `seed` determines the order
// of fibers.
template <class Kernel>
void launch(unsigned blocks, int threads, unsigned seed, const Kernel& kernel) {
  std::mt19937 random(seed);
  block_dim.x = unsigned(threads);
  grid_dim.x = blocks;
  for (unsigned index = 0; index < blocks; ++index) {
    Block here;
    start(here, index, threads, body_of(kernel));
    while (here.left > 0) {
      const unsigned long before = here.progress;
      run_pass(here, random, [](int) { return false; });
      if (here.progress == before && here.left > 0) fail("nobody can go on");
    }
  }
}

// The same as a cooperative launch: all blocks run at once. Each has its own copy of the `bytes` at
// `shared`, and warps are randomly slow or fast for some passes.
template <class Kernel>
void launch_together(unsigned blocks, int threads, unsigned seed, char* shared, size_t bytes,
                     const Kernel& kernel) {
  std::mt19937 random(seed);
  block_dim.x = unsigned(threads);
  grid_dim.x = blocks;
  std::vector<Block> grid(blocks);
  for (unsigned index = 0; index < blocks; ++index) {
    start(grid[index], index, threads, body_of(kernel));
    grid[index].shared.assign(bytes, char(0xee));
  }
  const unsigned warps = unsigned(threads) / kLanes;
  std::vector<unsigned> slowness(size_t(blocks) * warps);
  int left = 1;
  for (unsigned pass = 0; left > 0; ++pass) {
    if (pass % 64 == 0) {
      for (unsigned& every : slowness) every = random() % 4 == 0 ? 1 + random() % 12 : 1;
    }
    if (pass > 4'000'000) fail("this does not end");
    left = 0;
    for (unsigned k = 0, first = unsigned(random() % blocks); k < blocks; ++k) {
      Block& home = grid[(first + k) % blocks];
      left += home.left;
      if (home.ready.empty()) continue;
      std::memcpy(shared, home.shared.data(), bytes);
      run_pass(home, random,
               [&](int warp) { return pass % slowness[home.index * warps + unsigned(warp)] != 0; });
      std::memcpy(home.shared.data(), shared, bytes);
    }
  }
}

}  // namespace emulator

#define threadIdx emulator::thread_idx()
#define blockIdx emulator::block_idx
#define blockDim emulator::block_dim
#define gridDim emulator::grid_dim

enum { kReduceMin = 1, kReduceMax, kReduceAdd, kReduceOr, kBallot, kShuffle, kSyncWarp };

template <class T>
T __reduce_min_sync(unsigned, T x) {
  return emulator::reduce(kReduceMin, x, [](T a, T b) { return b < a ? b : a; });
}
template <class T>
T __reduce_max_sync(unsigned, T x) {
  return emulator::reduce(kReduceMax, x, [](T a, T b) { return a < b ? b : a; });
}
template <class T>
T __reduce_add_sync(unsigned, T x) {
  return emulator::reduce(kReduceAdd, x, [](T a, T b) { return T(a + b); });
}
inline unsigned __ballot_sync(unsigned, bool x) {
  return unsigned(emulator::converge(kBallot, x, 0, [](emulator::Warp& warp) {
    uint64_t all = 0;
    for (int lane = 0; lane < emulator::kLanes; ++lane) all |= warp.given[lane] << lane;
    for (uint64_t& taken : warp.taken) taken = all;
  }));
}
inline bool __any_sync(unsigned mask, bool x) { return __ballot_sync(mask, x) != 0; }
template <class T>
T __shfl_sync(unsigned, T x, int lane) {
  return emulator::move(kShuffle, x, lane);
}
template <class T>
T __shfl_down_sync(unsigned, T x, int step) {
  return emulator::move(kShuffle, x, emulator::block->running->thread % 32 + step);
}
template <class T>
T __shfl_xor_sync(unsigned, T x, int step) {
  return emulator::move(kShuffle, x, emulator::block->running->thread % 32 ^ step);
}
template <class T>
T __shfl_up_sync(unsigned, T x, int step) {
  const int lane = emulator::block->running->thread % 32;
  return emulator::move(kShuffle, x, lane < step ? lane : lane - step);
}
inline void __syncwarp() {
  emulator::converge(kSyncWarp, 0, 0, [](emulator::Warp&) {});
}
inline void __barrier_sync_count(unsigned id, unsigned count) {
  emulator::barrier(id, count, false);
}
inline float min_or_nan(float a, float b) { return std::isnan(a) || b < a ? a != a ? a : b : a; }
inline void prefetch_to_l1(const void*) {}
inline unsigned barrier_popc(unsigned id, unsigned count, bool x) {
  return emulator::barrier(id, count, x);
}

inline int atomicAdd(int* at, int x) { return *at += x, *at - x; }
inline int atomicMin(int* at, int x) {
  const int old = *at;
  *at = x < old ? x : old;
  return old;
}
inline unsigned atomicMin(unsigned* at, unsigned x) {
  const unsigned old = *at;
  *at = x < old ? x : old;
  return old;
}
inline unsigned long long atomicMin(unsigned long long* at, unsigned long long x) {
  const unsigned long long old = *at;
  *at = x < old ? x : old;
  return old;
}
inline int atomicMax(int* at, int x) {
  const int old = *at;
  *at = x > old ? x : old;
  return old;
}
inline long long atomicMin(long long* at, long long x) {
  const long long old = *at;
  *at = old < x ? old : x;
  return old;
}
inline long long atomicMax(long long* at, long long x) {
  const long long old = *at;
  *at = old > x ? old : x;
  return old;
}
inline unsigned atomicOr(unsigned* at, unsigned x) {
  const unsigned old = *at;
  *at |= x;
  return old;
}

inline int __clzll(long long x) {
  return x == 0 ? 64 : __builtin_clzll(static_cast<unsigned long long>(x));
}
inline int __ffs(unsigned x) { return __builtin_ffs(int(x)); }
inline int __popc(unsigned x) { return __builtin_popcount(x); }
template <class To, class From>
To bits_as(From x) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &x, sizeof to);
  return to;
}
inline float __uint_as_float(uint32_t x) { return bits_as<float>(x); }
inline float __int_as_float(int32_t x) { return bits_as<float>(x); }
inline uint32_t __float_as_uint(float x) { return bits_as<uint32_t>(x); }
inline int32_t __float_as_int(float x) { return bits_as<int32_t>(x); }
inline double __longlong_as_double(int64_t x) { return bits_as<double>(x); }
inline int64_t __double_as_longlong(double x) { return bits_as<int64_t>(x); }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }

template <class A, class B>
std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  return T(b) < T(a) ? T(b) : T(a);
}
template <class A, class B>
std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  return T(a) < T(b) ? T(b) : T(a);
}
using std::fmax;
using std::fmin;
using std::ilogb;
using std::isfinite;
using std::ldexp;
using std::rint;
