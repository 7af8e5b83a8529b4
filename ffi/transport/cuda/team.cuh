// The threads that solve a transport problem together: those of one block, or of several blocks
// that run at once.
#ifndef JAXMATCH_CUDA_TRANSPORT_TEAM_CUH_
#define JAXMATCH_CUDA_TRANSPORT_TEAM_CUH_

#include <cmath>
#include <cstring>

#include "common/cuda/group.cuh"
#include "common/cuda/memory_order.cuh"
#include "common/cuda/team.cuh"
#include "transport/cuda/kernels.h"
#include "transport/cuda/workspace.h"

namespace jaxmatch::transport {

#include "common/cost_levels.inc.h"
#include "common/cost_units.inc.h"

using team::warp_least, team::warp_sum;

constexpr int kMostWarps = kThreads / kWarpSize;  // warps of a block
constexpr int32_t kNone = -1;                     // no row, column, node or holding
constexpr double kFar = __builtin_huge_val();
constexpr float kFarFloat = __builtin_huge_valf();

__device__ inline int64_t atomic_add(int64_t* at, int64_t x) {
  return int64_t(atomicAdd(reinterpret_cast<unsigned long long*>(at), (unsigned long long)(x)));
}

__device__ inline float warp_most(float x) {
  return from_ordered_bits(__reduce_max_sync(kAllLanes, ordered_bits(x)));
}

// The two least reduced costs of a row, and the first column that has the least.
struct TwoLeast {
  float least = kFarFloat, next = kFarFloat;
  int32_t col = INT32_MAX;

  // Adds column j. Calls must be in order of increasing j, so that the first of several equal
  // columns is kept.
  __device__ void include(float x, int32_t j) {
    const bool better = x < least;
    next = fminf(next, better ? least : x);
    col = better ? j : col;
    least = better ? x : least;
  }
  // Merges the numbers of all lanes. Every lane gets the result.
  __device__ void merge() {
    const uint32_t own = ordered_bits(least), best = __reduce_min_sync(kAllLanes, own);
    const int32_t first = __reduce_min_sync(kAllLanes, own == best ? col : INT32_MAX);
    const uint32_t other = ordered_bits(own == best && col == first ? next : least);
    next = from_ordered_bits(__reduce_min_sync(kAllLanes, other));
    least = from_ordered_bits(best);
    col = first;
  }
};

// The state of a block in its shared memory.
struct alignas(16) Shared {
  TwoLeast part[kMostWarps];
  uint64_t slots[2][kMostWarps];
  uint64_t barriers;  // number of barriers that the block has passed
  CostLevels levels;
  CostMap map;
  double most;                             // greatest finite cost after `map`
  uint32_t exponents[2 * kExponentWords];  // exponents of all costs, then of negative costs
  TransportProblem problem;
  Workspace workspace;
  int64_t few_bytes;  // see TransportBatch
  bool lengths_in_shared;

  // The memory for few columns, the tree and the state (Workspace::move_state) follow this struct,
  // if they fit.
  __device__ FewColumnsState* few() { return reinterpret_cast<FewColumnsState*>(this + 1); }
  __device__ char* behind_few() { return reinterpret_cast<char*>(few()) + few_bytes; }
  __device__ Visit* tour() { return reinterpret_cast<Visit*>(behind_few()); }
  __device__ char* state(bool behind_tree) {
    return behind_few() + (behind_tree ? tree_bytes(workspace.nodes + 1) : 0);
  }
};
static_assert(sizeof(Shared) % 16 == 0);

using Team = team::TeamOf<Shared, 0>;

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_TEAM_CUH_
