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
constexpr int kThreads = 128;  // several warps, each of which costs an emulator time
#else
constexpr int kThreads = 1024;
#endif

// Whether rows are so many more than columns that paths among these are short. (20,000 x 256 take
// 11 % more by paths than by pivots, 20,000 x 64 37 % less.)
JAXMATCH_HOST_DEVICE inline bool has_few_columns(int64_t n, int64_t m) {
  constexpr int64_t kRowsPerColumn = 16, kMostColumns = 128;
  return m <= kMostColumns && n / kRowsPerColumn >= m;
}

// The first problem of a batch, and the memory of all.
struct TransportBatch {
  TransportProblem first;
  int blocks;  // of each problem
  bool tree_in_shared, state_in_shared;
  char* workspace;
  int64_t workspace_bytes;  // of each problem
};

using TransportKernel = void (*)(TransportBatch);

template <class Type>
TransportKernel pick_transport_kernel();

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_KERNELS_H_
