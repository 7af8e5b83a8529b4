// Argument of the kernels: a batch of dense assignment problems, and the layout of shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
#define JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_

#include <cstdint>

#include "assignment/operands.h"
#include "common/host_device.h"

// The functions in this header run on the host and in kernels.
namespace jaxmatch::assignment {

// The longest side that a problem may have. Indices have 16 bits, and the state of a problem must
// fit in shared memory.
constexpr int64_t longest_side(Dtype dtype) { return dtype == Dtype::kS64 ? 2048 : 4096; }

// Distance, in costs, between rows of a copy of the costs. It keeps packs (`pack` adjacent costs
// that a thread loads at once) aligned. In shared memory it is an odd number of packs, so that the
// stores of a transposition spread over the banks.
JAXMATCH_HOST_DEVICE constexpr int64_t copied_stride(int64_t cols, int pack, bool in_shared) {
  return in_shared ? ((cols + pack - 1) / pack | 1) * pack : (cols + 3) / 4 * 4;
}

// Number of columns for which duals are stored: `cols` rounded up to a multiple of the number of
// columns that a warp reads at once, which is 1, 2 or 4 packs per lane.
JAXMATCH_HOST_DEVICE constexpr int padded_width(int64_t cols, int pack, bool one_warp) {
  const int step = 32 * pack * (one_warp ? 1 : 2);
  const int width = int((cols + step - 1) / step) * step;
  return one_warp || width <= step ? width : int((cols + 2 * step - 1) / (2 * step)) * 2 * step;
}

// Costs are transposed into the workspace through tiles of 32 x 32 costs, whose rows have one entry
// of padding. Each warp has one tile; if kTileBytes has no room for all tiles, the last warps have
// none.
constexpr int kTileEntries = 32 * 33, kTileBytes = 16 * kTileEntries * 4;

// Indices into SharedLayout::control and SharedLayout::counter, and the size of SharedLayout::slots
// in bytes.
enum Control { kRowCount, kColCount, kTooWideFlag, kInfeasibleFlag, kLeft, kControls };
enum Counter { kFrontier0, kFrontier1, kPaths, kSlack, kCounters };
constexpr int kSlotBytes = 2048;

// Layout of one problem in shared memory: byte offsets from its base.
struct SharedLayout {
  int v, u;              // duals, 8 bytes each (16 for 64-bit integers)
  int leave;             // unmatched costs, same size; only if there are any
  int reach;             // distances of settled columns, same size
  int row4col, col4row;  // 16 bits each
  int free_rows;         // list of free rows, 16 bits each; has room for 32 bits a row
  int pred;              // the row before each column on its path, 16 bits each
  int row_ids, col_ids;  // indices of the unmasked rows and columns, 16 bits each; only with masks
  int slots, control;    // words that warps exchange
  int claim;             // 32 bits for each column: the lowest warp or row index that claims it
  int tight, visited, end, root, frontiers,
      counter;  // see Forest (start_ties.cuh); tight is -1 if unused
  int tiles;    // for transposition into the workspace
  int costs;    // the copy of the costs in canonical form; -1 if there is none in shared memory
  int bytes;    // of the whole layout
};

// Limits on the initialisation before the shortest-path searches (start_warp.cuh, start_block.cuh,
// start_ties.cuh). Rows that are still free when a limit is reached are left to the searches.
struct Effort {
  float rebids;      // limit on rebids in augmenting row reduction, per row of the problem
  float crowd;       // row reduction ends if no row waits and less than this part of the warps bids
  float tied;        // costs of at most tied * rows units count as heavily tied (start_ties.cuh)
  int dual_updates;  // limit on dual updates in the initialisation for tied costs
};

// An auction writes auction_words() words of 32 bits for each problem:
//   - from word 0 on, the range of the costs (CostRange);
//   - from word kAuctionPrices on, the price of each column of the canonical form. Prices are NaN
//     if no bids were made;
//   - from word auction_pairs() on, for each row its column, kNone or kDropped (canonical.cuh).
constexpr int kAuctionPrices = 8;
JAXMATCH_HOST_DEVICE inline int64_t auction_pairs(const AssignmentOperands& o) {
  return kAuctionPrices + (o.unmatched_cost || o.m > o.n ? o.m : o.n);
}
JAXMATCH_HOST_DEVICE inline int64_t auction_words(const AssignmentOperands& o) {
  return (kAuctionPrices + o.n + o.m + 1) / 2 * 2;
}

struct AssignmentBatch : AssignmentOperands {
  void* workspace;          // room for copies of the costs in canonical form, if any may be needed
  int64_t workspace_costs;  // number of costs per problem in the workspace
  SharedLayout shared;
  Effort effort;
  bool all_search;    // all warps of a block take part in searches, even those without columns
  uint32_t* auction;  // [batch, auction_words()]; null without auctions
  bool gathered;      // the auction kernel has already copied the costs to the workspace
};

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_BATCH_H_
