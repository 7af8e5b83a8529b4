// The expansion step of WorkSharingBfs, a breadth-first search that grows trees. It takes some
// vertices of the trees, and adds each neighbour that is in no tree yet to the tree of the vertex
// that claims it first.
#ifndef JAXMATCH_MATCHING_CUDA_EXPAND_CUH_
#define JAXMATCH_MATCHING_CUDA_EXPAND_CUH_

#include "common/status.h"
#include "matching/cuda/grid.cuh"
#include "matching/cuda/layout.h"

namespace jaxmatch::matching {

// Offers entries base .. base + count - 1 of the list to the block that waits for offer number
// `slot`.
__device__ inline void publish(const MatchingState& s, int32_t slot, int32_t base, int32_t count) {
  const int64_t x = int64_t(count) << 32 | uint32_t(base);
  atomicExch(reinterpret_cast<unsigned long long*>(s.offers + slot), (unsigned long long)x);
}

// Where a block puts the entries that it finds: into its stage, a buffer in shared memory, while
// there is room; else at the end of the list in global memory. During work sharing, each entry put
// into the list is offered to other blocks.
struct FoundEntries {
  SearchEntry* stage;
  int room;
  int32_t* staged;  // in shared memory: number of entries found, whether they fit or not
  int32_t* edges;   // in shared memory: number of edges of these entries
  SearchEntry* list;
  int32_t* listed;
  const MatchingState* shared;  // null if entries in the list are not offered to other blocks
};

__device__ inline void append_to_list(const SearchEntry& entry, const FoundEntries& out) {
  const int32_t at = take_place(out.listed);
  out.list[at] = entry;
  if (out.shared == nullptr) return;
  __threadfence();
  atomicAdd(&out.shared->control->working, 1);
  publish(*out.shared, take_place(&out.shared->control->offers), at, 1);
}

// Appends the entry of each lane for which `claimed` is true. An entry with more than kEntryEdges
// neighbours is split into several. Every lane of a warp must call it.
__device__ inline void append_entry(bool claimed, const SearchEntry& entry,
                                    const FoundEntries& out) {
  const unsigned claimants = __ballot_sync(kAllLanes, claimed);
  if (!claimants) return;
  const int lane = MatchingGrid::lane();
  const bool heavy = claimed && entry.degree > kEntryEdges;
  int before = __popc(claimants & ((1u << lane) - 1)), all = __popc(claimants), parts = 1;
  if (__any_sync(kAllLanes, heavy)) {
    parts = claimed ? (entry.degree - 1) / kEntryEdges + 1 : 0;
    int sum = parts;
    for (int step = 1; step < 32; step *= 2) {
      const int other = __shfl_up_sync(kAllLanes, sum, step);
      if (lane >= step) sum += other;
    }
    before = sum - parts;
    all = __shfl_sync(kAllLanes, sum, 31);
  }
  // The clamp prevents overflow. Callers only ask whether the number of edges exceeds the room of a
  // stage.
  const int edges = __reduce_add_sync(kAllLanes, claimed ? min(entry.degree, 1 << 14) : 0);
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
      append_to_list(part, out);
    }
  }
}

// A warp expands the entries `mine` of its lanes, edge by edge. `rule` decides which trees grow and
// what happens with a claimed target (see TreeRule for an example). With `alone`, this warp is the
// only one with work. It then claims targets without atomic operations, which would take a third of
// the time of a short step.
template <class Rule>
__device__ inline void expand(const MatchingState& s, const Rule& rule, const int32_t* adj,
                              const SearchEntry& mine, const FoundEntries& out,
                              bool alone = false) {
  const bool grows = mine.degree > 0 && rule.grows(mine.root);
  each_edge(mine.first, mine.degree, [&](int owner, int32_t at, bool exists) {
    const int32_t u = exists ? adj[at] : 0;
    if (alone) __syncwarp();  // makes claims of the other lanes visible
    SearchTarget target{-1, 0, 0, 0};
    if (exists) {
      const int4 x = __ldcg(reinterpret_cast<const int4*>(s.target + u));
      target = {x.x, x.y, x.z, x.w};
    }
    const int32_t vertex = __shfl_sync(kAllLanes, mine.vertex, owner);
    const int32_t root = __shfl_sync(kAllLanes, mine.root, owner);
    const bool wanted =
        __shfl_sync(kAllLanes, int(grows), owner) && exists && target.parent == kNoParent;
    if (wanted) prefetch(adj + target.first);  // the mate's neighbours, likely to be read next
    bool claimed = wanted;
    if (alone) {
      const unsigned same = __match_any_sync(kAllLanes, wanted ? u : -1 - MatchingGrid::lane());
      claimed &= __ffs(same) - 1 == MatchingGrid::lane();
      if (claimed) __stcg(&s.target[u].parent, vertex);
    } else if (wanted) {
      claimed = atomicCAS(&s.target[u].parent, kNoParent, vertex) == kNoParent;
    }
    if (claimed && target.mate < 0) {
      rule.reach(u, root);
      claimed = false;
    }
    // The parts of an entry with many neighbours may not fit into the stage and then go to other
    // blocks. So claims are atomic from here on.
    if (alone && __any_sync(kAllLanes, claimed && target.degree > kEntryEdges)) {
      __syncwarp();
      alone = false;
    }
    append_entry(claimed,
                 {u, claimed ? rule.pass_on(root, target) : 0, target.first, target.degree}, out);
  });
}

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_EXPAND_CUH_
