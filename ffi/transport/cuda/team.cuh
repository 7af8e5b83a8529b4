// The threads that solve a transport problem together: those of one block, or of several blocks
// that run at once.
#ifndef JAXMATCH_CUDA_TRANSPORT_TEAM_CUH_
#define JAXMATCH_CUDA_TRANSPORT_TEAM_CUH_

#include "assignment/cuda/costs.cuh"
#include "assignment/cuda/group.cuh"
#include "common/cuda/memory_order.cuh"
#include "transport/cuda/kernels.h"
#include "transport/cuda/workspace.h"

namespace jaxmatch::transport {

using assignment::from_ordered_bits, assignment::ordered_bits;
using assignment::kAllLanes, assignment::kWarpSize, assignment::keep_loads_together;
using assignment::lanes_below;

// bfloat16 and float16.
struct NarrowFloats : Floats {};

constexpr int kWarps = kThreads / kWarpSize;  // of a block
constexpr int32_t kNone = -1;                 // no row, column, node or holding
constexpr double kFar = __builtin_huge_val();
constexpr float kFarFloat = __builtin_huge_valf();

__device__ inline int64_t atomic_add(int64_t* at, int64_t x) {
  return int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)(x)));
}

// The two least reduced costs of a row, and the column of the first; on equal ones the first.
struct TwoLeast {
  float least = kFarFloat, next = kFarFloat;
  int32_t col = INT32_MAX;

  // Columns must come in order.
  __device__ void include(float x, int32_t j) {
    const bool better = x < least;
    next = fminf(next, better ? least : x);
    col = better ? j : col;
    least = better ? x : least;
  }
  // Of all lanes; every lane gets it.
  __device__ void merge() {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(kAllLanes, least, step),
                  other_next = __shfl_xor_sync(kAllLanes, next, step);
      const int32_t at = __shfl_xor_sync(kAllLanes, col, step);
      const bool better = other < least || (other == least && at < col);
      next = fminf(fminf(next, other_next), better ? least : other);
      col = better ? at : col;
      least = better ? other : least;
    }
  }
};

// In the shared memory of a block.
struct alignas(16) Shared {
  TwoLeast part[kWarps];
  uint64_t slots[2][kWarps];
  uint64_t barriers;  // that the block has passed
  TransportProblem problem;
  Workspace workspace;

  // The tree and the state follow, if they fit.
  __device__ Visit* tour() { return reinterpret_cast<Visit*>(this + 1); }
  __device__ char* state(bool behind_tree) {
    const int64_t nodes = workspace.nodes + 1;
    return reinterpret_cast<char*>(this + 1) + (behind_tree ? tree_bytes(nodes) : 0);
  }
};
static_assert(sizeof(Shared) % 16 == 0);

// All threads call all functions in the same order.
class Team {
 public:
  __device__ Team(Shared& shared, int blocks, int rank) : s(shared), blocks(blocks), rank(rank) {}

  // The first block without the others.
  __device__ Team alone() const { return {s, 1, 0}; }

  __device__ int lane() const { return int(threadIdx.x) % kWarpSize; }
  __device__ int warp_of_block() const { return int(threadIdx.x) / kWarpSize; }
  // Consecutive warps are in different blocks.
  __device__ int warp() const { return warp_of_block() * blocks + rank; }
  __device__ int warps() const { return kWarps * blocks; }
  __device__ int thread() const { return warp() * kWarpSize + lane(); }
  __device__ int threads() const { return kThreads * blocks; }
  __device__ void sync_block() const { __barrier_sync_count(0, kThreads); }
  // Writes before it are seen by all threads after it.
  __device__ void sync() const {
    sync_block();
    if (blocks == 1) return;
    if (threadIdx.x == 0) {
      const uint64_t all = ++s.barriers * uint64_t(blocks);
      __threadfence();
      uint64_t* const arrivals = s.workspace.arrivals;
      atomic_add_release(arrivals, 1);
      while (load_acquire(arrivals) < all) {
      }
    }
    sync_block();
  }

  template <class F>
  __device__ void each(int64_t count, const F& f) const {
    for (int64_t k = thread(); k < count; k += threads()) f(k);
  }
  // f(k) by all lanes of one warp.
  template <class F>
  __device__ void each_by_warp(int64_t count, const F& f) const {
    for (int64_t k = warp(); k < count; k += warps()) f(k);
  }
  template <class F>
  __device__ void one(const F& f) const {
    if (rank == 0 && threadIdx.x == 0) f();
  }

  // The least (key, then index) over all threads. Every thread gets it.
  __device__ void least(uint64_t& key, uint64_t& index) {
    Pair least{key, index};
    reduce(least, Pair{~uint64_t(0), ~uint64_t(0)}, [](Pair& x, const Pair& y) {
      if (y.key < x.key || (y.key == x.key && y.index < x.index)) x = y;
    });
    key = least.key;
    index = least.index;
  }
  __device__ double most(double x) {
    uint64_t key = ~ordered_bits(x), index = 0;
    least(key, index);
    return from_ordered_bits(~key);
  }
  __device__ int64_t sum(int64_t x) {
    Pair all{uint64_t(x), 0};
    reduce(all, Pair{0, 0}, [](Pair& x, const Pair& y) { x.key += y.key; });
    return int64_t(all.key);
  }
  __device__ bool any(bool x) { return sum(int64_t(x)) != 0; }
  // By the threads of one block. (The sum of several blocks would depend on their number.)
  __device__ double sum_in_block(double x) {
    const auto add = [](Pair& x, const Pair& y) {
      const double both =
          __longlong_as_double(int64_t(x.key)) + __longlong_as_double(int64_t(y.key));
      x.key = uint64_t(__double_as_longlong(both));
    };
    Pair all{uint64_t(__double_as_longlong(x)), 0};
    reduce_in_block(all, add);
    return __longlong_as_double(int64_t(all.key));
  }

  Shared& s;
  const int blocks, rank;

 private:
  struct Pair {
    uint64_t key, index;
  };
  int reductions_ = 0;  // over blocks

  template <class Merge>
  __device__ static void reduce_in_warp(Pair& x, const Merge& merge) {
    for (int step = kWarpSize / 2; step > 0; step /= 2) {
      const Pair y{__shfl_xor_sync(kAllLanes, x.key, step),
                   __shfl_xor_sync(kAllLanes, x.index, step)};
      merge(x, y);
    }
  }
  template <class Merge>
  __device__ void reduce_in_block(Pair& x, const Merge& merge) const {
    reduce_in_warp(x, merge);
    if (lane() == 0) {
      s.slots[0][warp_of_block()] = x.key;
      s.slots[1][warp_of_block()] = x.index;
    }
    sync_block();
    x = {s.slots[0][lane()], s.slots[1][lane()]};
    reduce_in_warp(x, merge);
    sync_block();
  }
  template <class Merge>
  __device__ void reduce(Pair& x, const Pair& neutral, const Merge& merge) {
    reduce_in_block(x, merge);
    if (blocks == 1) return;
    // Two sets of slots take turns: before a block writes one again, all have read it, as they have
    // arrived at the barrier of the other.
    Slots& slots = s.workspace.slots[reductions_++ % 2];
    if (threadIdx.x == 0) {
      slots[0][rank] = x.key;
      slots[1][rank] = x.index;
    }
    sync();
    x = neutral;
    for (int k = lane(); k < blocks; k += kWarpSize) merge(x, Pair{slots[0][k], slots[1][k]});
    reduce_in_warp(x, merge);
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_TEAM_CUH_
