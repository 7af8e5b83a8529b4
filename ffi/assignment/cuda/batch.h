// Argument of the kernels: a batch of dense assignment problems, and the layout of shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
#define JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_

#include <cstdint>

#include "assignment/operands.h"
#include "common/host_device.h"

// The functions in this header run on the host and in kernels.
namespace jaxmatch::assignment {

// Indices have 16 bits, and the state of a problem must fit in shared memory.
constexpr int64_t longest_side(Dtype dtype) { return dtype == Dtype::kS64 ? 2048 : 4096; }

// Distance between rows of a copy. Packs of a row stay aligned, and in shared memory the stores of
// a transposition spread over the banks.
JAXMATCH_HOST_DEVICE constexpr int64_t copied_stride(int64_t cols, int pack, bool in_shared) {
  return in_shared ? ((cols + pack - 1) / pack | 1) * pack : (cols + 3) / 4 * 4;
}

// Number of columns for which duals are stored: rounded up to the columns that a warp reads at
// once, 1, 2 or 4 packs for each lane.
JAXMATCH_HOST_DEVICE constexpr int padded_width(int64_t cols, int pack, bool one_warp) {
  const int step = 32 * pack * (one_warp ? 1 : 2);
  const int width = int((cols + step - 1) / step) * step;
  return one_warp || width <= step ? width : int((cols + 2 * step - 1) / (2 * step)) * 2 * step;
}

// Tiles for transposition: one for each warp, as many as fit in kTileBytes.
constexpr int kTileEntries = 32 * 33, kTileBytes = 16 * kTileEntries * 4;

// Indices into SharedLayout::control and ::counter; bytes of ::slots.
enum Control { kRowCount, kColCount, kTooWideFlag, kInfeasibleFlag, kLeft, kControls };
enum Counter { kFrontier0, kFrontier1, kPaths, kSlack, kCounters };
constexpr int kSlotBytes = 2048;

// Layout of one problem in shared memory: byte offsets from its base.
struct SharedLayout {
  int v, u;              // duals, 8 bytes each (16 for 64-bit integers)
  int leave;             // unmatched costs, likewise; only where given
  int reach;             // distances, likewise
  int row4col, col4row;  // 16 bits, like all below
  int free_rows;         // room for 32 bits a row
  int pred;
  int row_ids, col_ids;  // only with masks
  int slots, control;    // exchange between warps
  int claim;             // 32 bits for each column: the first warp or row that takes it
  int tight, visited, end, root, frontiers, counter;  // for ties; tight is -1 without
  int tiles;                                          // for transposition into the workspace
  int costs;  // a copy of the costs in canonical form; -1: in the workspace
  int bytes;
};

// Limits of the start, after which searches take over.
struct Effort {
  float rebids;      // of rows that augmenting row reduction displaces, per row
  float crowd;       // row reduction goes on while this part of the warps is busy
  float tied;        // costs of at most this many units for each row count as tied
  int dual_updates;  // limit of the start for ties
};

// What an auction writes for each problem, as offsets in words of 32 bits: the range of the costs;
// the prices of the columns of the canonical form, NaN if it was not held; the column of each row,
// kNone or kDropped.
constexpr int kAuctionPrices = 8;
JAXMATCH_HOST_DEVICE inline int64_t auction_pairs(const AssignmentOperands& o) {
  return kAuctionPrices + (o.unmatched_cost || o.m > o.n ? o.m : o.n);
}
JAXMATCH_HOST_DEVICE inline int64_t auction_words(const AssignmentOperands& o) {
  return (kAuctionPrices + o.n + o.m + 1) / 2 * 2;
}

struct AssignmentBatch : AssignmentOperands {
  void* workspace;          // a copy of the costs in canonical form, if one may be needed
  int64_t workspace_costs;  // number of costs in it, for one problem
  SharedLayout shared;
  Effort effort;
  bool all_search;    // all warps of a block search, not only those that have columns
  uint32_t* auction;  // [batch, auction_words()]; null without one
  bool gathered;      // the workspace holds the copies already
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
