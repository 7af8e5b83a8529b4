// The CUDA kernels for transport problems, run on the CPU: one C function for
// tests/emulation/test_transport_emulated.py.
#include <algorithm>
#include <utility>

#include "cuda_emulator.h"

inline unsigned long long atomicAdd(unsigned long long* at, unsigned long long x) {
  return *at += x, *at - x;
}
inline int atomicExch(int* at, int x) { return std::exchange(*at, x); }

// The emulator comes first.
#include "transport/cuda/kernel.cuh"

namespace jaxmatch::assignment {
char shared_memory[64 << 10] __attribute__((aligned(16)));
}  // namespace jaxmatch::assignment

extern "C" void emulate_transport(const jaxmatch::transport::TransportProblem* first, int64_t size,
                                  void* workspace, int64_t bytes, unsigned seed) {
  using namespace jaxmatch::transport;
  const TransportBatch batch{*first, size, static_cast<char*>(workspace), bytes};
  std::memset(jaxmatch::assignment::shared_memory, seed % 2 ? 0x5a : 0xff, 64 << 10);
  TransportKernel kernel;
  switch (first->cost_dtype) {
    case jaxmatch::Dtype::kF64:
      kernel = transport_kernel<Doubles>;
      break;
    case jaxmatch::Dtype::kS32:
      kernel = transport_kernel<Integers>;
      break;
    case jaxmatch::Dtype::kS64:
      kernel = transport_kernel<LongIntegers>;
      break;
    case jaxmatch::Dtype::kF32:
      kernel = transport_kernel<Floats>;
      break;
    default:
      kernel = transport_kernel<NarrowFloats>;
  }
  emulator::launch(unsigned(size), kThreads, seed, [&] { kernel(batch); });
}
