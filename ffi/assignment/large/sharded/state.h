// One large problem whose costs are divided over devices: what each of them holds, and what they
// tell each other.
//
// Every device keeps the whole state, prices, pairs and cores, O(n) of it, and does the same to it.
// Costs are looked at where they are. What comes of that is exchanged between two calls: a
// *mail*, of numbers of which the least counts, and where they have changed the cores, or short
// lists of zeros. What all devices do depends on the exchanged alone, whole numbers whose order of
// arrival does not matter, so that their states stay the same bit for bit.
#ifndef JAXMATCH_LARGE_SHARDED_STATE_H_
#define JAXMATCH_LARGE_SHARDED_STATE_H_

#include "assignment/large/layout.h"
#include "assignment/large/problem.h"

namespace jaxmatch::assignment::large {

// What a device does next.
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
  kSearchZeros,
  kMoveDuals,
  kCheckPrices,
  kCheckPaid,
  kBoundGap,
  kRestart,  // on a coarser grid
  kEnd,
};

// What has to be exchanged before.
enum Request : int32_t { kRequestNothing, kRequestReduction, kRequestCores, kRequestLists };

// What a launch leaves for the next one, of the same call or of another, behind the control words
// and the meeting.
struct Continuation {
  int32_t request = kRequestNothing, step = kScanCosts;
  int32_t lists_hold = 0;  // they are those of the duals
  int32_t level = 0;       // of the forward pass
  int32_t count = 0;       // of rows in its frontier
  int32_t offers = 0;      // the mail has what rows of trees offer columns,
  int32_t all = 0;         // and by now all rows of the trees have
  int32_t after = 0;       // the step that follows a pricing
};
constexpr int64_t kContinuationAt = 72;
static_assert(4 * kBarrierAt + sizeof(BarrierState) <= 4 * kContinuationAt, "");
static_assert(4 * kContinuationAt + sizeof(Continuation) <= 4 * kControlWords, "");

// A number for each row and two for each column at most, and a few of the whole problem. Of what
// devices send in the same place the least counts.
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

// The columns of a row's zeros in one device's part.
struct ZeroList {
  static constexpr int kCapacity = 15;
  int32_t count;  // of all, also of those for which there is no room
  int32_t col[kCapacity];
};

// Doubles as whole numbers in the same order, and back.
JAXMATCH_DEVICE inline int64_t flip_negative(int64_t bits) {
  return bits < 0 ? bits ^ INT64_MAX : bits;
}
JAXMATCH_DEVICE inline int64_t order_of(double x) { return flip_negative(int64_t(bits_of(x))); }
JAXMATCH_DEVICE inline double real_of_order(int64_t x) {
  return real_of(uint64_t(flip_negative(x)));
}

// The rows or columns of one device as a problem of its own: arrays begin at its first row and
// column, cores and lists are what it sends.
template <class T>
struct Shard : LargeProblem<T> {
  int64_t row0, col0;
  int number_of_classes;
  ZeroList* lists;

  JAXMATCH_DEVICE int classes() const { return number_of_classes; }
  JAXMATCH_DEVICE int64_t row_id(int64_t i) const { return row0 + i; }
  JAXMATCH_DEVICE int64_t col_id(int64_t j) const { return col0 + j; }
};

// How the problem's canonical rows or columns are divided. A class of columns belongs to one
// device: where these have columns each, they also share the classes.
struct Partition {
  bool by_rows;
  int64_t devices, me, each;  // `each`: how many rows or columns a device has
  int64_t n, m;

  JAXMATCH_DEVICE int classes() const {
    return by_rows ? kColumnClasses : kColumnClasses / int(devices);
  }
};

// What devices have sent of cores and lists: a block from each.
struct GatheredBlocks {
  const char* cores;
  const ZeroList* lists;
  int64_t core_count, list_count;  // in each block: classes of a row, and lists

  JAXMATCH_DEVICE const ClassKeys* keys(int64_t device) const {
    return reinterpret_cast<const ClassKeys*>(cores + device * core_count * kBytesOfClass);
  }
  JAXMATCH_DEVICE const ClassCols* cols(int64_t device) const {
    return reinterpret_cast<const ClassCols*>(keys(device) + core_count);
  }
  static constexpr int64_t kBytesOfClass = sizeof(ClassKeys) + sizeof(ClassCols);
};

template <class T>
struct Sharded {
  LargeProblem<T> p;  // the whole; of its costs only the grid is of use
  Shard<T> shard;
  Partition partition;
  ReductionBuffer reduction;
  GatheredBlocks gathered;
  Continuation* continuation;
  uint64_t* offer;  // of columns: from which row they have the label, as its place
  // [n, kListed]: of rows, the columns of all their zeros, then -1; or that there is no room.
  int32_t* listed;
  // Of rows, at the end: what they pay and could, as order_of() has it. Before, in `paid`, the bits
  // of duals as doubles for the offers of trees.
  int64_t *paid, *least;
  bool core, tree;  // the method; trees also end what cores could not

  static constexpr int kListed = ZeroList::kCapacity + 1;
  static constexpr int32_t kTooManyZeros = -2;
};

}  // namespace jaxmatch::assignment::large

#endif  // JAXMATCH_LARGE_SHARDED_STATE_H_
