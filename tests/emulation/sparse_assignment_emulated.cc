// The CUDA kernel of sparse assignment, run on the CPU: one C function for
// tests/emulation/test_sparse_assignment_emulated.py.
#include <algorithm>
#include <utility>

#include "cuda_emulator.h"

#define JAXMATCH_EMULATED

inline void __threadfence() {}
inline int atomicExch(int* at, int x) { return std::exchange(*at, x); }
inline int atomicCAS(int* at, int expected, int x) {
  return *at == expected ? std::exchange(*at, x) : *at;
}

namespace jaxmatch {
inline void atomic_add_release(uint64_t* at, uint64_t x) { *at += x; }
inline uint64_t load_acquire(const uint64_t* at) {
  emulator::yield();
  return *at;
}
}  // namespace jaxmatch

inline float __double2float_ru(double x) {
  const float y = float(x);
  return double(y) < x ? std::nextafterf(y, HUGE_VALF) : y;
}

// The emulator comes first.
#include "nearest/cuda/nearest.cuh"
#include "sparse_assignment/cuda/kernel.cuh"
#include "sparse_assignment/cuda/near_pairs.cuh"

namespace jaxmatch {
char shared_memory[180 << 10] __attribute__((aligned(16)));
}  // namespace jaxmatch

namespace {

template <int kThreads>
void run(const jaxmatch::sparse_assignment::SparseProblem& first, int64_t size, int blocks,
         int slots, void* workspace, int64_t bytes, unsigned seed) {
  using namespace jaxmatch::sparse_assignment;
  using jaxmatch::shared_memory;
  SparseBatch batch{};
  batch.first = first;
  batch.blocks = blocks;
  batch.workspace = static_cast<char*>(workspace);
  batch.workspace_bytes = bytes;
  batch.slots = slots;
  const int64_t state = Workspace(nullptr, first.n, first.m, first.capacity).move_state(nullptr);
  const int64_t tables =
      int64_t(sizeof(Shared<kThreads>)) + Shared<kThreads>::bytes_of_tables(slots);
  const int64_t all_bytes = tables + state;
  batch.state_in_shared =
      blocks == 1 && seed % 2 == 0 && all_bytes <= int64_t(sizeof shared_memory);
  for (int64_t k = 0; k < size; ++k) {
    *Workspace(batch.workspace + k * bytes, first.n, first.m, first.capacity).arrivals = 0;
  }
  std::memset(shared_memory, seed % 2 ? 0x5a : 0xff, sizeof shared_memory);
  const SparseKernel kernel = pick_sparse_kernel<kThreads>();
  const unsigned all = unsigned(size) * unsigned(blocks);
  if (blocks == 1) {
    emulator::launch(all, kThreads, seed, [&] { kernel(batch); });
  } else {
    emulator::launch_together(all, kThreads, seed, shared_memory, size_t(tables),
                              [&] { kernel(batch); });
  }
}

}  // namespace

// `blocks` of each problem.
extern "C" void emulate_sparse_assignment(const jaxmatch::sparse_assignment::SparseProblem* first,
                                          int64_t size, int blocks, int threads, int slots,
                                          void* workspace, int64_t bytes, unsigned seed) {
  switch (threads) {
    case 64:
      return run<64>(*first, size, blocks, slots, workspace, bytes, seed);
    case 128:
      return run<128>(*first, size, blocks, slots, workspace, bytes, seed);
    default:
      return run<512>(*first, size, blocks, slots, workspace, bytes, seed);
  }
}

// Of one problem: counts pairs, or writes those of `row_ptr`.
template <class T>
void run_near(const jaxmatch::sparse_assignment::NearPairs<T>& pairs, int blocks, unsigned seed) {
  emulator::launch(unsigned(blocks), 64, seed,
                   [&] { jaxmatch::sparse_assignment::near_pairs_kernel<T>(pairs, 1); });
}
extern "C" void emulate_near_pairs(bool is_double, const void* pairs, int blocks, unsigned seed) {
  using jaxmatch::sparse_assignment::NearPairs;
  if (is_double) {
    run_near(*static_cast<const NearPairs<double>*>(pairs), blocks, seed);
  } else {
    run_near(*static_cast<const NearPairs<float>*>(pairs), blocks, seed);
  }
}

template <class Real>
void run_nearest(const jaxmatch::nearest::Launch& launch, unsigned blocks, unsigned seed) {
  using namespace jaxmatch::nearest;
  emulator::launch(blocks, kThreads, seed, [&] { nearest_kernel<Real>(launch); });
}
extern "C" void emulate_nearest(const jaxmatch::nearest::NearestProblem* first, int64_t batch,
                                int lanes, unsigned seed) {
  using namespace jaxmatch;
  nearest::Launch launch{*first, 0, lanes};
  const int64_t rows = int64_t(nearest::kThreads / lanes) * nearest::kRows;
  launch.blocks = (first->n + rows - 1) / rows;
  const unsigned blocks = unsigned(batch * launch.blocks);
  const bool squares = first->metric == Metric::kSqeuclidean || first->metric == Metric::kL1;
  if (first->dtype == Dtype::kF32 && squares) return run_nearest<float>(launch, blocks, seed);
  run_nearest<double>(launch, blocks, seed);
}
