// The methods "apsb" and "apfb": M. Deveci, K. Kaya, B. Ucar and U. V. Catalyurek, GPU accelerated
// maximum cardinality matching algorithms for bipartite graphs, Euro-Par 2013. Functions are named
// after the paper's algorithms 1 to 4. One launch searches many levels, with a grid barrier where
// the paper launches a new kernel.
//
// Kept for comparison with the paper. The method "auto" is faster.
#ifndef JAXMATCH_MATCHING_CUDA_PAPERS_APSB_APFB_CUH_
#define JAXMATCH_MATCHING_CUDA_PAPERS_APSB_APFB_CUH_

#include "matching/cuda/finish.cuh"
#include "matching/cuda/start.cuh"

namespace jaxmatch::matching {

struct BfsOptions {
  bool shortest;    // true: APsB, which ends a search at the first level with a path; false: APFB
  bool with_roots;  // true: GPUBFS-WR, where a tree that has found a path stops growing
  bool constant;    // true: CT, 256 * 256 threads; false: MT, all threads of the grid
  bool by_root;     // true: ALTERNATE uses one path per root; false: all paths found

  static BfsOptions of(MatchingMethod method, Options& options) {
    constexpr Name<bool> kKernels[] = {{"gpubfs", false}, {"gpubfs_wr", true}};
    constexpr Name<bool> kThreads[] = {{"mt", false}, {"ct", true}};
    constexpr Name<bool> kAlternates[] = {{"paths", false}, {"roots", true}};
    const bool shortest =
        method == MatchingMethod::kApsb || method == MatchingMethod::kHopcroftKarp;
    const bool with_roots = options.named("kernel", kKernels);
    const bool constant = options.named("threads", kThreads);
    const bool by_root = options.named("alternate", kAlternates);
    return {shortest, with_roots, constant, with_roots && by_root};
  }
};

// Races are part of the method: several columns may claim a row at once, and paths that are
// augmented concurrently (by alternate()) may cross. In all cases, the predecessor of a row (the
// column that reached it) is one level nearer to the free columns, and a row is only ever matched
// to its predecessor. fix_matching() drops the pairs that lost a race.
class BreadthFirst {
 public:
  __device__ BreadthFirst(MatchingGrid& grid, const MatchingState& s, BfsOptions options)
      : grid_(grid),
        s_(s),
        c_(*s.control),
        options_(options),
        bfs_(s.height),
        root_(s.tokens),
        predecessor_(s.leaf),
        cmatch_(s.row4col),
        rmatch_(s.col4row) {}

  __device__ void begin() {
    const int32_t matched = cardinality(grid_, s_);
    if (grid_.leader()) c_.entries = matched;
    init_bfs_array();
  }

  // Searches `levels` levels, or to the end if `levels` is negative. Returns true if a search has
  // found no path.
  __device__ bool run(int64_t levels) {
    for (; levels != 0; --levels) {
      const Tally level = gpubfs();
      const bool found_before = __ldcg(&c_.found) != 0;
      const bool found = found_before || level.found > 0;
      const bool over = level.count == 0 || (options_.shortest && found);
      grid_.barrier_reduce();  // all threads have read the control words
      if (grid_.leader()) {
        c_.found = found;
        ++c_.levels;
        ++c_.targets;
      }
      grid_.barrier_reduce();
      if (!over) continue;
      if (!found) return true;
      alternate();
      fix_matching();
      init_bfs_array();
    }
    return false;
  }

  // Writes the vertex cover: matched columns that the last search (from free columns) did not
  // reach, and rows matched to columns that it reached.
  __device__ bool write_cover() {
    grid_.each(s_.graph.n, [&](int64_t r) {
      const int32_t c = __ldcg(rmatch_ + r);
      s_.results.row_cover[r] = c >= 0 && __ldcg(bfs_ + c) >= kFirstLevel;
    });
    grid_.each(s_.graph.m, [&](int64_t c) {
      s_.results.col_cover[c] = __ldcg(cmatch_ + c) >= 0 && __ldcg(bfs_ + c) < kFirstLevel;
    });
    return true;
  }

 private:
  // Values of bfs_: the level of a column (kFirstLevel for free columns), kNotReached, or at most
  // kFound for a root whose tree has found a path.
  static constexpr int32_t kFirstLevel = 2, kNotReached = kFirstLevel - 1, kFound = 0;
  static constexpr int32_t kEndOfPath = -2;  // value of rmatch_ for a free row that was reached

  __device__ int workers() const {
    return options_.constant ? min(256 * 256, grid_.threads()) : grid_.threads();
  }
  template <class F>
  __device__ void each(int32_t count, F f) const {
    for (int k = grid_.thread(); k < count && grid_.thread() < workers(); k += workers()) f(k);
  }

