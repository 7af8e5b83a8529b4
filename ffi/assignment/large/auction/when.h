// When an auction runs: after the first bids on candidates, or when the core method gives up.
#ifndef JAXMATCH_LARGE_AUCTION_WHEN_H_
#define JAXMATCH_LARGE_AUCTION_WHEN_H_

#include "assignment/large/state.h"

namespace jaxmatch::assignment::large {

// An auction runs if bids on the first candidates leave more than 1 in kPartFree rows free. Of 100
// rows, 2 to 4 are free on uniform costs and on feature vectors, 6 for points in a cube, and 9 for
// points in a square. If points lie far from their partners, 45 to 60 are free. In a cube, searches
// alone take 0.5 to 0.8 times as long as a solve with an auction; in a square, 0.5 to 1.3 times.
constexpr int64_t kPartFree = 13;
// If many costs are equal, searches find many paths at once, and an auction runs only if more rows
// are free. On random integers up to n / 10, 1 in 12 rows is free. With eight classes of identical
// rows, or with three zeros per row and ones elsewhere, it is 1 in 5.
constexpr int64_t kPartFreeOfEqual = 7;

// Many costs are equal if the costs of a row span no more units than there are rows. kSampledRows
// rows are sampled to find this out.
constexpr int64_t kSampledRows = 64;
JAXMATCH_DEVICE inline AuctionState auction_for(int64_t spread, int64_t rows) {
  return spread <= rows ? kMayHoldLate : kMayHoldAuction;
}

JAXMATCH_DEVICE inline bool may_hold_auction(const Control& c) {
  const int auction = load_relaxed(&c.auction);
  return auction == kMayHoldAuction || auction == kMayHoldLate;
}

// True if an auction follows the bids on candidates.
JAXMATCH_DEVICE inline bool auction_follows(const Control& c) {
  const bool equal = load_relaxed(&c.auction) == kMayHoldLate;
  const int64_t part = equal ? kPartFreeOfEqual : kPartFree;
  return may_hold_auction(c) && part * load_relaxed(&c.free_rows) > load_relaxed(&c.rows);
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_WHEN_H_
