// The last stage of "auto" grows disjoint trees from all free vertices of one side (a: rows or
// columns) at once. A tree is kept from phase to phase until it reaches a free vertex of the other
// side (b). (Azad, Buluc and Pothen 2017.)
#ifndef JAXMATCH_MATCHING_CUDA_TREE_GRAFTING_CUH_
#define JAXMATCH_MATCHING_CUDA_TREE_GRAFTING_CUH_

#include "matching/cuda/finish.cuh"
#include "matching/cuda/work_sharing_bfs.cuh"

namespace jaxmatch::matching {

// The search rule (see WorkSharingBfs) of tree grafting: a tree has one root and stops growing at
// the first free target (vertex of side b) that it reaches.
struct TreeRule {
  const MatchingState& s;

  __device__ bool grows(int32_t root) const { return __ldcg(s.leaf + root) < 0; }
  // Free targets that the same tree reaches later are released.
  __device__ void reach(int32_t u, int32_t root) const {
    if (atomicCAS(s.leaf + root, -1, u) != -1) {
      atomicExch(&s.target[u].parent, kNoParent);
    } else {
      s.found[atomicAdd(&s.control->found, 1)] = root;
    }
  }
  __device__ int32_t pass_on(int32_t root, const SearchTarget&) const { return root; }
};

// Every vertex of side a that is in a tree has an entry in the list, with the tree's root. A target
// has a parent if and only if it is in a tree, and trees share no target. If a phase finds no path,
// all neighbours of the trees' vertices of side a are matched and in trees themselves. So there is
// no augmenting path, and the matching is maximum.
class TreeGrafting {
 public:
  __device__ TreeGrafting(MatchingGrid& grid, const MatchingState& s, MatchingSide a,
                          MatchingSide b, WorkSharingTuning tuning)
      : grid_(grid),
        s_(s),
        c_(*s.control),
        a_(a),
        b_(b),
        bfs_(grid, s, TreeRule{s}, a.adj, tuning) {}

  // Reads the matching from the mates of side b and rewrites the mates of side a. Makes each free
  // vertex of side a a root.
  __device__ void begin() {
    grid_.each(a_.count, [&](int64_t v) {
      a_.mate[v] = kFreeVertex;
      s_.leaf[v] = -1;
    });
    grid_.each(s_.most_offers, [&](int64_t k) { s_.offers[k] = {0, 0}; });
    grid_.barrier_reduce();
    int32_t free = 0;
    grid_.each(b_.count, [&](int64_t u) {
      const int32_t v = __ldcg(b_.mate + u);
      const int32_t first = v >= 0 ? a_.ptr[v] : 0;
      s_.target[u] = {v, first, v >= 0 ? a_.ptr[v + 1] - first : 0, kNoParent};
      if (v >= 0) {
        a_.mate[v] = int32_t(u);
      } else {
        free += b_.ptr[u + 1] > b_.ptr[u];
      }
    });
    free = __reduce_add_sync(kAllLanes, free);
    if (grid_.lane() == 0 && free > 0) atomicAdd(&grid_.tally()->count, free);
    const int32_t targets = grid_.barrier_reduce().count;
    FoundEntries out = bfs_.staging(s_.list[0], &grid_.tally()->count);
    grid_.each_warp(a_.count, [&](int64_t v, bool exists) {
      SearchEntry root{root_as_parent(int32_t(v)), int32_t(v), 0, 0};
      if (exists && __ldcg(a_.mate + v) < 0) {
        root.first = a_.ptr[v];
        root.degree = a_.ptr[v + 1] - root.first;
      }
      append_entry(root.degree > 0, root, out);
    });
    bfs_.flush(out);
    const int32_t roots = grid_.barrier_reduce().count;
    if (grid_.leader()) {
      c_.roots = roots;
      c_.targets = targets;
      c_.found = 0;
      c_.turn = 0;
    }
    grid_.barrier_reduce();
  }

