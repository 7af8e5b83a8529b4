// The state of one large matching problem on a GPU, and where its parts lie in one buffer.
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

// Control words that all threads of a problem share. Python looks up their positions in kSizes.
struct MatchingControl {
  int32_t done, stage, roots_are_cols;
  int32_t phases, levels;
  int32_t turn;     // which of the two lists is in use
  int32_t roots;    // number of entries at the front of the list, where the next search begins
  int32_t targets;  // number of free vertices of side b that have edges
  int32_t found;    // number of augmenting paths of this phase
  int32_t entries;  // length of the list during WorkSharingBfs::work_sharing()
  int32_t step;     // step of the ring, kept between launches
  int32_t unused;   // aligns the next four words, which are one load
  // Work sharing. working: number of blocks with work; stop: nonzero to stop; tickets: number of
  // tickets drawn by idle blocks; offers: number of published offers.
  int32_t working, stop, tickets, offers;
  Tally ring[kTallies];
};
constexpr int64_t kMatchingControlWords = 64;
static_assert(sizeof(MatchingControl) <= 4 * kMatchingControlWords, "");
static_assert(offsetof(MatchingControl, working) % 16 == 0, "");

constexpr int32_t kFreeVertex = -1;
constexpr int32_t kBusyVertex = -2;  // being matched by some thread

// One side of the graph: its adjacency and its mates.
struct MatchingSide {
  const int32_t *ptr, *adj;
  int32_t* mate;
  int32_t count;
};

// A search alternates between two sides, a and b. A target is a vertex of side b. It stores:
// - its mate,
// - the mate's neighbours, adj[first .. first + degree) of side a,
// - its parent in the tree: the target whose mate reached it, or a root (see root_as_parent()).
// Following a path takes one load per step.
struct alignas(16) SearchTarget {
  int32_t mate, first, degree, parent;
};
constexpr int32_t kNoParent = -1;
JAXMATCH_HOST_DEVICE inline int32_t root_as_parent(int32_t root) { return -2 - root; }
JAXMATCH_HOST_DEVICE inline int32_t parent_as_root(int32_t parent) { return -2 - parent; }

// Neighbours of a vertex of side a that are still to be searched, adj[first .. first + degree). The
// vertex is a root or the mate of a target; `vertex` encodes it like `parent` above.
struct alignas(16) SearchEntry {
  int32_t vertex, root, first, degree;
};
// Entries base .. base + count - 1 of the list, offered to another block.
struct SearchOffer {
  int32_t base, count;
};

#ifndef JAXMATCH_EMULATED
constexpr int kEntryEdges = 256;  // most edges of one entry
#endif

struct MatchingState {
  MatchingControl* control;
  BipartiteCsr graph;
  MatchingResults results;
  int64_t side;      // length of the longer side
  int32_t* col4row;  // the current matching: the result arrays, or arrays of the scratch if stepped
  int32_t* row4col;
  int32_t* degree;       // [n + m]: number of free neighbours
  int32_t* queue;        // [n + m]: vertices of degree one
  int32_t* tokens;       // [side]
  int32_t* height;       // [side]
  SearchTarget* target;  // [side]
  SearchEntry* list[2];  // [side + capacity / kEntryEdges]
  int32_t* leaf;         // [side]: the free vertex that each root's tree has reached
  int32_t* found;        // [side]: roots whose trees have reached a free vertex
  SearchOffer* offers;   // [most_offers], zero if not offered yet or already taken
  int64_t most_offers;

  JAXMATCH_DEVICE MatchingSide rows() const {
    return {graph.row_ptr, graph.col_ind, col4row, graph.n};
  }
  JAXMATCH_DEVICE MatchingSide cols() const {
    return {graph.col_ptr, graph.row_ind, row4col, graph.m};
  }
};

// Divides the scratch buffer at `base` among the arrays of `s`. Returns the bytes used; a null base
// only measures them.
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
