// One large problem with costs sharded over devices: the state of a device, and the data that
// devices exchange.
//
// Every device keeps the whole O(n) state (prices, pairs, and a few candidate columns for each row)
// and updates it identically. Only the device that owns a cost reads it. Between calls devices
// all-gather a min-reduction buffer. They also gather the candidate sets or the lists of tight
// columns if these have changed. In an auction they may gather only the candidate sets of waiting
// rows. All decisions depend on gathered integers only, and not on their order of arrival, so that
// the states of all devices stay bitwise equal.
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
  kLoadCores,  // loads the first candidate sets
  kSearchCores,
  kBeginPricing,
  kReprice,
  kRepriceAll,
  kRenewCores,  // loads new candidate sets of some rows
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
  kRestart,  // begins again with a coarser unit
  kEnd,
};

// The exchange needed before the next step.
enum Request : int32_t {
  kRequestNothing,
  kRequestReduction,
  kRequestCores,
  kRequestLists,
  kRequestSome,  // packed candidate sets of up to 1 / kSomePart of the rows
  kRequestFew,   // packed candidate sets of up to 1 / kFewPart of the rows
};

// State that a launch leaves to the next launch, in the same call or in a later one. It is stored
// after the control words and the state of the barrier.
struct Continuation {
  int32_t request = kRequestNothing, step = kScanCosts;
  int32_t lists_hold = 0;  // the lists of tight columns are valid for the current duals
  int32_t level = 0;       // level of the forward pass
  int32_t count = 0;       // number of rows in the frontier
  int32_t offers = 0;      // the reduction buffer holds offers of tree rows
  int32_t all = 0;         // all tree rows have made their offers
  int32_t after = 0;       // the step that follows a pricing

  int32_t scale_begins = 0;    // a scale of an auction begins: all rows get new candidates
  int32_t exchanges = 0;       // exchanges of candidates in the auction so far
  int32_t first_exchange = 0;  // value of `exchanges` when the scale began
  int32_t turns = 0;           // rounds of the scale, or of price refinement
  int32_t waiting = 0;         // rows that wait for candidates
  int32_t packed = 0;          // the candidates of waiting rows are packed
  int64_t spread = 0;          // the greatest difference between reduced costs of a sampled row
};
constexpr int64_t kContinuationAt = 88;
static_assert(4 * kBarrierAt + sizeof(BarrierState) <= 4 * kContinuationAt, "");
static_assert(4 * kContinuationAt + sizeof(Continuation) <= 4 * kControlWords, "");

// Buffers of a min-reduction over devices: up to two values for each row or each column, and a few
// for the whole problem.
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

// The tight columns of a row in one shard.
struct TightList {
  static constexpr int kCapacity = 15;
  int32_t count;  // of all tight columns, including those that do not fit
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

// A device's rows or columns as a separate problem. Arrays begin at the device's first row and
// column. Candidate sets and lists are those that the device publishes.
template <class T>
struct Shard : LargeProblem<T> {
  int64_t row0, col0;
  int number_of_classes;
  TightList* lists;

  JAXMATCH_DEVICE int classes() const { return number_of_classes; }
  JAXMATCH_DEVICE int64_t row_id(int64_t i) const { return row0 + i; }
  JAXMATCH_DEVICE int64_t col_id(int64_t j) const { return col0 + j; }
};

// The partition of the canonical rows or columns over devices. If columns are sharded, so are the
// column classes: each class belongs to one device.
struct Partition {
  bool by_rows;
  int64_t devices, me, each;  // `each`: rows or columns per device
  int64_t n, m;

  JAXMATCH_DEVICE int classes() const {
    return by_rows ? kColumnClasses : kColumnClasses / int(devices);
  }
};

// Candidate sets and lists, gathered from all devices. Each device contributes one block.
struct GatheredBlocks {
  const char* cores;
  const TightList* lists;
  // Per block: the number of pairs of a row and a class, and the number of lists.
  int64_t core_count, list_count;

  JAXMATCH_DEVICE const ClassKeys* keys(int64_t device) const {
    return reinterpret_cast<const ClassKeys*>(cores + device * core_count * kBytesOfClass);
  }
  JAXMATCH_DEVICE const ClassCols* cols(int64_t device) const {
    return reinterpret_cast<const ClassCols*>(keys(device) + core_count);
  }
  static constexpr int64_t kBytesOfClass = sizeof(ClassKeys) + sizeof(ClassCols);
};

// The packed candidate set of a row in one shard, with its horizon in that shard.
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

// Packed candidate sets. The block of each device holds the number of its sets, then the sets.
// Devices gather only the beginning of each block, in one of two lengths.
struct PackedBlocks {
  // The two lengths have room for the sets of 1 / kSomePart and 1 / kFewPart of the rows.
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
  LargeProblem<T> p;  // the whole problem; only the quantizer of its costs is used
  Shard<T> shard;
  Partition partition;
  ReductionBuffer reduction;
  GatheredBlocks gathered;
  PackedBlocks packed;
  Continuation* continuation;
  uint64_t* offer;  // [m] the place of the row that gave the column its label
  // [n, kListed]: all tight columns of a row, followed by -1. If they do not fit, each entry is
  // kTooManyTight.
  int32_t* listed;
  // At the end of the solve, per row: the cost paid, and the least reduced cost, as order_of()
  // encodes them. Before the end, `paid` has other uses. In an auction it holds the costs of pairs
  // in units. For the offers of trees it holds row duals, as the bits of doubles.
  int64_t *paid, *least;
  // The method: `core` for the core method, `tree` for the tree rather than the classical variant.
  // The core method also sets `tree`, because the tree variant matches the rows that the core
  // method cannot match.
  bool core, tree;
  bool may_hold_auction;

  static constexpr int kListed = TightList::kCapacity + 1;
  static constexpr int32_t kTooManyTight = -2;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_STATE_H_
