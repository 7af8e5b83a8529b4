// The CUDA kernel for k best assignments, run on the CPU: one C function for
// tests/emulation/test_k_best_emulated.py.
#include <algorithm>

#include "cuda_emulator.h"

// The emulator comes first.
#include "k_best/cuda/kernel.cuh"

namespace jaxmatch {
char shared_memory[64 << 10] __attribute__((aligned(16)));
}  // namespace jaxmatch

// `most_bytes` of shared memory.
extern "C" void emulate_k_best(const jaxmatch::k_best::KBestProblem* first, int64_t size,
                               void* workspace, int64_t bytes, int64_t most_bytes, unsigned seed) {
  using namespace jaxmatch::k_best;
  using jaxmatch::shared_memory;
  KBestBatch batch{};
  batch.first = *first;
  batch.workspace = static_cast<char*>(workspace);
  batch.workspace_bytes = bytes;
  const int64_t most = std::min<int64_t>(most_bytes, sizeof shared_memory);
  plan_shared_memory(Bounds(first->n, first->m, first->k), most, &batch);
  std::memset(shared_memory, seed % 2 ? 0x5a : 0xff, sizeof shared_memory);
  emulator::launch(unsigned(size), kThreads, seed, [&] { k_best_kernel(batch); });
}
