// The state of one problem of sparse assignment on CUDA, in global or in shared memory.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WORKSPACE_H_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_WORKSPACE_H_

#include <cstdint>

#include "common/cuda/team_slots.h"
#include "common/host_device.h"
#include "common/sizes.h"

namespace jaxmatch::sparse_assignment {

using team::kMostBlocks, team::Slots;

// A price or a reduced cost. With 128 bits, costs times the number of vertices, and sums of these
// along a path, fit.
using Price = __int128;

// What the blocks of a problem share.
struct Control {
  int32_t listed[3];  // vertices, in rounds in turn
  int32_t deep;       // a price has fallen far for the step of the scale
  int32_t stuck;      // a vertex has no way to be matched

  // After rounds that one block played.
  struct Rounds {
    int64_t bids;
    int32_t turn;
    bool stuck, deep;
  } alone;
};

// Sums over so many rows do not depend on the number of blocks.
constexpr int64_t kChunk = 1024;

struct Workspace {
  uint64_t* arrivals;  // at barriers of several blocks; zero at launch
  Slots* slots;        // [2]
  Control* control;
  Price* price;             // [vertices] of right vertices, 0 or less
  Price* level;             // [vertices] of the bids of a round
  uint64_t* best;           // [vertices] the bid of a round that wins, for right vertices
  int64_t* stay;            // [vertices] units of leaving a left vertex, or kMustMatch
  int64_t* units;           // [edges] costs, or kForbidden
  double* part;             // [2, chunks] of the cost
  int32_t *mate, *owner;    // [vertices] of left and of right vertices, or kNone
  int32_t* target;          // [vertices] right vertices that bids of a round are for
  int32_t* list[2];         // [vertices] free left vertices, in rounds in turn
  int64_t vertices, bytes;  // of a side, at most

  JAXMATCH_HOST_DEVICE Workspace(char* base, int64_t n, int64_t m, int64_t edges) {
    vertices = n + m;
    bytes = 0;
    take(base, arrivals, 1);
    take(base, slots, 2);
    take(base, part, 2 * chunks());
    take_state(base, edges);
  }

  // Moves what is read and written most to `base`, in the shared memory of a block that works
  // alone. Returns the size.
  JAXMATCH_HOST_DEVICE int64_t move_state(char* base, int64_t edges) {
    const int64_t own = bytes;
    bytes = 0;
    take_state(base, edges);
    const int64_t moved = bytes;
    bytes = own;
    return moved;
  }

  // Of rows and columns, one after the other.
  JAXMATCH_HOST_DEVICE int64_t chunks() const { return (vertices + kChunk - 1) / kChunk; }

 private:
  JAXMATCH_HOST_DEVICE void take_state(char* base, int64_t edges) {
    take(base, control, 1);
    take(base, price, vertices);
    take(base, level, vertices);
    take(base, best, vertices);
    take(base, stay, vertices);
    take(base, units, edges);
    take(base, mate, vertices);
    take(base, owner, vertices);
    take(base, target, vertices);
    take(base, list[0], vertices + 2);
    take(base, list[1], vertices + 2);
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
