// The CUDA kernels for transport problems, run on the CPU: one C function for
// tests/emulation/test_transport_emulated.py.
#include <algorithm>
#include <utility>

#include "cuda_emulator.h"

#define JAXMATCH_EMULATED

inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  return *at += x, *at - x;
}
inline int atomicCAS(int* at, int expected, int x) {
  const int found = *at;
  if (found == expected) *at = x;
  return found;
}
inline unsigned atomicAdd(unsigned* at, unsigned x) { return *at += x, *at - x; }
inline int atomicExch(int* at, int x) { return std::exchange(*at, x); }
inline void __threadfence() {}

namespace jaxmatch {
inline void atomic_add_release(uint64_t* at, uint64_t x) { *at += x; }
inline uint64_t load_acquire(const uint64_t* at) {
  emulator::yield();
  return *at;
}
}  // namespace jaxmatch

inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float __fdividef(float a, float b) { return a / b; }
inline int64_t __float2ll_rn(float x) { return int64_t(std::rint(x)); }
inline unsigned __float2uint_rn(float x) { return unsigned(std::rint(x)); }

// The emulator comes first.
#include "transport/cuda/kernel.cuh"
#undef JAXMATCH_INSTANCE
#include "transport/cuda/pick.h"
#include "transport/cuda/small.cuh"

namespace jaxmatch {
char shared_memory[160 << 10] __attribute__((aligned(16)));
}  // namespace jaxmatch

// `blocks` of each problem; `one_warp`: the kernel for small problems comes first. Returns how many
// problems it left.
extern "C" int64_t emulate_transport(const jaxmatch::transport::TransportProblem* first,
                                     int64_t size, int blocks, bool one_warp, void* workspace,
                                     int64_t bytes, unsigned seed) {
  using namespace jaxmatch::transport;
  using jaxmatch::shared_memory;
  const int64_t n = first->n, m = first->m;
  int64_t shared_bytes = int64_t(sizeof(Shared));
  const auto fits = [&](int64_t more, bool may) {
    const bool yes = shared_bytes + more <= int64_t(sizeof shared_memory) && may;
    if (yes) shared_bytes += more;
    return yes;
  };
  const bool often = seed % 3 != 2;
  TransportBatch batch{};
  batch.first = *first;
  batch.size = size;
  batch.blocks = blocks;
  const int64_t few = few_columns_bytes(n, m, false);
  if (few > 0 && fits(few, true)) {
    batch.lengths_in_shared = fits(few_columns_bytes(n, m, true) - few, often);
    batch.few_bytes = few_columns_bytes(n, m, batch.lengths_in_shared);
  }
  batch.tree_in_shared = fits(tree_bytes(n + m + 1), often);
  batch.state_in_shared =
      blocks == 1 && fits(Workspace(nullptr, n, m).move_state(nullptr, n, m), often);
  batch.workspace = static_cast<char*>(workspace);
  batch.workspace_bytes = bytes;
  for (int64_t k = 0; k < size; ++k) {
    const Workspace w(batch.workspace + k * bytes, first->n, first->m);
    *w.arrivals = 0;
  }
  const char pattern = seed % 2 ? 0x5a : char(0xff);
  const auto forget = [&] { std::memset(shared_memory, pattern, sizeof shared_memory); };
  // Nothing behind what a launch asks for may be written.
  const auto check = [&](int64_t bytes) {
    const char *const begin = shared_memory + bytes, *const end = std::end(shared_memory);
    if (std::any_of(begin, end, [&](char x) { return x != pattern; })) {
      std::fprintf(stderr, "written behind the shared memory\n");
      std::abort();
    }
  };
  const TransportKernel small = one_warp ? small_transport_kernel_for(*first) : nullptr;
  batch.only_left = small != nullptr;
  int64_t left = size;
  if (small) {
    forget();
    emulator::launch(unsigned(size), emulator::kLanes, seed, [&] { small(batch); });
    check(int64_t(sizeof(Shared)) + 8 * SmallMemory{n, m}.shared_words());
    left = std::count(first->status, first->status + size, kLeft);
  }
  forget();
  const TransportKernel kernel = transport_kernel_for(*first);
  const int threads = threads_for(n, m);
  // Some teams take several problems.
  const unsigned teams = unsigned(seed % 2 ? size : (size + 1) / 2);
  if (blocks == 1) {
    emulator::launch(teams, threads, seed, [&] { kernel(batch); });
    check(shared_bytes);
  } else {
    emulator::launch_together(teams * unsigned(blocks), threads, seed, shared_memory,
                              size_t(shared_bytes), [&] { kernel(batch); });
  }
  return left;
}
