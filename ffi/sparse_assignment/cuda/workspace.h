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

// The labels of a whole search. Columns have labels of their own.
struct Labels {
  int64_t end;           // the distance of the nearest end found so far
  uint64_t end_by;       // that end, and the edge that leads there
  int32_t used;          // slots of a table
  int32_t chosen;        // slots of the step
  int32_t full;          // the table had no slot for a column
  int32_t listed, path;  // lengths of what is recorded
};

// What the blocks of a problem share.
struct Control {
  int32_t listed[3];  // rows, in rounds in turn
  int32_t low;        // a price has fallen too low
  int32_t wrong;      // some row or column that must be matched cannot be
  int32_t batch;      // searches of a wave
  int32_t next;       // the first row that no wave has searched from
  struct Tally {
    int32_t moves, conflicts;
  } tally[2];         // of a wave, in turn
  uint64_t bits;      // of all costs
  int32_t queued[2];  // vertices, in steps of a price update in turn

  // After rounds that one block played.
  struct Rounds {
    int64_t bids;
    int32_t turn;
    bool low;
  } alone;
};

// What a wave keeps of a search: columns that it moves, and the path.
struct Search {
  int64_t end, u;        // the distance of the end; the least reduced cost of the row that begins
  int32_t start, stays;  // the row that begins; the row that stays in the end, or kNone
  int32_t listed, path, outcome;
};

// Sums over so many rows do not depend on the number of blocks.
constexpr int64_t kChunk = 1024;
// Warps of a block, at most.
constexpr int kMostBlockWarps = 16;

// Slots of the hash table of a search by a warp, each of so many bytes. A search by a block takes
// the tables of all its warps as one.
constexpr int64_t kMostSlots = 256, kFewSlots = 128, kSlotBytes = 8 + 8 + 8 + 4 + 4 + 4 + 4;

// Columns in a table, at most. Each thread may add one more, and one slot must stay empty.
JAXMATCH_HOST_DEVICE constexpr int64_t most_in(int64_t slots) { return slots / 8 * 5; }

struct Workspace {
  uint64_t* arrivals;  // at barriers of several blocks; zero at launch
  Slots* slots;        // [2]
  Control* control;
  FullRangeSum* part;              // [chunks] of the cost
  int32_t* of_warps;               // [warps]
  Search* search;                  // [waves]
  int32_t* batch[2];               // [waves] rows, in waves in turn
  int64_t* moved_dist;             // [waves, recorded] columns that a search moves
  int32_t *moved, *path;           // [waves, recorded]
  int64_t *price, *stay, *offset;  // [vertices] of columns, rows, columns
  int64_t *u, *level;              // [vertices] of rows; of the bids of a round
  uint64_t* best;                  // [vertices] the bid of a round that wins, for columns
  uint64_t* claim;                 // [vertices] the search of a wave that may move a column
  int64_t* dist;                   // [vertices] of rows or columns to the nearest end
  uint64_t* by;                    // [vertices] pairs on the way there (high bits), and the edge
  int32_t *queue[2], *queued;      // [vertices] of a side; whether they are in the queue
  int32_t *chosen_by_own, *chosen_by_other;  // [vertices] of ends: the vertex that may have it
  int32_t** chosen;                // [vertices] the entry of its end, for each free vertex
  int32_t *pair, *owner;           // [vertices] edges of rows; rows of columns
  int32_t* target;                 // [vertices] edges that bids of a round are for
  int32_t* list[2];                // [vertices] free rows, in rounds in turn
  int64_t* cost;                   // [edges] units, or kNever
  int32_t* row;                    // [edges] that of the graph as given
  int32_t* by_col;                 // [edges] in the order of the columns as given
  int64_t vertices, edges, bytes;  // vertices of a side, at most

  JAXMATCH_HOST_DEVICE Workspace(char* base, int64_t n, int64_t m, int64_t edges)
      : vertices(n > m ? n : m), edges(edges) {
    bytes = 0;
    take(base, arrivals, 1);
    take(base, slots, 2);
    take(base, part, chunks(n + m));
    take(base, of_warps, blocks() * kMostBlockWarps);
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
    take_state(base);
  }

  // Moves what is read and written most to `base`, in the shared memory of a block that works
  // alone. Returns the size.
  JAXMATCH_HOST_DEVICE int64_t move_state(char* base) {
    const int64_t own = bytes;
    bytes = 0;
    take_state(base);
    const int64_t moved = bytes;
    bytes = own;
    return moved;
  }

  // Of rows and columns, one after the other.
  JAXMATCH_HOST_DEVICE static int64_t chunks(int64_t count) {
    return (count + kChunk - 1) / kChunk;
  }
  // As many as have work, at most.
  JAXMATCH_HOST_DEVICE int64_t blocks() const {
    constexpr int64_t kWork = 1 << 12;  // edges and vertices of a block, at least
    const int64_t useful = (edges + vertices) / kWork;
    return useful < 1 ? 1 : useful < kMostBlocks ? useful : kMostBlocks;
  }
  // Searches of a wave, at most. The results depend on it.
  JAXMATCH_HOST_DEVICE int64_t waves() const {
    constexpr int64_t kFew = 4, kMany = 2048;
    const int64_t wanted = vertices / 16;
    return wanted < kFew ? kFew : wanted < kMany ? wanted : kMany;
  }
  // Columns that a search may record: those of searches by a warp.
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
