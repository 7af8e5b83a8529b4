// A batch of dense assignment problems, as the handler hands it to the kernels.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
#define JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_

#include <cstdint>

#include "assignment/operands.h"
#include "common/host_device.h"

// Called by the host and by kernels.
namespace jaxmatch::assignment {

// Indices have 16 bits, and the state of a problem must fit shared memory.
constexpr int64_t longest_side(Dtype dtype) { return dtype == Dtype::kS64 ? 2048 : 4096; }

// From one row of a copy to the next: rows that are read in packs stay aligned, and in shared
// memory a transposing store spreads over the banks.
JAXMATCH_HOST_DEVICE constexpr int64_t copied_stride(int64_t cols, int pack, bool in_shared) {
  return in_shared ? ((cols + pack - 1) / pack | 1) * pack : (cols + 3) / 4 * 4;
}

// The duals of how many columns are kept: as many as are read at once, 1, 2 or 4 packs of a warp.
JAXMATCH_HOST_DEVICE constexpr int padded_width(int64_t cols, int pack, bool one_warp) {
  const int step = 32 * pack * (one_warp ? 1 : 2);
  const int width = int((cols + step - 1) / step) * step;
  return one_warp || width <= step ? width : int((cols + 2 * step - 1) / (2 * step)) * 2 * step;
}

// Tiles for transposition: one for a warp, as many as fit.
constexpr int kTileEntries = 32 * 33, kTileBytes = 16 * kTileEntries * 4;

// Words in SharedLayout::control and ::counter; bytes of ::slots.
enum Control { kRowCount, kColCount, kTooWideFlag, kInfeasibleFlag, kLeft, kControls };
enum Counter { kFrontier0, kFrontier1, kPaths, kSlack, kCounters };
constexpr int kSlotBytes = 2048;

// Where the state of one problem lies in shared memory: byte offsets from its base.
struct SharedLayout {
  int v, u;              // duals, 8 bytes each (16 for 64-bit integers)
  int leave;             // unmatched costs, likewise; only where given
  int reach;             // distances, likewise
  int row4col, col4row;  // 16 bits, like all below
  int free_rows;         // twice the room
  int pred;
  int row_ids, col_ids;  // only with masks
  int slots, control;    // what the warps tell each other
  int claim;             // 32 bits for each column: which warp or row is first
  int tight, visited, end, root, frontiers, counter;  // of the stage for ties; tight: -1 without
  int tiles;                                          // for transposition into the workspace
  int costs;  // a copy of the costs in canonical form; -1: in the workspace
  int bytes;
};

// How much the start is worth before searches take over.
struct Effort {
  float rebids;      // of rows that augmenting row reduction throws out, per row
  float crowd;       // it goes on while this part of the warps is busy
  float tied;        // costs of at most this many units for each row count as tied
  int dual_updates;  // at most, of the stage for ties
};

struct AssignmentBatch : AssignmentOperands {
  void* workspace;          // a copy of the costs in canonical form, if one may be needed
  int64_t workspace_costs;  // for one problem
  SharedLayout shared;
  Effort effort;
  bool all_search;  // all warps of a block, not only those that have columns
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
