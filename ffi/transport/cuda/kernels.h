// The kernels for transport problems, one for each type of costs.
#ifndef JAXMATCH_CUDA_TRANSPORT_KERNELS_H_
#define JAXMATCH_CUDA_TRANSPORT_KERNELS_H_

#include <cstdint>

#include "common/host_device.h"
#include "transport/cpu/problem.h"

namespace jaxmatch {
struct Floats;
struct Doubles;
struct Integers;
struct LongIntegers;
}  // namespace jaxmatch

namespace jaxmatch::transport {

// bfloat16 and float16; distances between points.
struct NarrowFloats;
struct FloatPoints;
struct DoublePoints;

#ifdef JAXMATCH_EMULATED
constexpr int kThreads = 128;  // of a block, at most; each warp costs an emulator time
#else
constexpr int kThreads = 1024;
#endif
constexpr int kLeastThreads = 32;

// A thread for each node, up to `kThreads`. The number must not depend on the size of the batch, as
// sums of floats depend on the number of threads.
JAXMATCH_HOST_DEVICE inline int threads_for(int64_t n, int64_t m) {
  int threads = kLeastThreads;
  while (threads < kThreads && threads < n + m) threads *= 2;
  return threads;
}

// A kernel of one warp for each problem comes first where neither side is longer than this, but for
// costs of 64-bit integers. Its status says which problems it has left to the other kernel.
constexpr int kMostSmall = 128;
constexpr int32_t kLeft = -1;

JAXMATCH_HOST_DEVICE inline bool is_small(int64_t n, int64_t m) {
  return n <= kMostSmall && m <= kMostSmall;
}

// The first problem of a batch, and the memory of all.
struct TransportBatch {
  TransportProblem first;
  int64_t size;
  int blocks;         // of each problem
  bool only_left;     // by the other kernel
  int64_t few_bytes;  // of shared memory for few columns; 0 if there are many, or it does not fit
  bool lengths_in_shared, tree_in_shared, state_in_shared;
  char* workspace;
  int64_t workspace_bytes;  // of each problem
};

using TransportKernel = void (*)(TransportBatch);

template <class Type>
TransportKernel pick_transport_kernel();
// The type of costs that the kernel for small problems has. Costs that are computed or converted on
// each access are first written to the workspace.
template <class Type>
struct WrittenOf {
  using Written = Type;
};
template <>
struct WrittenOf<NarrowFloats> {
  using Written = Floats;
};
template <>
struct WrittenOf<FloatPoints> {
  using Written = Floats;
};
template <>
struct WrittenOf<DoublePoints> {
  using Written = Doubles;
};
template <class Written>
TransportKernel pick_small_transport_kernel(int64_t n, int64_t m);

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_KERNELS_H_
