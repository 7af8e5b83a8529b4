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

// Types of costs: NarrowFloats are bfloat16 or float16, the others are distances between points.
struct NarrowFloats;
struct FloatPoints;
struct DoublePoints;

#ifdef JAXMATCH_EMULATED
constexpr int kThreads = 128;  // most threads of a block; few, because an emulator is slow
#else
constexpr int kThreads = 1024;
#endif
constexpr int kLeastThreads = 32;

// The number of threads of a block: enough for one thread per row and column, up to `kThreads`. It
// must not depend on the size of the batch: sums of floats depend on the number of threads, so a
// problem would have other results in another batch.
JAXMATCH_HOST_DEVICE inline int threads_for(int64_t n, int64_t m) {
  int threads = kLeastThreads;
  while (threads < kThreads && threads < n + m) threads *= 2;
  return threads;
}

// If a problem has at most this many rows and columns, a kernel with one warp per problem runs
// first, except for 64-bit integer costs. It sets the status kLeft for problems that the kernel
// with a team of blocks must solve.
constexpr int kMostSmall = 128;
constexpr int32_t kLeft = -1;

JAXMATCH_HOST_DEVICE inline bool is_small(int64_t n, int64_t m) {
  return n <= kMostSmall && m <= kMostSmall;
}

// A batch: its first problem, and the memory of all problems.
struct TransportBatch {
  TransportProblem first;
  int64_t size;
  int blocks;      // per problem
  bool only_left;  // solve only problems with status kLeft
  // Bytes of shared memory for few columns; 0 if they do not fit, or if columns are many.
  int64_t few_bytes;
  bool lengths_in_shared, tree_in_shared, state_in_shared;
  char* workspace;
  int64_t workspace_bytes;  // per problem
};

using TransportKernel = void (*)(TransportBatch);

template <class Type>
TransportKernel pick_transport_kernel();
// For each type of costs, the type that the kernel for small problems reads. If costs would be
// computed or converted on each access, this kernel first writes them to the workspace, as this
// type.
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
