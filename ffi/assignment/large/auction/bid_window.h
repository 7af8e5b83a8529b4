// The rows that may bid in a round of an auction.
//
// If most rows want the same few columns, as identical rows do, nearly all bids of a round lose,
// and an auction needs n bids per row. In this case only the rows of a window bid, and the window
// widens once most of its rows have columns. A round in which all rows bid at the same prices is a
// Jacobi iteration. Bids one after another are a Gauss-Seidel iteration, which needs fewer bids
// (Bertsekas and Castanon 1991). A narrow window comes close to this, because few rows bid at the
// same prices.
#ifndef JAXMATCH_LARGE_AUCTION_BID_WINDOW_H_
#define JAXMATCH_LARGE_AUCTION_BID_WINDOW_H_

#include "assignment/large/state.h"

namespace jaxmatch::assignment::large {

class BidWindow {
 public:
  JAXMATCH_DEVICE explicit BidWindow(int64_t cols)
      : many_(greater(int64_t{kManyRows}, kCostsBetweenBarriers / cols)) {}

  // True if the window contains `row`. A window is a range of places in a scattered order of rows
  // (see place_of_row()), so it contains rows of each kind.
  JAXMATCH_DEVICE bool has(int64_t row) const { return place_of_row(row, 0) < end_; }
  JAXMATCH_DEVICE bool is_open() const { return end_ == kMostRows; }

  // If few rows of the window are free, widens it and returns true. Each widening adds twice as
  // many rows as the one before.
  JAXMATCH_DEVICE bool widens(int64_t free_rows) {
    if (is_open() || free_rows > many_ / kFewPart) return false;
    settled_ = end_;
    end_ = lesser(end_ + added_, kMostRows);
    added_ *= 2;
    return true;
  }
  // If many rows have bid and nearly all of them lost, narrows the window and returns true. Most of
  // the rows that were added last leave the window.
  JAXMATCH_DEVICE bool narrows(int64_t bids, int64_t lost) {
    if (bids <= many_ || kBidsPerColumn * (bids - lost) >= bids) return false;
    added_ = greater((end_ - settled_) / kLeft, int64_t{1});
    end_ = settled_ + added_;
    return true;
  }

 private:
  // Number of costs that a GPU reads in the time that the barriers of a round take.
  static constexpr int64_t kCostsBetweenBarriers = int64_t{4} << 20;
  static constexpr int64_t kManyRows = 128, kFewPart = 4, kBidsPerColumn = 8, kLeft = 4;
  const int64_t many_;
  int64_t settled_ = 0, end_ = kMostRows, added_ = kMostRows;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_AUCTION_BID_WINDOW_H_
