// The state of one large matching problem on a GPU, and the layout of its arrays in one scratch
// buffer.
#ifndef JAXMATCH_MATCHING_CUDA_LAYOUT_H_
#define JAXMATCH_MATCHING_CUDA_LAYOUT_H_

#include <cstddef>
#include <cstdint>

#include "common/device_arena.h"
#include "common/sizes.h"
#include "common/tally.h"
#include "matching/operands.h"

namespace jaxmatch::matching {

constexpr int kMatchingThreads = 1024;  // threads per block; one block per multiprocessor

// Control words that all threads of a problem share. Python reads the position of `done` from
// kSizes. The methods in papers/ use some of the words for other counts.
struct MatchingControl {
  int32_t done, stage, roots_are_cols;
  int32_t phases, levels;
  int32_t turn;     // index in MatchingState::list of the list in use
  int32_t roots;    // number of entries at the front of the list from which the next search starts
  int32_t targets;  // number of free vertices with edges on the side where paths end
  int32_t found;    // number of augmenting paths found in this phase
  int32_t entries;  // length of the list during WorkSharingBfs::work_sharing()
  int32_t step;    // number of barriers so far (selects the tally in `ring`), kept between launches
  int32_t unused;  // aligns the next four words, so that one load reads them
  // Words for work sharing (work_sharing_bfs.cuh):
  // - working: number of blocks with work, plus offers that no block has taken,
  // - stop: nonzero when the search must stop,
  // - tickets: number of tickets drawn by idle blocks,
  // - offers: number of published offers.
  int32_t working, stop, tickets, offers;
  Tally ring[kTallies];
};
constexpr int64_t kMatchingControlWords = 64;
static_assert(sizeof(MatchingControl) <= 4 * kMatchingControlWords, "");
static_assert(offsetof(MatchingControl, working) % 16 == 0, "");

constexpr int32_t kFreeVertex = -1;
constexpr int32_t kBusyVertex = -2;  // a thread is matching this vertex

// The rows or the columns of the graph: their adjacency lists, mates and number.
struct MatchingSide {
  const int32_t *ptr, *adj;
  int32_t* mate;
  int32_t count;
};

// A search grows trees from free vertices of one side (a), the roots, over vertices of the other
// side (b), the targets. From a target, it continues at the target's mate. A target stores:
// - its mate,
// - where its mate's neighbours are: adj[first .. first + degree) of side a,
// - its parent in the tree: the target from whose mate the search reached it, or a root (see
//   root_as_parent()).
// So following a path takes one load per step.
struct alignas(16) SearchTarget {
  int32_t mate, first, degree, parent;
};
constexpr int32_t kNoParent = -1;
JAXMATCH_HOST_DEVICE inline int32_t root_as_parent(int32_t root) { return -2 - root; }
JAXMATCH_HOST_DEVICE inline int32_t parent_as_root(int32_t parent) { return -2 - parent; }

// Neighbours of a vertex that the search has still to scan: adj[first .. first + degree) of side a.
// The vertex is a root or the mate of a target; `vertex` is root_as_parent(root) or the target.
// `root` is the root of its tree, or a height in a global relabelling (push.cuh).
struct alignas(16) SearchEntry {
  int32_t vertex, root, first, degree;
};
// Entries base .. base + count - 1 of the list, which one block offers to another.
struct SearchOffer {
  int32_t base, count;
};

#ifndef JAXMATCH_EMULATED
constexpr int kEntryEdges = 256;  // most neighbours in one entry
#endif

struct MatchingState {
  MatchingControl* control;
  BipartiteCsr graph;
  MatchingResults results;
  int64_t side;      // number of vertices of the longer side
  int32_t* col4row;  // the current matching: in the results, or in the scratch if `stepped`
  int32_t* row4col;
  int32_t* degree;       // [n + m]: number of free neighbours of each vertex
  int32_t* queue;        // [n + m]: vertices of degree one
  int32_t* tokens;       // [side]: vertices that will push (push.cuh)
  int32_t* height;       // [side]: heights of vertices (push.cuh)
  SearchTarget* target;  // [side]
  SearchEntry* list[2];  // [side + capacity / kEntryEdges]
  int32_t* leaf;         // [side]: the free vertex that each root's tree has reached, or -1
  int32_t* found;        // [side]: roots whose trees have reached a free vertex
  SearchOffer* offers;   // [most_offers], zero if not yet offered or already taken
  int64_t most_offers;

  JAXMATCH_DEVICE MatchingSide rows() const {
    return {graph.row_ptr, graph.col_ind, col4row, graph.n};
  }
  JAXMATCH_DEVICE MatchingSide cols() const {
    return {graph.col_ptr, graph.row_ind, row4col, graph.m};
  }
};

// Divides the scratch buffer at `base` among the arrays of `s`. `stepped`: calls are limited to a
// number of steps. Returns the bytes used. With a null `base`, it only counts them.
inline int64_t lay_out_matching(MatchingState& s, char* base, bool stepped) {
  DeviceArena arena{base};
  const int64_t n = s.graph.n, m = s.graph.m;
  s.side = n > m ? n : m;
  const int64_t side = s.side > 0 ? s.side : 1;
  const int64_t entries = side + s.graph.capacity / kEntryEdges + 1;
  if (stepped) {
    arena.take(s.col4row, n + 1);
    arena.take(s.row4col, m + 1);
  } else {
    s.col4row = s.results.col4row;
    s.row4col = s.results.row4col;
  }
  arena.take(s.degree, n + m + 1);
  arena.take(s.queue, n + m + 1);
  arena.take(s.tokens, side);
  arena.take(s.height, side);
  arena.take(s.target, side);
  arena.take(s.list[0], entries);
  arena.take(s.list[1], entries);
  arena.take(s.leaf, side);
  arena.take(s.found, side);
  s.most_offers = entries + kMatchingThreads;
  arena.take(s.offers, s.most_offers);
  return arena.used;
}

constexpr Size kSizes[] = {
    {"matching.control", constant<kMatchingControlWords>},
    {"matching.control.done", constant<offsetof(MatchingControl, done) / 4>},
    {"matching.scratch",  // arguments: n, m, edges
     [](const int64_t* a) {
       MatchingState s{};
       s.graph.n = int32_t(a[0]), s.graph.m = int32_t(a[1]), s.graph.capacity = a[2];
       return words(lay_out_matching(s, nullptr, true));
     }},
};

}  // namespace jaxmatch::matching

#endif  // JAXMATCH_MATCHING_CUDA_LAYOUT_H_
