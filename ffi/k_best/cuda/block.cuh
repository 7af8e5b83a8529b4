// The threads of a block, which solve one problem together, and the memory that they share.
#ifndef JAXMATCH_CUDA_K_BEST_BLOCK_CUH_
#define JAXMATCH_CUDA_K_BEST_BLOCK_CUH_

#include <cmath>
#include <cstring>

#include "assignment/cuda/arithmetic.cuh"
#include "k_best/cuda/workspace.h"

namespace jaxmatch::k_best {

#include "common/cost_levels.inc.h"
#include "common/cost_units.inc.h"

constexpr int32_t kNone = -1;  // no row or column

// As in k_best/cpu/units.h.
constexpr int64_t kMostInAll = int64_t{1} << 56;
constexpr int64_t kFar = int64_t{1} << 60;
constexpr int64_t kForbidden = int64_t{1} << 61;
constexpr int64_t kGone = -(int64_t{1} << 61);

// As in k_best/cpu/tree.h.
constexpr int64_t kNoKey = INT64_MAX;
__device__ inline int64_t exact_key(int64_t cost) { return 2 * cost; }
__device__ inline int64_t bound_key(int64_t cost) { return 2 * cost + 1; }
__device__ inline bool is_bound(int64_t key) { return key & 1; }
__device__ inline int64_t cost_of(int64_t key) { return key >> 1; }

// The minimum over the lanes of a warp. Every lane gets the result.
__device__ inline int64_t warp_least(int64_t x) { return assignment::Real::warp_min_bits(x); }
__device__ inline int32_t warp_least(int32_t x) { return __reduce_min_sync(kAllLanes, x); }

// The least of some numbers, and the first place where it was found.
struct Least {
  int64_t value;
  int32_t at;

  // Call it with places in increasing order, so that ties keep the first place.
  __device__ void include(int64_t x, int32_t place) {
    if (x >= value) return;
    value = x;
    at = place;
  }
  // Sets every lane's `value` and `at` to the least over all lanes.
  __device__ void merge() {
    const int64_t least = warp_least(value);
    at = warp_least(value == least ? at : INT32_MAX);
    value = least;
  }
};

// A child of node `node` (k_best/cpu/tree.h): the subproblem in which the row at place `at` of the
// node's order must give up its pair.
struct Child {
  int64_t key;
  int32_t node, at;

  __device__ bool before(const Child& x) const {
    return key < x.key || (key == x.key && (node < x.node || (node == x.node && at < x.at)));
  }
};

constexpr int kExponentWords = 64;  // words of 32 bits in a set of exponents

// The data of a problem in the shared memory of its block.
struct alignas(16) Shared {
  Child best[kWarps];     // each warp's child with the least key
  int64_t found[kWarps];  // the excess cost that each warp's search found, or kFar
  uint64_t slots[kWarps];
  int64_t limit;    // assignments whose excess cost is this or more are not needed
  int64_t* costs;   // [rows + 1, stride] in units
  double scale;     // factor from costs to units; negative to maximise
  double greatest;  // greatest magnitude of finite costs
  double lowest;    // least non-zero magnitude of finite costs
  bool exact;       // no cost was rounded
  bool transposed;  // the rows of the canonical form are columns of the problem
  bool exists;      // there is an assignment
  bool draws;       // draw_near() (common/cost_levels.inc.h) has lowered some costs
  int32_t rows, cols, stride;
  int32_t n, m;  // numbers of rows and columns that the masks include
  int32_t most;  // limit on the number of nodes
  int32_t size;  // number of nodes so far
  int32_t known;
  int32_t counts[kNumCounts];
  uint32_t exponents[2 * kExponentWords];  // sets: of all costs, of negative costs
  CostLevels levels;
  CostMap map;
  KBestProblem problem;
  Workspace workspace;
  State state;

  __device__ bool has_spare() const { return cols > rows; }
  __device__ const int64_t* cost_row(int64_t i) const { return costs + i * stride; }
  __device__ const int32_t* row_list() const {
    return transposed ? workspace.m_list : workspace.n_list;
  }
  __device__ const int32_t* col_list() const {
    return transposed ? workspace.n_list : workspace.m_list;
  }
  __device__ int32_t* order_of(int64_t x) const { return workspace.order + x * rows; }
  __device__ int32_t* col4row_of(int64_t x) const { return workspace.col4row + x * (rows + 1); }
  __device__ int64_t* v_of(int64_t x) const { return workspace.v + x * stride; }
  __device__ int64_t* keys_of(int64_t x) const { return workspace.key + x * rows; }
  __device__ int64_t* rises_of(int64_t x) const { return workspace.rise + x * rows; }

  // Calls f(column) for each column that node x forbids to `row`. `has` is whether x forbids any
  // column to this row.
  template <class F>
  __device__ void for_forbidden(int32_t x, int32_t row, bool has, const F& f) const {
    while (has && workspace.parent[x] != kNone) {
      const int32_t parent = workspace.parent[x];
      f(col4row_of(parent)[row]);
      has = workspace.forced[parent] == workspace.forced[x];
      x = parent;
    }
  }
};

// All threads of the block call sync(), most() and any() in the same order.
struct Block {
  Shared& s;

  __device__ int lane() const { return int(threadIdx.x) % kWarpSize; }
  __device__ int warp() const { return int(threadIdx.x) / kWarpSize; }
  __device__ void sync() const { __barrier_sync_count(0, kThreads); }

  template <class F>
  __device__ void each(int64_t count, const F& f) const {
    for (int64_t k = int64_t(threadIdx.x); k < count; k += kThreads) f(k);
  }
  // All lanes of one warp call f(k) together.
  template <class F>
  __device__ void each_by_warp(int64_t count, const F& f) const {
#pragma unroll 1
    for (int64_t k = warp(); k < count; k += kWarps) f(k);
  }
  // The lanes of this warp share the calls of f(k).
  template <class F>
  __device__ void each_lane(int64_t count, const F& f) const {
    for (int64_t k = lane(); k < count; k += kWarpSize) f(k);
  }
  template <class F>
  __device__ void one(const F& f) const {
    if (threadIdx.x == 0) f();
  }

  // The greatest number over all threads. Every thread gets it.
  __device__ uint64_t most(uint64_t x) const {
    uint64_t word[1] = {x};
    Group<true>::warp_max(word);
    if (lane() == 0) s.slots[warp()] = word[0];
    sync();
    for (const uint64_t other : s.slots) word[0] = other > word[0] ? other : word[0];
    sync();
    return word[0];
  }
  __device__ bool any(bool x) const { return most(x) != 0; }
};

}  // namespace jaxmatch::k_best

#endif  // JAXMATCH_CUDA_K_BEST_BLOCK_CUH_
