// What handler.cu and the CUDA kernels of sparse assignment share.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNELS_H_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNELS_H_

#include <cstdint>

#include "sparse_assignment/problem.h"

namespace jaxmatch::sparse_assignment {

// The first problem of a batch, and the memory of all its problems.
struct SparseBatch {
  SparseProblem first;
  int blocks;  // blocks of each problem
  int slots;   // slots of each warp's hash table (see Table)
  bool state_in_shared;
  char* workspace;
  int64_t workspace_bytes;  // size of the workspace of each problem
};

using SparseKernel = void (*)(SparseBatch);

// Threads of a block. kFewThreads is for batches of many small problems.
constexpr int kManyThreads = 512, kFewThreads = 128;

template <int kThreads>
SparseKernel pick_sparse_kernel();

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_KERNELS_H_