  __device__ void init_bfs_array() {
    each(s_.graph.m, [&](int32_t c) {
      const bool matched = __ldcg(cmatch_ + c) >= 0;
      bfs_[c] = matched ? kNotReached : kFirstLevel;
      root_[c] = matched ? -1 : c;
    });
    each(s_.graph.n, [&](int32_t r) { predecessor_[r] = -1; });
    if (grid_.leader()) {
      c_.targets = kFirstLevel;  // the level to search next
      c_.found = 0;
    }
    grid_.barrier_reduce();
  }

  // Algorithms 2 and 4: search one level. In the result, `count` is nonzero if columns were
  // reached, and `found` is nonzero if paths were found.
  __device__ Tally gpubfs() {
    const int32_t level = __ldcg(&c_.targets);
    bool inserted = false, found = false;
    each(s_.graph.m, [&](int32_t c) {
      if (__ldcg(bfs_ + c) != level) return;
      const int32_t root = options_.with_roots ? __ldcg(root_ + c) : c;
      if (options_.with_roots && __ldcg(bfs_ + root) < kNotReached) return;
      for (int32_t k = s_.graph.col_ptr[c]; k < s_.graph.col_ptr[c + 1]; ++k) {
        const int32_t r = s_.graph.row_ind[k], mate = __ldcg(rmatch_ + r);
        if (mate >= 0) {
          if (__ldcg(bfs_ + mate) != kNotReached) continue;
          inserted = true;
          __stcg(bfs_ + mate, level + 1);
          __stcg(root_ + mate, root);
          __stcg(predecessor_ + r, c);
        } else if (mate == kFreeVertex) {
          if (options_.with_roots) __stcg(bfs_ + root, options_.by_root ? -1 - r : kFound);
          __stcg(rmatch_ + r, kEndOfPath);
          __stcg(predecessor_ + r, c);
          found = true;
        }
      }
    });
    if (__any_sync(kAllLanes, inserted) && grid_.lane() == 0) grid_.tally()->count = 1;
    if (__any_sync(kAllLanes, found) && grid_.lane() == 0) grid_.tally()->found = 1;
    return grid_.barrier_reduce();
  }

  // Algorithm 3. A path has at most one row per level of the search, so the loop makes no more
  // steps than there are levels.
  __device__ void alternate_from(int32_t r) const {
    for (int32_t steps = __ldcg(&c_.targets); r >= 0 && steps >= 0; --steps) {
      const int32_t c = __ldcg(predecessor_ + r);
      if (c < 0) return;
      const int32_t next = __ldcg(cmatch_ + c);
      if (next >= 0 && __ldcg(predecessor_ + next) == c) return;  // another path came through here
      __stcg(cmatch_ + c, r);
      __stcg(rmatch_ + r, c);
      r = next;
    }
  }
  __device__ void alternate() {
    if (__ldcg(&c_.stop)) {
      // The last concurrent augmentation kept none of its paths. So augment along a single path
      // this time, which no other path can cross.
      int32_t first = INT32_MAX;
      each(s_.graph.n, [&](int32_t r) {
        if (__ldcg(rmatch_ + r) == kEndOfPath) first = min(first, r);
      });
      if (first != INT32_MAX) atomicMax(&grid_.tally()->count, INT32_MAX - first);
      const int32_t only = INT32_MAX - grid_.barrier_reduce().count;
      if (grid_.leader()) alternate_from(only);
    } else if (options_.by_root) {
      each(s_.graph.m, [&](int32_t c) {
        if (__ldcg(root_ + c) != c) return;
        const int32_t mark = __ldcg(bfs_ + c);
        if (mark < 0) alternate_from(-1 - mark);
      });
    } else {
      each(s_.graph.n, [&](int32_t r) {
        if (__ldcg(rmatch_ + r) == kEndOfPath) alternate_from(r);
      });
    }
    grid_.barrier_reduce();
  }

  __device__ void fix_matching() {
    int32_t matched = 0;
    grid_.each(s_.graph.n, [&](int64_t r) {
      const int32_t c = __ldcg(rmatch_ + r);
      const bool holds = c >= 0 && __ldcg(cmatch_ + c) == r;
      if (!holds) __stcg(rmatch_ + r, kFreeVertex);
      matched += holds;
    });
    matched = __reduce_add_sync(kAllLanes, matched);
    if (grid_.lane() == 0 && matched > 0) atomicAdd(&grid_.tally()->count, matched);
    const int32_t all = grid_.barrier_reduce().count;
    const int32_t before = __ldcg(&c_.entries);
    grid_.each(s_.graph.m, [&](int64_t c) {
      const int32_t r = __ldcg(cmatch_ + c);
      if (r >= 0 && __ldcg(rmatch_ + r) != c) __stcg(cmatch_ + c, kFreeVertex);
    });
    grid_.barrier_reduce();
    if (grid_.leader()) {
      c_.stop = all <= before;
      c_.entries = all;
      ++c_.phases;
    }
    grid_.barrier_reduce();
  }

  MatchingGrid& grid_;
  const MatchingState& s_;
  MatchingControl& c_;
  BfsOptions options_;
  int32_t *bfs_, *root_, *predecessor_, *cmatch_, *rmatch_;
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_PAPERS_APSB_APFB_CUH_
