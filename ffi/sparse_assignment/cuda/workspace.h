// The state of one problem of sparse assignment on CUDA, in global or in shared memory.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WORKSPACE_H_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WORKSPACE_H_

#include <cstdint>

#include "common/compensated_sum.h"
#include "common/cuda/team_slots.h"
#include "common/host_device.h"
#include "common/sizes.h"

namespace jaxmatch::sparse_assignment {

using team::kMostBlocks, team::Slots;

// Values of one path search as a whole (path_search.cuh). The labels of single columns are in a
// Table. The end of a path is a free column, or a row that the path leaves unmatched.
struct Labels {
  int64_t end;           // the distance of the nearest end found so far
  uint64_t end_by;       // that end (high bits), and the edge that leads to it
  int32_t used;          // number of used slots of the table
  int32_t chosen;        // number of columns to scan in this step
  int32_t full;          // nonzero if the table had no slot for a column
  int32_t listed, path;  // numbers of recorded columns and path edges
};

// Values that the blocks of a problem share.
struct Control {
  int32_t listed[3];  // lengths of the lists of free rows; round r of bids uses entry r % 3
  int32_t low;        // nonzero if a row of the auction cannot bid, see Bids::low
  int32_t wrong;      // nonzero if a row or column that must be matched cannot be
  int32_t batch;      // number of searches in the wave
  int32_t next;       // index in list[0] of the first row whose search has not run
  struct Tally {
    int32_t moves, conflicts;
  } tally[2];          // counts of a wave; waves alternate between the two
  uint64_t bits;       // bitwise or of all costs
  int32_t queued[3];   // lengths of the queues of a price update; step s uses entry s % 3
  int32_t ends;        // number of ends of paths
  int32_t reached[3];  // free vertices with a new path: step s writes entry (s + 1) % 3

  // Members of Bids, after rounds that one block has played alone.
  struct Rounds {
    int64_t bids;
    int32_t turn;
    bool low;
  } alone;
};

// The record of one search of a wave.
struct Search {
  int64_t end, u;        // distance of the path's end; smallest cost - price of its start row
  int32_t start, stays;  // start row; the row that the path leaves unmatched, or kNone
  int32_t listed, path, outcome;
};

// Number of rows or columns in a chunk. Costs are summed by chunks, so that the sum does not depend
// on the number of blocks.
constexpr int64_t kChunk = 1024;
// Number of buckets of a histogram of nonnegative 64-bit numbers.
constexpr int kBuckets = 256;
// Most warps of a block.
constexpr int kMostBlockWarps = 16;

// Number of slots in the hash table for a search by one warp (kFewSlots for small problems or
// little shared memory), and bytes of a slot. A search by a block uses the tables of all its warps
// as one table.
constexpr int64_t kMostSlots = 256, kFewSlots = 128, kSlotBytes = 8 + 8 + 8 + 4 + 4 + 4 + 4;

// Limit on the number of columns in a table. It leaves slots free, because several threads may
// exceed it at once, each by one column, and one slot must stay empty.
JAXMATCH_HOST_DEVICE constexpr int64_t most_in(int64_t slots) { return slots / 8 * 5; }

struct Workspace {
  uint64_t* arrivals;  // number of arrivals at barriers between blocks; zero at launch
  Slots* slots;        // [2] words for reductions over blocks
  Control* control;
  FullRangeSum* part;     // [chunks] sum of the costs of each chunk
  int32_t* of_warps;      // [warps] scratch of compact()
  int32_t* histogram;     // [kBuckets] scratch of Auction::typical_difference()
  Search* search;         // [waves] records of searches
  int32_t* batch[2];      // [waves] start rows; waves alternate between both
  int64_t* moved_dist;    // [waves, recorded] distances of the columns in `moved`
  int32_t *moved, *path;  // [waves, recorded (+ 1)] columns that a search changes; path edges
  int64_t *price, *stay, *offset;  // [vertices] prices of columns; see Reader::write_stays()
  int64_t *u, *level;              // [vertices] row duals; prices that bids offer
  uint64_t* best;                  // [vertices] smallest key of the bids for each column
  uint64_t* claim;                 // [vertices] the search of a wave that may change each column
  int64_t* dist;                   // [vertices] distance of a row or column to the nearest end
  uint64_t* by;  // [vertices] pairs on the path to the nearest end (high bits); first edge
  int32_t *queue[2], *queued;  // [vertices] queues of price updates; step that queued each vertex
  int32_t *chosen_by_own, *chosen_by_other;  // [vertices] the free vertex chosen for each end
  int32_t** chosen;       // [vertices] for each free vertex, the chosen_by_* entry of its end
  int32_t *pair, *owner;  // [vertices] the edge of each row; the row of each column
  int32_t* target;        // [vertices] the edge that each bid is for; pairs in a price update
  int32_t* list[2];       // [vertices] free rows, by turns; list[1]: ends in a price update
  int64_t* cost;          // [edges] cost in units, or kNever if forbidden
  int32_t* row;           // [edges] row of each edge in the given graph
  int32_t* by_col;        // [edges] the edges, sorted by column of the given graph
  int32_t* row_by_col;    // [edges] their rows
  int64_t* cost_by_col;   // [edges] their costs
  int64_t vertices, edges, bytes;  // vertices of the longer side; number of edges; total size

