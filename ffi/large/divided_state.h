// One large problem whose costs are divided over devices: what each of them holds, and what they
// tell each other.
//
// Every device keeps the whole state, prices, pairs and cores, O(n) of it, and does the same to it.
// Costs are looked at where they are. What comes of that is exchanged between two calls: a
// *mail*, of numbers of which the least counts and of short lists of zeros, and where they have
// changed the cores, or where short lists do not do, a bit for each pair. What all devices do
// depends on the exchanged alone, whole numbers whose order of arrival does not matter, so that
// their states stay the same bit for bit.
#ifndef JAXMATCH_LARGE_DIVIDED_STATE_H_
#define JAXMATCH_LARGE_DIVIDED_STATE_H_

#include "core_layout.h"
#include "core_problem.h"

namespace jaxmatch {

// What a device does next.
enum Step : int32_t {
  kLookAtCosts,
  kJudgeCosts,
  kSelectCores,
  kEnterCores,  // the first ones
  kSearchCores,
  kLookAtPrices,
  kReprice,
  kRepriceAll,
  kRenewCores,  // some of them
  kReduceRows,
  kReduceCols,
  kEnterPrices,
  kBeginTrees,
  kHearZeros,
  kSearchZeros,
  kMoveDuals,
  kCheckPrices,
  kCheckPaid,
  kProve,
  kStartAgain,  // on a coarser grid
  kEnd,
};

// What has to be exchanged before; the same numbers stand in jaxmatch/_native/_divided.py.
enum Ask : int32_t { kAskNothing, kAskMail, kAskCores, kAskZeros };

// What a launch leaves for the next one, of the same call or of another, behind the control words
// and the meeting.
struct Relay {
  int32_t ask = kAskNothing, step = kLookAtCosts;
  int32_t zeros_hold = 0;  // zeros are those of the duals
  int32_t lists_do = 0;    // no row has more zeros than a list has room for
  int32_t level = 0;       // of the forward pass
  int32_t count = 0;       // of rows in its frontier
  int32_t after = 0;       // the step that follows a pricing
};
constexpr int64_t kRelayAt = 72;
static_assert(4 * kMeetingAt + sizeof(Meeting) <= 4 * kRelayAt, "");
static_assert(4 * kRelayAt + sizeof(Relay) <= 4 * kControlWords, "");

// The columns of a row's zeros in one device's part.
struct ZeroList {
  static constexpr int kRoom = 15;
  int32_t count;  // of all, also of those for which there is no room
  int32_t col[kRoom];
};

// A number for each row and two for each column at most, and a few of the whole problem. Of what
// devices send in the same place the least counts. Behind it, for methods that have them, a list
// for each row.
struct Mail {
  static constexpr int64_t kHead = 8, kEach = 2, kNothing = INT64_MAX;
  static constexpr int64_t kListWords = sizeof(ZeroList) / sizeof(int64_t);
  const int64_t* in;  // [devices, words]
  int64_t* out;       // [words]
  int64_t side, devices, words;

  JAXMATCH_FN int64_t numbers() const { return kHead + kEach * side; }
  JAXMATCH_FN void send(int64_t at, int64_t x) const { put(out + at, x); }
  JAXMATCH_FN int64_t heard(int64_t at, int64_t device) const {
    return peek(in + device * words + at);
  }
  JAXMATCH_FN int64_t least(int64_t at) const {
    int64_t x = kNothing;
    for (int64_t d = 0; d < devices; ++d) x = lesser(x, heard(at, d));
    return x;
  }
  JAXMATCH_FN int64_t first(int64_t k) const { return kHead + k; }
  JAXMATCH_FN int64_t second(int64_t k) const { return kHead + side + k; }
  JAXMATCH_FN ZeroList* lists() const {
    return words > numbers() ? reinterpret_cast<ZeroList*>(out + numbers()) : nullptr;
  }
  JAXMATCH_FN const ZeroList* heard_lists(int64_t device) const {
    return reinterpret_cast<const ZeroList*>(in + device * words + numbers());
  }
};

// Doubles as whole numbers in the same order, and back.
JAXMATCH_FN inline int64_t turned(int64_t bits) { return bits < 0 ? bits ^ INT64_MAX : bits; }
JAXMATCH_FN inline int64_t order_of(double x) { return turned(int64_t(bits_of(x))); }
JAXMATCH_FN inline double real_of_order(int64_t x) { return real_of(uint64_t(turned(x))); }

// The rows or columns of one device as a problem of its own: arrays begin at its first row and
// column, cores and zeros are what it sends.
template <class T>
struct Part : Core<T> {
  int64_t row0, col0;
  int number_of_classes;
  ZeroList* lists;  // or null

  JAXMATCH_FN int classes() const { return number_of_classes; }
  JAXMATCH_FN int64_t row_id(int64_t i) const { return row0 + i; }
  JAXMATCH_FN int64_t col_id(int64_t j) const { return col0 + j; }
};

// How the problem's canonical rows or columns are divided. A class of columns belongs to one
// device: where these have columns each, they also share the classes.
struct Division {
  bool by_rows;
  int64_t devices, me, each;  // `each`: how many rows or columns a device has
  int64_t n, m;

  JAXMATCH_FN int classes() const { return by_rows ? kClasses : kClasses / int(devices); }
  JAXMATCH_FN int64_t zero_words() const { return ((by_rows ? m : each) + 31) / 32; }
};

// What devices have sent of cores and zeros: a block from each.
struct Exchanged {
  const char* cores;
  const uint32_t* zeros;
  int64_t core_count, zero_count;  // in each block: classes of a row, and words

  JAXMATCH_FN const ClassKeys* keys(int64_t device) const {
    return reinterpret_cast<const ClassKeys*>(cores + device * core_count * kBytesOfClass);
  }
  JAXMATCH_FN const ClassCols* cols(int64_t device) const {
    return reinterpret_cast<const ClassCols*>(keys(device) + core_count);
  }
  static constexpr int64_t kBytesOfClass = sizeof(ClassKeys) + sizeof(ClassCols);
};

template <class T>
struct Divided {
  Core<T> p;  // the whole; of its costs only the grid is of use
  Part<T> part;
  Division how;
  Mail mail;
  Exchanged exchanged;
  Relay* relay;
  uint64_t* offer;  // of columns: from which row they have the label, as its place
  int32_t* listed;  // [n, kListed]: of rows, the columns of all their zeros, then -1; or null
  // Of rows, at the end: what they pay and could, as order_of() has it. Before, in `paid`, the bits
  // of duals as doubles for the offers of trees.
  int64_t *paid, *least;
  bool core, tree;  // the method; trees also end what cores could not

  static constexpr int kListed = ZeroList::kRoom + 1;

  // f(first column of a word, its bits) for one in `parts` shares of the bits of row i.
  template <class F>
  JAXMATCH_FN void for_each_word_of_zeros(Lanes g, int64_t i, int64_t part, int64_t parts,
                                          F f) const {
    const int64_t words = how.zero_words();
    const int64_t owner = how.by_rows ? i / how.each : 0;
    const int64_t row = how.by_rows ? i - owner * how.each : i;
    for (int64_t d = 0; d < (how.by_rows ? 1 : how.devices); ++d) {
      const uint32_t* const bits = exchanged.zeros + (owner + d) * exchanged.zero_count;
      for_each_word(bits + row * words, words, part * g.kCount + g.lane, parts * g.kCount,
                    [&](int64_t word, uint32_t zeros) { f(d * how.each + word * 32, zeros); });
    }
  }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_LARGE_DIVIDED_STATE_H_