  // Copies the mates of the targets to the arrays of both sides.
  __device__ void write_mates() {
    grid_.each(a_.count, [&](int64_t v) { a_.mate[v] = kFreeVertex; });
    grid_.barrier_reduce();
    grid_.each(b_.count, [&](int64_t u) {
      const int32_t v = load_l2(&s_.target[u].mate);
      b_.mate[u] = v;
      if (v >= 0) a_.mate[v] = int32_t(u);
    });
    grid_.barrier_reduce();
  }
  // Writes the vertex cover: the vertices of side b in trees, and the mates of the other vertices
  // of side b. If no free vertex of side b has an edge, the cover is all matched vertices of side
  // b.
  __device__ void write_cover(bool* a_cover, bool* b_cover) {
    const bool all_of_b = load_l2(&c_.targets) == 0;
    grid_.each(b_.count, [&](int64_t u) {
      const int4 target = __ldcg(reinterpret_cast<const int4*>(s_.target + u));
      const bool covers = all_of_b ? target.x >= 0 : target.w != kNoParent;
      b_cover[u] = covers;
      if (target.x >= 0) a_cover[target.x] = !covers;
    });
    grid_.each(a_.count, [&](int64_t v) {
      if (__ldcg(a_.mate + v) < 0) a_cover[v] = false;
    });
  }

  // Runs a phase. Returns the number of paths found; 0 means that the matching is maximum.
  __device__ int32_t phase() {
    const int32_t roots = load_l2(&c_.roots), targets = load_l2(&c_.targets);
    if (roots == 0 || targets == 0) return 0;
    bfs_.run(roots, min(roots, targets));
    const int32_t found = load_l2(&c_.found);
    if (found == 0) return 0;
    augment();
    keep_trees();
    return found;
  }

 private:
  __device__ static int32_t load_l2(const int32_t* at) { return __ldcg(at); }

  // Along the path from each leaf (the free target that a tree has reached) to its root, every
  // target takes over the mate of its parent. The target next to the root takes the root.
  __device__ void augment() {
    grid_.each(load_l2(&c_.found), [&](int64_t k) {
      const int32_t root = __ldcg(s_.found + k), leaf = __ldcg(s_.leaf + root);
      const int32_t first = a_.ptr[root];
      int32_t u = leaf, parent = load_l2(&s_.target[leaf].parent);
      while (parent >= 0) {
        const int4 x = __ldcg(reinterpret_cast<const int4*>(s_.target + parent));
        s_.target[u] = {x.x, x.y, x.z, u == leaf ? kNoParent : parent};
        u = parent;
        parent = x.w;
      }
      s_.target[u] = {root, first, a_.ptr[root + 1] - first, u == leaf ? kNoParent : parent};
    });
    grid_.barrier_reduce();
  }

  // Keeps the trees that have found no path, so that the next phase searches from them again.
  // Releases the targets of the other trees, so that the kept trees can claim them.
  __device__ void keep_trees() {
    const SearchEntry* const from = bfs_.list();
    const int32_t turn = load_l2(&c_.turn), entries = load_l2(&c_.entries),
                  found = load_l2(&c_.found);
    const int32_t targets = load_l2(&c_.targets);
    FoundEntries out = bfs_.staging(s_.list[1 - turn], &grid_.tally()->count);
    grid_.each_warp(entries, [&](int64_t k, bool exists) {
      SearchEntry entry{0, 0, 0, 0};
      bool keep = false;
      if (exists) {
        entry = bfs_.read(from + k);
        keep = __ldcg(s_.leaf + entry.root) < 0;
        if (!keep && entry.vertex >= 0) s_.target[entry.vertex].parent = kNoParent;
      }
      append_entry(keep, entry, out);
    });
    bfs_.flush(out);
    const int32_t roots = grid_.barrier_reduce().count;
    if (grid_.leader()) {
      c_.roots = roots;
      c_.turn = 1 - turn;
      c_.targets = targets - found;
      c_.found = 0;
      ++c_.phases;
    }
    grid_.barrier_reduce();
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  MatchingControl& c_;
  MatchingSide a_, b_;
  WorkSharingBfs<TreeRule> bfs_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_TREE_GRAFTING_CUH_
