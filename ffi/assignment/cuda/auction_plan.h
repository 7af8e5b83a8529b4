// Launch plan of the auction that supplies start prices: which problems it takes, its blocks and
// their shared memory.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_

#include <algorithm>
#include <cstdint>

#include "assignment/cuda/batch.h"
#include "assignment/cuda/plan.h"

namespace jaxmatch::assignment {

constexpr int kMostAuctionWarps = 32, kRangeWords = 8;

// Byte offsets in the shared memory of each block.
struct AuctionLayout {
  int price;             // float32, -inf for columns that do not take part
  int best;              // the winning bid of each column, 64 bits
  int row4col, col4row;  // 16 bits
  int mine;              // two lists of the free rows that this block bids for, 16 bits
  int mail, mail_count;  // bids from every block, for two rounds in turn
  int partial;           // bids of warps that share a row
  int range;             // ranges of the costs, from every block
  int control;
  int bytes;
};

struct AuctionBatch : AssignmentOperands {
  float* prices;     // [batch, m]
  int32_t* counts;   // [batch, 2] rounds, and rows that were scanned; null if not asked for
  int shift;         // 2^shift blocks of one problem: a cluster
  int most_of_mine;  // free rows of one block
  AuctionLayout shared;
  bool always;  // also for problems that searches solve faster; for tests
};

// Where every row and column must be matched, and one warp is not fast enough. `asked`: see plan.h.
inline bool has_auction(const AssignmentOperands& o, const char* asked = nullptr) {
  constexpr int64_t kFewest = 192;
  if (asks_for(asked, "no-auction")) return false;
  const int64_t fewest = asks_for(asked, "auction") ? 1 : kFewest;
  return o.n == o.m && o.n >= fewest && o.n <= longest_side(o.cost_dtype) && !o.unmatched_cost &&
         !o.start_dual;
}

inline AuctionLayout lay_out_auction(int64_t n, int blocks) {
  const int64_t width = (n + 127) / 128 * 128, mine = (n + blocks - 1) / blocks;
  SharedStack stack;
  AuctionLayout s{};
  s.price = stack.take(width * 4);
  s.best = stack.take(std::max<int64_t>(n * 8, 3 * 32 * 8));  // room for find_bounds(), too
  s.row4col = stack.take(n * 2);
  s.col4row = stack.take(n * 2);
  s.mine = stack.take(2 * mine * 2);
  s.mail = stack.take(2 * blocks * mine * 8);
  s.mail_count = stack.take(2 * blocks * 4);
  s.partial = stack.take(kMostAuctionWarps * 16);
  s.range = stack.take(blocks * kRangeWords * 8);
  s.control = stack.take(8 * 4);
  s.bytes = int(stack.used);
  return s;
}

// Blocks of each problem: as many as leave no multiprocessor idle, as long as each has rows enough.
inline int auction_blocks(int64_t batch, int64_t n, int multiprocessors, int most,
                          const char* asked = nullptr) {
  if (asks_for(asked, "cluster-1")) return 1;
  if (asks_for(asked, "cluster-2")) return std::min(most, 2);
  int blocks = 1;
  while (2 * blocks <= most && batch * 2 * blocks <= multiprocessors && n >= 128 * 2 * blocks) {
    blocks *= 2;
  }
  return blocks;
}

inline AuctionBatch make_auction(const AssignmentOperands& o, float* prices, int blocks) {
  int shift = 0;
  while (1 << shift < blocks) ++shift;
  AuctionBatch b{o, prices, nullptr, shift, int((o.n + blocks - 1) / blocks), {}, false};
  b.shared = lay_out_auction(o.n, blocks);
  return b;
}

inline int auction_threads(int64_t n) {
  return n > 256 ? kMostAuctionWarps * 32 : kMostAuctionWarps * 16;  // a power of two
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUCTION_PLAN_H_
