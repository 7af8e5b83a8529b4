// A batch of dense assignment problems, as the handler hands it to the kernels.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
#define JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_

#include <cstdint>

#include "jaxmatch/assignment_operands.h"

namespace jaxmatch {

// Indices have 16 bits, and the state of a problem must fit shared memory. The same number stands
// in jaxmatch/_native/_assignment.py.
constexpr int kLongestSide = 4096;

// From one row of a copy to the next: rows stay aligned to 16 bytes, and a transposing store
// spreads over the banks of shared memory.
__host__ __device__ constexpr int copied_stride(int64_t cols) { return int((cols + 27) / 32 * 32 + 4); }

constexpr int kTiles = 8;  // of 32 x 33 entries, for transposition

// Where the state of one problem lies in shared memory: byte offsets from its base.
struct SharedLayout {
  int v, u;                  // duals, 8 bytes each (16 for 64-bit integers)
  int leave;                 // unmatched costs, likewise; only where given
  int row4col, col4row;      // 16 bits, like all below
  int free_rows, kept_rows;  // adjacent
  int pred;
  int row_ids, col_ids;  // only with masks
  int slots, control;    // what the warps tell each other
  int claim;             // 32 bits for each column: which warp or row is first
  int tight, visited, end, root, frontier, counter;  // of the stage for ties; tight is -1 without
  int tiles;             // for transposition into the workspace
  int words;             // a copy of the costs in canonical form; -1: in the workspace
  int bytes;
};

// How much augmenting row reduction is worth before searches take over.
struct Tuning {
  float rebids;  // of rows that are thrown out, per row
  float crowd;   // the least part of the warps that must be busy
  float tied;    // costs of at most this many units for each row are matched by ties
  int dual_updates;
};

struct AssignmentBatch : AssignmentOperands {
  void* workspace;          // a copy of the costs in canonical form, if one may be needed
  int64_t workspace_words;  // for one problem
  SharedLayout shared;
  Tuning tuning;
};

}  // namespace jaxmatch

#endif  // JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
