// Launch plan of the auction that supplies prices and pairs to start from: which problems it takes,
// its blocks and their shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "assignment/cuda/batch.h"
#include "assignment/cuda/plan.h"

namespace jaxmatch::assignment {

// More threads would wait longer for each other than they save: 1024 take a fifth longer.
constexpr int kAuctionThreads = 512, kRangeWords = 8;

// Byte offsets in the shared memory of each block.
struct AuctionLayout {
  int price;             // float32, -inf beyond the last column
  int best;              // the winning bid of each column, 64 bits
  int row4col, col4row;  // 16 bits
  int mine;              // two lists of the free rows that this block bids for, 16 bits
  int next_best;         // of the rows of this block, float32: see Auction
  int leave;             // likewise: unmatched costs; only where given
  int mail, mail_count;  // bids from every block, for two rounds in turn
  int partial;           // bids of warps that share a row; maxima of warps
  int range;             // ranges of the costs, from every block
  int control;
};

// `shared` has what reading the masks and copying the costs needs.
struct AuctionBatch : AssignmentBatch {
  int32_t* counts;   // [batch, 2] rounds, and rows that were scanned; null if not asked for
  int shift;         // 2^shift blocks of one problem: a cluster
  int most_of_mine;  // rows of one block
  AuctionLayout at;
  bool always;  // also for problems that searches solve faster; for tests
};

// Where one warp is not fast enough, and the sides do not differ so much that searches soon meet a
// free column. `asked`: see plan.h.
inline bool has_auction(const AssignmentOperands& o, const char* asked = nullptr) {
  constexpr int64_t kFewest = 192, kMostRatio = 2;
  if (asks_for(asked, "no-auction") || o.start_dual) return false;
  const auto [shorter, longer] = std::minmax({o.n, o.m});
  if (longer > longest_side(o.cost_dtype) || shorter == 0) return false;
  return asks_for(asked, "auction") || (shorter >= kFewest && longer <= kMostRatio * shorter);
}

// Sets the layout of `b`, for so many blocks.
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
  SharedStack tiles = stack;  // unused once the auction begins: later arrays overlap them
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

// Blocks of each problem: as many as leave no multiprocessor idle, as long as each has rows enough.
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
