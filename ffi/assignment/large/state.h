// The state of one large problem between two launches, as pointers into one buffer.
#ifndef JAXMATCH_LARGE_STATE_H_
#define JAXMATCH_LARGE_STATE_H_

#include <cstddef>

#include "assignment/large/quantized_costs.h"
#include "common/device_arena.h"

namespace jaxmatch::assignment::large {

// Each row's candidate set: 4 candidates from each of 32 column classes (j modulo 32).
constexpr int kColumnClasses = 32, kCandidatesPerClass = 4,
              kCandidates = kColumnClasses * kCandidatesPerClass;

// The unit that a lane loads of a candidate set: the candidates of one class.
struct alignas(16) ClassCols {
  int32_t x[kCandidatesPerClass];
};
struct alignas(16) ClassKeys {
  int64_t x[kCandidatesPerClass];
};

constexpr int64_t kFar = int64_t{1} << 62;        // no path
constexpr int64_t kTooFar = int64_t{1} << 60;     // greater finite distances must not be added to
constexpr int64_t kMostPrice = int64_t{1} << 51;  // beyond, a double would round C - v
constexpr int kRowBits = 18;                      // of a row or a column, where packed
constexpr int64_t kMostRows = int64_t{1} << kRowBits;
constexpr int kLevels = 19;  // the longest path has less than 2^(kLevels - 1) steps
constexpr uint64_t kNoParent = ~uint64_t{0};
constexpr int64_t kNoDeadline = 0;  // as in the zeros from which a stepped solve begins

// Slacks as doubles, and as labels.
JAXMATCH_DEVICE inline int64_t whole_or_far(double x) { return x < infinity() ? int64_t(x) : kFar; }
JAXMATCH_DEVICE inline double slack_of_label(int64_t x) {
  return x < kFar ? double(x) : infinity();
}

// Values in place of a partner: free (and must be matched), matched to a dummy row of zeros that
// makes a wide problem square, or masked.
enum Partner : int32_t { kFree = -1, kSpare = -2, kAbsent = -3 };

enum Stage : int32_t {
  kBegin,
  kSelect,
  kBid,
  kAugment,
  kPrice,
  kAuction,
  kRefine,
  kFinish,
  kDone,
  kCheckClamped
};

// Where the Hungarian methods count the time of their steps.
constexpr Stage kReduce = kSelect, kCompress = kBid, kSearch = kAugment, kUpdateDuals = kPrice;

// State handed from one step of the core method to the next.
struct Progress {
  int64_t last_reach = 0;   // how far prices moved in the last search that allowed it
  int64_t usual_reach = 0;  // the same, of the last search that moved them; 0: none
  bool tight = true;        // the next search uses tight arcs only
  bool split = false;       // labels have no bits for hops
  bool limited = false;     // prices could not move as far as necessary
  int8_t caution = 3;       // 1 / 2^caution of the rows' prices may exceed their horizon at will,
  int8_t excess_bits = 0;   // and all by 2^excess_bits; 0: not at all
  int16_t slow = 0;         // steps that found few paths
};

// Whether the core method may run an auction, or has run one; one is enough.
enum AuctionState : int32_t {
  kNoAuction,    // of sharded costs, with more columns than rows or by a caller's wish
  kMayHoldLate,  // many costs are equal: see kPartFreeOfEqual and patience()
  kMayHoldAuction,
  kHeldAuctionOfEqual,  // many costs are equal
  kHeldAuction,
};

JAXMATCH_DEVICE inline bool is_held(int32_t auction) {
  return auction == kHeldAuction || auction == kHeldAuctionOfEqual;
}
JAXMATCH_DEVICE inline AuctionState state_when_held(int32_t before) {
  return before == kMayHoldLate ? kHeldAuctionOfEqual : kHeldAuction;
}

// Decisions shared by all threads. Words are read after a barrier, except the labels of dummy rows,
// which a search polls.
// Unit of the quantised costs.
enum Unit : int32_t {
  kFineUnit,
  kCoarseUnit,  // after an overflow. None follows unless the problem is infeasible: prices then
                // fall without a bound
  kNoUnit,  // after another one: all finite costs count as zero, to know whether there are pairs
};

struct Control {
  int32_t stage = kBegin, status = 0, free_rows = 0, steps = 0, pricings = 0, dense_steps = 0,
          bid_rounds = 0, rounds = 0;
  int32_t rows = 0;             // unmasked canonical rows
  int64_t spent[kFinish] = {};  // nanoseconds per stage
  int32_t cols = 0;
  int32_t flip = 0;  // canonical rows are the problem's columns
  int32_t unit = kFineUnit;
  int32_t stale = 0;            // duals have moved since the last pricing
  int32_t exact = 0;            // costs are multiples of the unit
  int32_t recent_pricings = 0;  // since candidates were selected
  int32_t too_wide = 0;
  int32_t trees = 0;  // the core method gave up: an auction, or searches over all costs, follow
  Progress progress;
  QuantRange range;
  double factor = 1, boost = 1;
  int64_t columns_most = 0;  // bits of the greatest magnitude of a column minimum
  int64_t used_most = 0;     // likewise of the clamped costs that a solution used
  int64_t reach = 0;         // paths up to this length move prices
  int64_t spare_price = 0;   // of all spare columns: the greatest
  int64_t spare_label = 0;
  uint64_t spare_parent = 0;
  int64_t most_hops = 0;                   // of the labels of free columns
  int32_t frontier[2] = {0, 0}, ends = 0;  // frontier lengths, and ends, of trees over all costs
  int32_t auction = kNoAuction;
  int32_t bids = 0;                       // of its rounds, see scale_stage()
  int32_t least_free = INT32_MAX;         // rows, see selects_again()
  int64_t epsilon = 0, last_epsilon = 0;  // of the auction: in the next scale, and in the last
  int64_t spare_step = 0, next_spare_step = 0;  // by which dummy rows lower spare_price in it
  double sum = 0;                               // result of ordered_sum()
  int64_t deadline = kNoDeadline;               // on the clock of the team
};

// State of the grid barrier, behind the control words: see assignment/large/cuda/team.cuh.
struct BarrierState {
  uint64_t word[2];
  int64_t sum;
};

constexpr int64_t kControlWords = 112, kBarrierAt = 80;
static_assert(sizeof(Control) <= 4 * kBarrierAt, "");
static_assert(sizeof(BarrierState) <= 4 * (kControlWords - kBarrierAt), "");

// Pointers into the buffer; n canonical rows and m columns, including masked ones.
struct LargeState {
  Control* control;
  int64_t *v, *u;               // prices of columns and rows, in units
  double* v_real;               // the same as doubles, for passes over all costs; -inf if masked
  int32_t *col4row, *row4col;   // or a Partner
  ClassKeys* core_key;          // [n, kColumnClasses]: costs in units
  ClassCols* core_col;          // [n, kColumnClasses]; -1: none
  int64_t* horizon;             // of rows: a lower bound on reduced costs outside the core
  int64_t* label;               // of columns: see Search; or the least slack
  int64_t* label_by_position;   // [n + m]: labels during a search, see LabelLayout
  uint64_t *parent, *bid;       // of columns: hops << 32 | place_of_row(); the best bid
  int64_t* nearest;             // of free rows: the label of the nearest end of their tree
  int32_t* end;                 // of free rows: that end
  int32_t* ancestor;            // [kLevels, m]: of columns, 2^k steps up
  int32_t* on_path;             // of columns
  int32_t *in_tree, *frontier;  // of trees over all costs: [n], [2, n] rows
  int64_t* seen;                // of columns, in an auction: labels before this round
  double* base;                 // of rows: added to labels along its arcs, negated; in an auction
                                // the second best reduced cost
  int32_t* bid_col;             // of listed rows: the column they bid for, or -1
  int32_t* listed;              // of rows, in an auction: the length of the list of columns, which
                                // takes the place of candidates, see listed_bids.h
  uint32_t* tight;              // of the classical method: [n, m / 32], tight pairs as bits
  int64_t n, m;
};

constexpr uint32_t kSpareRow = 0x7fffffff, kNoRow = 0xffffffff;  // for all dummy rows; for none

// The place of a row in the order of column j, and its inverse: rows are scattered on a ring of
// kMostRows places, and each column starts at a different place.
constexpr int64_t kScatter = 112755, kGather = 240827, kTurn = 162013;
static_assert((kScatter * kGather & (kMostRows - 1)) == 1, "one undoes the other");
JAXMATCH_DEVICE inline int64_t place_of_row(int64_t row, int64_t j) {
  return (row * kScatter + j * kTurn) & (kMostRows - 1);
}
JAXMATCH_DEVICE inline uint32_t row_at_place(int64_t place, int64_t j) {
  const int64_t row = ((place - j * kTurn) * kGather) & (kMostRows - 1);
  return row == kMostRows - 1 ? kSpareRow : uint32_t(row);
}

// The offer of rows to a column: the least slack, an integer or infinite, and the first place of a
// row that offers it.
struct Offer {
  double least = infinity();
  uint64_t place = kNoParent;

  JAXMATCH_DEVICE void merge(Offer x) {
    if (x.least < least || (x.least == least && x.place < place)) *this = x;
  }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_STATE_H_
