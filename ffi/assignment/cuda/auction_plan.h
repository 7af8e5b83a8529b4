// Launch plan of the auction that supplies the exact solver with start prices (column duals) and
// pairs. Decides which problems have an auction and with how many blocks, and lays out the shared
// memory of a block.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "assignment/cuda/batch.h"
#include "assignment/cuda/plan.h"

namespace jaxmatch::assignment {

// Number of threads of a block. With 1024 threads, an auction takes a fifth longer, because threads
// wait for each other. kRangeWords is the number of 64-bit words per block in AuctionLayout::range.
constexpr int kAuctionThreads = 512, kRangeWords = 8;

// Byte offsets in the shared memory of each block.
struct AuctionLayout {
  int price;             // float32, -inf beyond the last column
  int best;              // the winning bid of each column, 64 bits
  int row4col, col4row;  // 16 bits
  int mine;              // two lists of the free rows that this block bids for, 16 bits
  int next_best;         // float32 for each row of this block, see Auction (auction.cuh)
  int leave;             // float32 unmatched costs of this block's rows; only if there are any
  int mail, mail_count;  // entries sent by every block, in two buffers for alternate rounds
  int partial;           // scratch: results of warps that share a row, or maxima of warps
  int range;             // kRangeWords words from each block, with the range of its costs
  int control;           // see AuctionState::Control
};

// Argument of the auction kernel. `shared` lays out only what reading the masks and copying the
// costs needs; `at` lays out the rest.
struct AuctionBatch : AssignmentBatch {
  int32_t* counts;   // [batch, 2] numbers of rounds and of scanned rows; may be null
  int shift;         // each problem has a cluster of 2^shift blocks
  int most_of_mine;  // greatest number of rows that a block bids for
  AuctionLayout at;
  bool always;  // runs the auction even if searches alone are faster; for tests
};

// True if the problems have an auction: they are too large for one warp to be fast enough, and the
// longer side is at most kMostRatio times the shorter one. With more columns to spare, searches are
// short, because they soon meet a free column. For `asked` see asks_for() in plan.h.
inline bool has_auction(const AssignmentOperands& o, const char* asked = nullptr) {
  constexpr int64_t kFewest = 192, kMostRatio = 2;
  if (asks_for(asked, "no-auction") || o.start_dual) return false;
  const auto [shorter, longer] = std::minmax({o.n, o.m});
  if (longer > longest_side(o.cost_dtype) || shorter == 0) return false;
  return asks_for(asked, "auction") || (shorter >= kFewest && longer <= kMostRatio * shorter);
}

// Sets the layout of `b` for `blocks` blocks per problem.
inline void lay_out_auction(AuctionBatch& b, int blocks) {
  const auto [rows, cols] = Sides(b);
  const int64_t width = (cols + 127) / 128 * 128;
  b.most_of_mine = int((rows + blocks - 1) / blocks);
  SharedStack stack;
  SharedLayout& s = b.shared = {};
  s.costs = -1;
  s.row_ids = stack.take(b.row_mask ? b.n * 2 : 0);
  s.col_ids = stack.take(b.col_mask ? b.m * 2 : 0);
  s.control = stack.take(kControls * 4);
  SharedStack tiles = stack;  // unused once the auction begins, so later arrays overlap the tiles
  if (may_transpose(b)) s.tiles = tiles.take(kTileBytes);
  AuctionLayout& a = b.at;
  a.price = stack.take(width * 4);
  a.best = stack.take(cols * 8);
  a.row4col = stack.take(cols * 2);
  a.col4row = stack.take(rows * 2);
  a.mine = stack.take(2 * b.most_of_mine * 2);
  a.next_best = stack.take(b.most_of_mine * 4);
  a.leave = stack.take(b.unmatched_cost ? b.most_of_mine * 4 : 0);
  a.mail = stack.take(2 * blocks * b.most_of_mine * 8);
  a.mail_count = stack.take(2 * blocks * 4);
  a.partial = stack.take(kRangeWords * 32 * 8);
  a.range = stack.take(blocks * kRangeWords * 8);
  a.control = stack.take(8 * 4);
  s.bytes = int(std::max(stack.used, tiles.used));
}

// Number of blocks for each problem: the greatest power of two, up to `most`, with which the blocks
// of all problems fit on different multiprocessors and each block has at least 128 rows.
inline int auction_blocks(const AssignmentOperands& o, int multiprocessors, int most,
                          const char* asked = nullptr) {
  if (asks_for(asked, "cluster-1")) return 1;
  if (asks_for(asked, "cluster-2")) return std::min(most, 2);
  int blocks = 1;
  while (2 * blocks <= most && o.batch * 2 * blocks <= multiprocessors &&
         Sides(o).rows >= 128 * 2 * blocks) {
    blocks *= 2;
  }
  return blocks;
}

inline AuctionBatch make_auction(const AssignmentBatch& o, int blocks) {
  AuctionBatch b{};
  static_cast<AssignmentBatch&>(b) = o;
  while (1 << b.shift < blocks) ++b.shift;
  lay_out_auction(b, blocks);
  return b;
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_
