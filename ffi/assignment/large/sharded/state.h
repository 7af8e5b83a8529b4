// One large problem with costs sharded over devices: the state of a device, and the data that
// devices exchange.
//
// Every device keeps the whole O(n) state (prices, pairs and candidate sets) and updates it
// identically. Costs are read only by the device that owns them. Between calls devices all-gather a
// min-reduction buffer and, when they changed, the candidate sets or the lists of tight columns; or
// only the candidate sets of the rows of an auction that wait for them.
// All decisions depend on gathered integers only, and not on their order of arrival, so that the
// states of all devices stay bitwise equal.
#ifndef JAXMATCH_LARGE_SHARDED_STATE_H_
#define JAXMATCH_LARGE_SHARDED_STATE_H_

#include "assignment/large/layout.h"
#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

// The next step of a device.
enum Step : int32_t {
  kScanCosts,
  kJudgeCosts,
  kSelectCores,
  kLoadCores,  // the first ones
  kSearchCores,
  kBeginPricing,
  kReprice,
  kRepriceAll,
  kRenewCores,  // some of them
  kReduceRows,
  kReduceCols,
  kLoadPrices,
  kBeginTrees,
  kMergeLists,
  kSearchTight,
  kMoveDuals,
  kCheckPrices,
  kCheckPaid,
  kBoundGap,
  kBeginAuction,
  kBeginScale,
  kPlayRounds,
  kRelax,
  kTakeLabels,
  kRestart,  // with a coarser unit
  kEnd,
};

// The exchange needed before the next step.
enum Request : int32_t {
  kRequestNothing,
  kRequestReduction,
  kRequestCores,
  kRequestLists,
  kRequestSome,  // the packed candidate sets of some rows
  kRequestFew,   // the same, of fewer
};

// State handed to the next launch, of the same call or of another, behind the control words and the
// barrier.
struct Continuation {
  int32_t request = kRequestNothing, step = kScanCosts;
  int32_t lists_hold = 0;  // the lists are those of the current duals
  int32_t level = 0;       // of the forward pass
  int32_t count = 0;       // rows in the frontier
  int32_t offers = 0;      // the reduction buffer holds offers of tree rows
  int32_t all = 0;         // all tree rows have made their offers
  int32_t after = 0;       // the step that follows a pricing

  int32_t scale_begins = 0;    // of an auction: candidates are those of all rows
  int32_t exchanges = 0;       // of candidates in an auction
  int32_t first_exchange = 0;  // of its scale
  int32_t turns = 0;           // rounds of its scale, or of price refinement
  int32_t waiting = 0;         // rows that wait for candidates
  int32_t packed = 0;          // their candidates have been packed
  int64_t spread = 0;          // of sampled rows: the greatest difference of their reduced costs
};
constexpr int64_t kContinuationAt = 88;
static_assert(4 * kBarrierAt + sizeof(BarrierState) <= 4 * kContinuationAt, "");
static_assert(4 * kContinuationAt + sizeof(Continuation) <= 4 * kControlWords, "");

// A min-reduction over devices: at most one value per row and two per column, and a few of the
// whole problem.
struct ReductionBuffer {
  static constexpr int64_t kHeaderWords = 8, kWordsPerItem = 2, kIdentity = INT64_MAX;
  const int64_t* in;  // [devices, words]
  int64_t* out;       // [words]
  int64_t side, devices, words;

  JAXMATCH_DEVICE void store(int64_t at, int64_t x) const { store_relaxed(out + at, x); }
  JAXMATCH_DEVICE int64_t gathered(int64_t at, int64_t device) const {
    return load_relaxed(in + device * words + at);
  }
  JAXMATCH_DEVICE int64_t least(int64_t at) const {
    int64_t x = kIdentity;
    for (int64_t d = 0; d < devices; ++d) x = lesser(x, gathered(at, d));
    return x;
  }
  JAXMATCH_DEVICE int64_t first(int64_t k) const { return kHeaderWords + k; }
  JAXMATCH_DEVICE int64_t second(int64_t k) const { return kHeaderWords + side + k; }
};

// A row's tight columns in one shard.
struct TightList {
  static constexpr int kCapacity = 15;
  int32_t count;  // of all tight columns, also of those that do not fit
  int32_t col[kCapacity];
};

// An order-preserving map of doubles to integers, and its inverse.
JAXMATCH_DEVICE inline int64_t flip_negative(int64_t bits) {
  return bits < 0 ? bits ^ INT64_MAX : bits;
}
JAXMATCH_DEVICE inline int64_t order_of(double x) { return flip_negative(int64_t(bits_of(x))); }
JAXMATCH_DEVICE inline double real_of_order(int64_t x) {
  return real_of(uint64_t(flip_negative(x)));
}

