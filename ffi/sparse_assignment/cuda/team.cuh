// The threads that solve a problem of sparse assignment, and how they share out its vertices.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_TEAM_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_TEAM_CUH_

#include "common/cuda/team.cuh"
#include "sparse_assignment/cuda/kernels.h"
#include "sparse_assignment/cuda/workspace.h"

namespace jaxmatch::sparse_assignment {

using assignment::kAllLanes, assignment::kWarpSize, assignment::lanes_below;

constexpr int32_t kNone = -1;  // no vertex, edge or pair

// The bid of a free vertex, while few are free.
struct alignas(16) Token {
  Price level;
  uint64_t key;
  int32_t left, right, owner;  // the owner is that of the right vertex
};

// In the shared memory of a block.
template <int kThreads>
struct alignas(16) Shared {
  Token token[kThreads / kWarpSize];
  int32_t tokens, stuck, deep;
  uint64_t slots[2][kThreads / kWarpSize];
  uint64_t barriers;  // that the block has passed
  SparseProblem problem;
  Workspace workspace;

  // The state follows, if it fits.
  __device__ char* state() { return reinterpret_cast<char*>(this + 1); }
};

// f(k, lane, exists) by all lanes of a warp, of which `width` consecutive ones share the index k.
template <class Team, class F>
__device__ void each_by_group(const Team& team, int64_t count, int width, const F& f) {
  const int groups = kWarpSize / width, group = team.lane() / width, lane = team.lane() % width;
#pragma unroll 1
  for (int64_t first = int64_t(team.warp()) * groups; first < count;
       first += int64_t(team.warps()) * groups) {
    f(first + group, lane, first + group < count);
  }
}

// f(k, exists) by all lanes of a warp, of which each has an index of its own.
template <class Team, class F>
__device__ void each_by_lane(const Team& team, int64_t count, const F& f) {
  each_by_group(team, count, 1, [&](int64_t k, int, bool exists) { f(k, exists); });
}

// Appends the vertices of those lanes that have one. Called by all lanes.
__device__ inline void append(int32_t* list, int32_t* count, int lane, bool has, int32_t x) {
  const unsigned lanes = __ballot_sync(kAllLanes, has);
  if (lanes == 0) return;
  int32_t place = 0;
  if (lane == 0) place = atomicAdd(count, __popc(lanes));
  place = __shfl_sync(kAllLanes, place, 0) + __popc(lanes & lanes_below(lane));
  if (has) list[place] = x;
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_TEAM_CUH_
