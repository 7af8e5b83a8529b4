// One step of a search for augmenting paths: the neighbours of some vertices are claimed for the
// trees of these.
#ifndef JAXMATCH_CUDA_MATCHING_EXPAND_CUH_
#define JAXMATCH_CUDA_MATCHING_EXPAND_CUH_

#include "matching_state.cuh"

namespace jaxmatch {

// Where a block puts what it finds: in its shared memory while there is room, else at the end of
// the list.
struct FoundEntries {
  SearchEntry* stage;
  int room;
  int32_t* staged;  // in shared memory: how many came, also those there was no room for
  int32_t* edges;   // in shared memory: of those
  SearchEntry* list;
  int32_t* listed;
};

// Claims target u, read a moment ago, for `entry`, whose root owns the tree. A free target ends the
// tree: the root's first one becomes its leaf, others are given back. Returns whether the target's
// partner joins.
__device__ inline bool claim_target(const MatchingState& s, int32_t u, const SearchEntry& entry,
                                    const SearchTarget& target, const int32_t* adj) {
  if (target.parent != kNoParent) return false;
  asm volatile("prefetch.global.L1 [%0];" ::"l"(adj + target.first));  // likely the next to be read
  if (atomicCAS(&s.target[u].parent, kNoParent, entry.vertex) != kNoParent) return false;
  if (target.mate >= 0) return true;
  if (atomicCAS(s.leaf + entry.root, -1, u) != -1) {
    atomicExch(&s.target[u].parent, kNoParent);
  } else {
    s.found[atomicAdd(&s.control->found, 1)] = entry.root;
  }
  return false;
}

// Puts entries, in parts if they have many neighbours. All lanes of a warp come together.
__device__ inline void put(bool claimed, const SearchEntry& entry, const FoundEntries& out) {
  const unsigned who = __ballot_sync(kAllLanes, claimed);
  if (!who) return;
  const int lane = MatchingGrid::lane();
  const bool heavy = claimed && entry.degree > kEntryEdges;
  int before = __popc(who & ((1u << lane) - 1)), all = __popc(who), parts = 1;
  if (__any_sync(kAllLanes, heavy)) {
    parts = claimed ? (entry.degree + kEntryEdges - 1) / kEntryEdges : 0;
    parts = claimed ? max(1, parts) : 0;
    int sum = parts;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    before = sum - parts;
    all = __shfl_sync(kAllLanes, sum, 31);
  }
  const int edges = __reduce_add_sync(kAllLanes, claimed ? entry.degree : 0);
  int base = 0;
  if (lane == 0) {
    base = atomicAdd(out.staged, all);
    atomicAdd(out.edges, edges);
  }
  base = __shfl_sync(kAllLanes, base, 0);
  if (!claimed) return;
  for (int p = 0; p < parts; ++p) {
    const int32_t skip = p * kEntryEdges;
    const SearchEntry part{entry.vertex, entry.root, entry.first + skip,
                           min(entry.degree - skip, kEntryEdges)};
    const int at = base + before + p;
    if (at < out.room) {
      out.stage[at] = part;
    } else {
      append_now(out.list, out.listed, part);
    }
  }
}

// The entries that the lanes of a warp hold, edge by edge: all lanes work, whatever the degrees.
// Trees that have a leaf do not grow.
__device__ inline void expand(const MatchingState& s, const int32_t* adj, const SearchEntry& mine,
                              const FoundEntries& out) {
  const int lane = MatchingGrid::lane();
  const bool ended = mine.degree > 0 && __ldcg(s.leaf + mine.root) >= 0;
  int end = mine.degree;
  for (int step = 1; step < 32; step *= 2) {
    const int other = __shfl_up_sync(kAllLanes, end, step);
    if (lane >= step) end += other;
  }
  const int total = __shfl_sync(kAllLanes, end, 31), begin = end - mine.degree;
  const int shift = mine.first - begin;
  for (int k0 = 0; k0 < total; k0 += 32) {
    const int k = k0 + lane;
    int owner = 0;  // the first lane whose end is beyond k
#pragma unroll
    for (int step = 16; step > 0; step /= 2) {
      if (__shfl_sync(kAllLanes, end, owner + step - 1) <= k) owner += step;
    }
    owner = min(owner, 31);
    const int at = __shfl_sync(kAllLanes, shift, owner) + k;
    const int32_t u = k < total ? adj[at] : -1;
    SearchTarget target{-1, 0, 0, 0};
    if (u >= 0) {
      const int4 x = __ldcg(reinterpret_cast<const int4*>(s.target + u));
      target = {x.x, x.y, x.z, x.w};
    }
    SearchEntry entry;
    entry.vertex = __shfl_sync(kAllLanes, mine.vertex, owner);
    entry.root = __shfl_sync(kAllLanes, mine.root, owner);
    const bool grows = !__shfl_sync(kAllLanes, int(ended), owner);
    const bool claimed = u >= 0 && grows && claim_target(s, u, entry, target, adj);
    put(claimed, {u, entry.root, target.first, target.degree}, out);
  }
}

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_MATCHING_EXPAND_CUH_
