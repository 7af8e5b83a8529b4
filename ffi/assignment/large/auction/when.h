// When an auction runs: after the first bids on candidates, or where the core method gives up.
#ifndef JAXMATCH_LARGE_AUCTION_WHEN_H_
#define JAXMATCH_LARGE_AUCTION_WHEN_H_

#include "assignment/large/state.h"

namespace jaxmatch::assignment::large {

// An auction runs if bids on the first candidates leave more than one in so many rows free: 2 to
// 4 in 100 are free on uniform costs and on features, 6 in a cube, 9 in a square, 45 to 60 if
// clouds of points must be moved far. In parts of the time with an auction, searches alone need 0.5
// to 0.8 in a cube, and 0.5 to 1.3 in a square.
constexpr int64_t kPartFree = 13;
// Where many costs are equal, an auction waits for more free rows, as searches find many paths at
// once: one in 12 is free on integers to n / 10, one in 5 on eight classes of rows or with three
// zeros a row.
constexpr int64_t kPartFreeOfEqual = 7;

// Many costs are equal where those of a row span no more units than there are rows. This is found
// out from so many rows.
constexpr int64_t kSampledRows = 64;
JAXMATCH_DEVICE inline AuctionState auction_for(int64_t spread, int64_t rows) {
  return spread <= rows ? kMayHoldLate : kMayHoldAuction;
}

JAXMATCH_DEVICE inline bool may_hold_auction(const Control& c) {
  const int auction = load_relaxed(&c.auction);
  return auction == kMayHoldAuction || auction == kMayHoldLate;
}

// After bids on candidates.
JAXMATCH_DEVICE inline bool auction_follows(const Control& c) {
  const bool equal = load_relaxed(&c.auction) == kMayHoldLate;
  const int64_t part = equal ? kPartFreeOfEqual : kPartFree;
  return may_hold_auction(c) && part * load_relaxed(&c.free_rows) > load_relaxed(&c.rows);
}

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_WHEN_H_
