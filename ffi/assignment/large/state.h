// The state of one large problem, as pointers into one buffer that outlives a call.
//
// Terms of this folder:
// - Canonical rows: the side with fewer unmasked entries, see orient(). A problem with more columns
//   than rows is wide.
// - Dummy rows: rows of zeros that make a wide problem square. A spare column is matched to a dummy
//   row.
// - Prices: the dual variables u of rows and v of columns, in units of the quantised costs. The
//   reduced cost of a pair is C_ij - v_j, its slack C_ij - u_i - v_j.
// - Core: the sparse problem that consists of each row's candidate set, i.e. of a few columns with
//   small reduced costs. The core method solves it and then checks all costs.
// - Horizon of a row: a lower bound on its reduced costs outside its candidate set.
// - Reach of a search: the distance up to which it moves prices.
#ifndef JAXMATCH_LARGE_STATE_H_
#define JAXMATCH_LARGE_STATE_H_

#include <cstddef>

#include "assignment/large/quantized_costs.h"
#include "common/device_arena.h"

namespace jaxmatch::assignment::large {

// Each row's candidate set holds 4 columns of each of 32 column classes. The class of column j is j
// modulo 32, rotated as in rotation_of().
constexpr int kColumnClasses = 32, kCandidatesPerClass = 4,
              kCandidates = kColumnClasses * kCandidatesPerClass;

// The candidates of a row in one class. One lane loads all of them at once.
struct alignas(16) ClassCols {
  int32_t x[kCandidatesPerClass];
};
struct alignas(16) ClassKeys {
  int64_t x[kCandidatesPerClass];
};

constexpr int64_t kFar = int64_t{1} << 62;        // label of a column without a path
constexpr int64_t kTooFar = int64_t{1} << 60;     // cap of labels, so that sums do not overflow
constexpr int64_t kMostPrice = int64_t{1} << 51;  // a double would round C - v at larger prices
constexpr int kRowBits = 18;                      // bits of a packed row or column index
constexpr int64_t kMostRows = int64_t{1} << kRowBits;
constexpr int kLevels = 19;  // the longest path has fewer than 2^(kLevels - 1) steps
constexpr uint64_t kNoParent = ~uint64_t{0};
constexpr int64_t kNoDeadline = 0;  // zero, because the state of a stepped solve starts as zeros

// Convert a slack from a double to an integer label, and back. The label kFar stands for infinity.
JAXMATCH_DEVICE inline int64_t whole_or_far(double x) { return x < infinity() ? int64_t(x) : kFar; }
JAXMATCH_DEVICE inline double slack_of_label(int64_t x) {
  return x < kFar ? double(x) : infinity();
}

// Values stored instead of a partner. kFree: not matched yet. kSpare: matched to a dummy row.
// kAbsent: masked.
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

// The Hungarian methods have other steps, whose time is counted under stages of the core method.
constexpr Stage kReduce = kSelect, kCompress = kBid, kSearch = kAugment, kUpdateDuals = kPrice;

// State that one step of the core method, see run_step(), leaves to the next.
struct Progress {
  int64_t last_reach = 0;   // how far prices moved in the last step without `tight`
  int64_t usual_reach = 0;  // the last nonzero distance that prices moved; 0: not yet moved
  bool tight = true;        // the next search uses tight arcs only
  bool split = false;       // labels count no hops, because a distance has overflowed
  bool limited = false;     // prices could not move as far as the paths needed
  // One row price in 2^caution may exceed its row's horizon by any distance.
  int8_t caution = 3;
  // The other row prices may exceed their horizons by 2^excess_bits; 0: not at all.
  int8_t excess_bits = 0;
  int16_t slow = 0;  // number of steps that found few paths
};

// Whether the core method may run an auction, or has run one. It runs at most one.
enum AuctionState : int32_t {
  // The caller forbids auctions of sharded costs.
  kNoAuction,
  kMayHoldLate,  // many costs are equal: an auction is delayed, see kPartFreeOfEqual and
                 // patience()
  kMayHoldAuction,
  kHeldAuctionOfEqual,  // has run an auction, and many costs are equal
  kHeldAuction,
};

JAXMATCH_DEVICE inline bool is_held(int32_t auction) {
  return auction == kHeldAuction || auction == kHeldAuctionOfEqual;
}
JAXMATCH_DEVICE inline AuctionState state_when_held(int32_t before) {
  return before == kMayHoldLate ? kHeldAuctionOfEqual : kHeldAuction;
}

// Unit of the quantised costs.
enum Unit : int32_t {
  kFineUnit,
  // Used after an overflow. Only infeasible problems overflow again: their prices fall without
  // bound.
  kCoarseUnit,
  // Used after a second overflow. All finite costs count as zero, to find out whether the problem
  // is feasible.
  kNoUnit,
};

// Decisions shared by all threads. A barrier separates the write of a word from its reads.
// Exceptions are spare_label and spare_parent, which a search polls while other threads lower them.
struct Control {
  int32_t stage = kBegin, status = 0, free_rows = 0, steps = 0, pricings = 0, dense_steps = 0,
          bid_rounds = 0, rounds = 0;
  int32_t rows = 0;             // number of unmasked canonical rows
  int64_t spent[kFinish] = {};  // nanoseconds per stage
  int32_t cols = 0;
  int32_t flip = 0;  // canonical rows are the problem's columns
  int32_t unit = kFineUnit;
  int32_t stale = 0;            // duals have moved since the last pricing
  int32_t exact = 0;            // all costs are multiples of the unit
  int32_t recent_pricings = 0;  // pricings since the candidates of all rows were selected
  int32_t too_wide = 0;
  int32_t trees = 0;  // the core method gave up: an auction or searches over all costs follow
  Progress progress;
  QuantRange range;
  double factor = 1, boost = 1;
  int64_t columns_most = 0;  // greatest magnitude of a column minimum, as bits of a double
  int64_t used_most = 0;     // greatest magnitude of a clamped cost used, as bits of a double
  int64_t reach = 0;         // length of the longest path to augment; also scratch
  int64_t spare_price = 0;   // price of the spare columns: the greatest column price
  int64_t spare_label = 0;
  uint64_t spare_parent = 0;
  int64_t most_hops = 0;  // greatest number of hops to a free column that a search has reached
  // `frontier`: the lengths of the lists in LargeState::frontier. `ends`: 1 if a tree of a
  // Hungarian method has reached a free column.
  int32_t frontier[2] = {0, 0}, ends = 0;
  int32_t auction = kNoAuction;
  int32_t bids = 0;                // number of bids in the auction, see scale_stage()
  int32_t least_free = INT32_MAX;  // number of free rows at the last selection by selects_again()
  int64_t epsilon = 0, last_epsilon = 0;  // of the auction's next and last scale
  // The next two amounts by which dummy rows lower spare_price in the auction.
  int64_t spare_step = 0, next_spare_step = 0;
  double sum = 0;                  // result of ordered_sum()
  int64_t deadline = kNoDeadline;  // on the team's clock, see now()
};

// State of the GPU's grid barrier, stored after the control words, see
// assignment/large/cuda/team.cuh.
struct BarrierState {
  uint64_t word[2];
  int64_t sum;
};

constexpr int64_t kControlWords = 112, kBarrierAt = 80;
static_assert(sizeof(Control) <= 4 * kBarrierAt, "");
static_assert(sizeof(BarrierState) <= 4 * (kControlWords - kBarrierAt), "");

// Pointers into the buffer of a problem with n canonical rows and m columns, including masked ones.
struct LargeState {
  Control* control;
  int64_t *v, *u;              // prices of columns [m] and rows [n], in units
  double* v_real;              // [m] v as doubles, for passes over all costs; -inf if masked
  int32_t *col4row, *row4col;  // partners of rows [n] and columns [m], or a Partner
  ClassKeys* core_key;         // [n, kColumnClasses]: costs of candidates in units
  ClassCols* core_col;         // [n, kColumnClasses]: columns of candidates; -1: none
  int64_t* horizon;  // [n] lower bound on the row's reduced costs outside its candidate set
  int64_t* label;    // [m] labels of columns, see Search; in the tree variant their least slack
  int64_t* label_by_position;  // [n + m]: labels during a search, see LabelLayout
  // [m] parent row, as hops << 32 | place_of_row(); [m] best bid, see pack_bid()
  uint64_t *parent, *bid;
  int64_t* nearest;   // [n] for free rows: label of the nearest free column in the row's tree
  int32_t* end;       // [n] for free rows: the nearest free column in the row's tree
  int32_t* ancestor;  // [kLevels, m]: in level k, each column's ancestor 2^k steps up
  int32_t* on_path;   // [m] of columns: path marks, tree roots, or ColMarks (Hungarian methods)
  int32_t *in_tree, *frontier;  // [n] marks of rows in trees; [2, n] two lists of rows
  int64_t* seen;                // [m] in price refinement and forests: labels before this round
  // [n] subtracted from costs in relax_rows(); in an auction, the row's second-least reduced cost
  double* base;
  int32_t* bid_col;  // [n] the column that the k-th listed row bids for, or -1
  // [n] in an auction: the length of the row's column list, see listed_bids.h; in an auction of
  // sharded costs: the rows that wait for candidates
  int32_t* listed;
  uint32_t* tight;  // [n, m / 32] in the classical method: tight pairs, as bits
  int64_t n, m;
};

// kSpareRow stands for all dummy rows, kNoRow for no row.
constexpr uint32_t kSpareRow = 0x7fffffff, kNoRow = 0xffffffff;

// Among tied rows the first one wins, in an order that differs from column to column.
// place_of_row() is the place of a row in the order of column j, and row_at_place() is the inverse.
// Rows are scattered on a ring of kMostRows places, and the order of each column starts at a
// different place of the ring.
constexpr int64_t kScatter = 112755, kGather = 240827, kTurn = 162013;
static_assert((kScatter * kGather & (kMostRows - 1)) == 1, "one undoes the other");
JAXMATCH_DEVICE inline int64_t place_of_row(int64_t row, int64_t j) {
  return (row * kScatter + j * kTurn) & (kMostRows - 1);
}
JAXMATCH_DEVICE inline uint32_t row_at_place(int64_t place, int64_t j) {
  const int64_t row = ((place - j * kTurn) * kGather) & (kMostRows - 1);
  return row == kMostRows - 1 ? kSpareRow : uint32_t(row);
}

// The best offer that rows make to a column: the least slack (an integer or infinity), and the
// first place of a row with this slack, see place_of_row().
struct Offer {
  double least = infinity();
  uint64_t place = kNoParent;

  JAXMATCH_DEVICE void merge(Offer x) {
    if (x.least < least || (x.least == least && x.place < place)) *this = x;
  }
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_STATE_H_