  JAXMATCH_HOST_DEVICE Workspace(char* base, int64_t n, int64_t m, int64_t edges)
      : vertices(n > m ? n : m), edges(edges) {
    bytes = 0;
    take(base, arrivals, 1);
    take(base, slots, 2);
    take(base, part, chunks(n + m));
    take(base, of_warps, blocks() * kMostBlockWarps);
    take(base, histogram, kBuckets);
    take(base, search, waves());
    take(base, moved_dist, waves() * recorded());
    take(base, moved, waves() * recorded());
    take(base, path, waves() * (recorded() + 1));
    take(base, dist, vertices);
    take(base, by, vertices);
    take(base, queue[0], vertices);
    take(base, queue[1], vertices);
    take(base, queued, vertices);
    take(base, chosen_by_own, vertices);
    take(base, chosen_by_other, vertices);
    take(base, chosen, vertices);
    take(base, by_col, edges);
    take(base, row_by_col, edges);
    take(base, cost_by_col, edges);
    take_state(base);
  }

  // Moves the most used arrays to `base`, in the shared memory of a block that solves the problem
  // alone. Returns their size in bytes.
  JAXMATCH_HOST_DEVICE int64_t move_state(char* base) {
    const int64_t own = bytes;
    bytes = 0;
    take_state(base);
    const int64_t moved = bytes;
    bytes = own;
    return moved;
  }

  // The number of chunks that make up `count` rows and columns.
  JAXMATCH_HOST_DEVICE static int64_t chunks(int64_t count) {
    return (count + kChunk - 1) / kChunk;
  }
  // The largest number of blocks that all have work.
  JAXMATCH_HOST_DEVICE int64_t blocks() const {
    constexpr int64_t kWork = 1 << 12;  // minimum number of edges and vertices per block
    const int64_t useful = (edges + vertices) / kWork;
    return useful < 1 ? 1 : useful < kMostBlocks ? useful : kMostBlocks;
  }
  // The maximum number of searches in a wave (waves.cuh). Results depend on this number.
  JAXMATCH_HOST_DEVICE int64_t waves() const {
    constexpr int64_t kFew = 4, kMany = 2048;
    const int64_t wanted = vertices / 16;
    return wanted < kFew ? kFew : wanted < kMany ? wanted : kMany;
  }
  // The most columns that a search by one warp may record.
  JAXMATCH_HOST_DEVICE int64_t recorded() const {
    return vertices < most_in(kMostSlots) ? vertices : most_in(kMostSlots);
  }

 private:
  JAXMATCH_HOST_DEVICE void take_state(char* base) {
    take(base, control, 1);
    take(base, batch[0], waves());
    take(base, batch[1], waves());
    take(base, price, vertices);
    take(base, stay, vertices);
    take(base, offset, vertices);
    take(base, u, vertices);
    take(base, level, vertices);
    take(base, best, vertices);
    take(base, claim, vertices);
    take(base, pair, vertices);
    take(base, owner, vertices);
    take(base, target, vertices);
    take(base, list[0], vertices);
    take(base, list[1], vertices);
    take(base, cost, edges);
    take(base, row, edges);
  }
  template <class T>
  JAXMATCH_HOST_DEVICE void take(char* base, T*& array, int64_t count) {
    array = reinterpret_cast<T*>(base + bytes);
    bytes += (count * int64_t(sizeof(T)) + 15) / 16 * 16;
  }
};

constexpr Size kSizes[] = {
    {"sparse_assignment.workspace",  // arguments: n, m, edges
     [](const int64_t* a) { return words(Workspace(nullptr, a[0], a[1], a[2]).bytes); }},
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WORKSPACE_H_