// A device's rows or columns as a problem of its own: arrays begin at its first row and column, and
// candidate sets and lists are those it publishes.
template <class T>
struct Shard : LargeProblem<T> {
  int64_t row0, col0;
  int number_of_classes;
  TightList* lists;

  JAXMATCH_DEVICE int classes() const { return number_of_classes; }
  JAXMATCH_DEVICE int64_t row_id(int64_t i) const { return row0 + i; }
  JAXMATCH_DEVICE int64_t col_id(int64_t j) const { return col0 + j; }
};

// The partition of the canonical rows or columns over devices. A class of columns belongs to one
// device: if columns are sharded, so are the classes.
struct Partition {
  bool by_rows;
  int64_t devices, me, each;  // `each`: rows or columns per device
  int64_t n, m;

  JAXMATCH_DEVICE int classes() const {
    return by_rows ? kColumnClasses : kColumnClasses / int(devices);
  }
};

// Candidate sets and lists, gathered from all devices: a block from each.
struct GatheredBlocks {
  const char* cores;
  const TightList* lists;
  int64_t core_count, list_count;  // per block: row classes, and lists

  JAXMATCH_DEVICE const ClassKeys* keys(int64_t device) const {
    return reinterpret_cast<const ClassKeys*>(cores + device * core_count * kBytesOfClass);
  }
  JAXMATCH_DEVICE const ClassCols* cols(int64_t device) const {
    return reinterpret_cast<const ClassCols*>(keys(device) + core_count);
  }
  static constexpr int64_t kBytesOfClass = sizeof(ClassKeys) + sizeof(ClassCols);
};

// The candidate set of a row in one shard, with the horizon there.
struct PackedRow {
  char* at;
  int classes;

  JAXMATCH_DEVICE ClassKeys* keys() const { return reinterpret_cast<ClassKeys*>(at); }
  JAXMATCH_DEVICE ClassCols* cols() const { return reinterpret_cast<ClassCols*>(keys() + classes); }
  JAXMATCH_DEVICE int64_t* horizon() const { return reinterpret_cast<int64_t*>(cols() + classes); }
  JAXMATCH_DEVICE int64_t* row() const { return horizon() + 1; }
  JAXMATCH_HOST_DEVICE static constexpr int64_t bytes_of(int64_t classes) {
    return classes * GatheredBlocks::kBytesOfClass + 16;
  }
};

// Packed candidate sets: in a block of each device their number, and the sets. Devices gather the
// beginning of the blocks, of one of two lengths.
struct PackedBlocks {
  // A block holds the sets of the rows divided by these.
  static constexpr int64_t kSomePart = 8, kFewPart = 64, kHeaderBytes = 16;
  char *in, *out;  // [devices, bytes], [bytes]
  int64_t bytes, bytes_of_few;

  JAXMATCH_DEVICE static int64_t room(int64_t bytes, int classes) {
    return (bytes - kHeaderBytes) / PackedRow::bytes_of(classes);
  }
  JAXMATCH_DEVICE int64_t* count(char* block) const { return reinterpret_cast<int64_t*>(block); }
  JAXMATCH_DEVICE char* gathered(int64_t device) const { return in + device * bytes; }
  JAXMATCH_DEVICE static PackedRow row(char* block, int64_t k, int classes) {
    return {block + kHeaderBytes + k * PackedRow::bytes_of(classes), classes};
  }
};

template <class T>
struct Sharded {
  LargeProblem<T> p;  // the whole problem; of its costs only the quantizer is used
  Shard<T> shard;
  Partition partition;
  ReductionBuffer reduction;
  GatheredBlocks gathered;
  PackedBlocks packed;
  Continuation* continuation;
  uint64_t* offer;  // of columns: the place of the row that gave the label
  // [n, kListed]: all tight columns of a row, then -1; or kTooManyTight.
  int32_t* listed;
  // Per row, at the end: the cost paid, and the least reduced cost, as order_of() encodes them.
  // Before, `paid` holds the bits of row duals as doubles, for the offers of trees.
  int64_t *paid, *least;
  bool core, tree;  // the method; `tree` also ends what cores could not
  bool may_hold_auction;

  static constexpr int kListed = TightList::kCapacity + 1;
  static constexpr int32_t kTooManyTight = -2;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_STATE_H_
