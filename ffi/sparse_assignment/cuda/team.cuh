// The threads that solve a problem of sparse assignment, and how they divide its vertices among
// themselves.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_TEAM_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_TEAM_CUH_

#include "common/cuda/team.cuh"
#include "sparse_assignment/cuda/kernels.h"
#include "sparse_assignment/cuda/workspace.h"

namespace jaxmatch::sparse_assignment {

// The bid of one free row, used while few rows are free.
struct alignas(16) Token {
  int64_t level;
  uint64_t key;
  int32_t row, edge, before;  // `before`: the row that has the edge's column now
};

// The shared memory of a block.
template <int kThreads>
struct alignas(16) Shared {
  Token token[kThreads / kWarpSize];
  int32_t tokens, low;
  uint64_t slots[2][kThreads / kWarpSize];
  uint64_t barriers;  // number of barriers that the block has passed
  Labels labels[kThreads / kWarpSize], of_block;
  SparseProblem problem;
  Workspace workspace;

  // The hash tables of searches follow this struct. The state of the problem comes next if it fits.
  __device__ char* tables() { return reinterpret_cast<char*>(this + 1); }
  JAXMATCH_HOST_DEVICE static int64_t bytes_of_tables(int64_t slots) {
    return kThreads / kWarpSize * slots * kSlotBytes;
  }
};

// One warp, with the interface of a team.
struct WarpTeam {
  __device__ int lane() const { return int(threadIdx.x) % kWarpSize; }
  __device__ int thread() const { return lane(); }
  __device__ int threads() const { return kWarpSize; }
  __device__ int warp() const { return 0; }
  __device__ int warps() const { return 1; }
  __device__ void sync() const { __syncwarp(); }

  template <class F>
  __device__ void one(const F& f) const {
    if (lane() == 0) f();
  }
  template <class F>
  __device__ void each(int64_t count, const F& f) const {
    for (int64_t k = lane(); k < count; k += kWarpSize) f(k);
  }
  __device__ void least_of_each(uint64_t& a, uint64_t& b) const {
    a = team::warp_least(a);
    b = team::warp_least(b);
    __syncwarp();
  }
};

// All lanes of a warp call f(k, lane, exists). Groups of `width` consecutive lanes share an index
// k, which exists if k < count.
template <class Team, class F>
__device__ void each_by_group(const Team& team, int64_t count, int width, const F& f) {
  const int groups = kWarpSize / width, group = team.lane() / width, lane = team.lane() % width;
#pragma unroll 1
  for (int64_t first = int64_t(team.warp()) * groups; first < count;
       first += int64_t(team.warps()) * groups) {
    f(first + group, lane, first + group < count);
  }
}

// All lanes of a warp call f(k, exists), each with a different index k.
template <class Team, class F>
__device__ void each_by_lane(const Team& team, int64_t count, const F& f) {
  each_by_group(team, count, 1, [&](int64_t k, int, bool exists) { f(k, exists); });
}

// Appends x of each lane for which `has` is true. All lanes of a warp must call it.
__device__ inline void append(int32_t* list, int32_t* count, int lane, bool has, int32_t x) {
  const unsigned lanes = __ballot_sync(kAllLanes, has);
  if (lanes == 0) return;
  int32_t place = 0;
  if (lane == 0) place = atomicAdd(count, __popc(lanes));
  place = __shfl_sync(kAllLanes, place, 0) + __popc(lanes & lanes_below(lane));
  if (has) list[place] = x;
}

// Writes value(k) to `list` for each k < count with keep(k), in increasing order of k. Returns the
// number of values. `of_warps` is scratch with one entry per warp.
template <class Team, class Keep, class Value>
__device__ int32_t compact(const Team& team, int64_t count, int32_t* of_warps, int32_t* list,
                           const Keep& keep, const Value& value) {
  const int64_t each = (count + team.warps() - 1) / team.warps();
  const int64_t first = min(each * team.warp(), count), last = min(first + each, count);
  const auto walk = [&](const auto& f) {
#pragma unroll 1
    for (int64_t start = first; start < last; start += kWarpSize) {
      const int64_t k = start + team.lane();
      f(k, __ballot_sync(kAllLanes, k < last && keep(k)));
    }
  };
  int32_t own = 0;
  walk([&](int64_t, unsigned lanes) { own += __popc(lanes); });
  if (team.lane() == 0) of_warps[team.warp()] = own;
  team.sync();
  int64_t before = 0, all = 0;
  for (int k = team.lane(); k < team.warps(); k += kWarpSize) {
    all += of_warps[k];
    if (k < team.warp()) before += of_warps[k];
  }
  before = team::warp_sum(before);
  all = team::warp_sum(all);
  walk([&](int64_t k, unsigned lanes) {
    if (lanes >> team.lane() & 1) {
      list[before + __popc(lanes & lanes_below(team.lane()))] = value(k);
    }
    before += __popc(lanes);
  });
  team.sync();
  return int32_t(all);
}

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_TEAM_CUH_
