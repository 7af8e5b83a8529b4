// What an auction learns from one pass over the costs: their spread, and whether bidding is
// worthwhile.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_AUCTION_INSPECT_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_AUCTION_INSPECT_CUH_

#include "assignment/cuda/auction_state.cuh"

namespace jaxmatch::assignment {

struct Inspected {
  // The greatest finite cost minus the least, and a unit that divides all finite costs.
  float spread, unit;
  float scale;    // nearly all rows can pay less than this, see scale_of_rows()
  bool usable;    // false if float32 prices could not tell the costs apart
  int satisfied;  // number of rows that can all have their best choice: a column, or no match
  int useful;     // number of pairs that are allowed and cost less than leaving the row unmatched
};

// True if the spread comes from big-M costs, such as 1e30 in place of infinity. Then the two best
// columns of many rows differ by a negligible part of the spread. An auction whose epsilon is a
// fraction of such a spread could not tell the other costs apart, and the duals of the exact solver
// would round them away. Called by all blocks together.
template <class A>
__device__ bool is_far_wider(const A& a, float spread, float unit) {
  constexpr float kSuspect = sizeof(typename A::Raw) == 8 ? 0x1p90f : 0x1p60f, kNothing = 0x1p-45f;
  constexpr int kGoodPart = 4;
  if (A::Costs::kIntegral || !(unit * kSuspect < spread)) return false;  // in all blocks or in none
  if (a.thread == 0) a.control[A::kCount] = 0;
  a.sync();
  int rows = 0;
  for (int t = a.warp(); t < a.rows_here(); t += a.warps()) {
    const TwoLeast<float> o = a.two_least(a.row_at(t));
    rows += o.least < o.next && o.next - o.least < spread * kNothing;
  }
  if (a.lane() == 0 && rows > 0) atomicAdd(&a.control[A::kCount], rows);
  a.sync();
  // Blocks exchange their counts in the last word of their slots, which inspect() does not use.
  uint64_t* slots = a.f.template shared<uint64_t>(a.b.at.range);
  if (a.thread < a.cluster.blocks) {
    uint64_t* there = a.cluster.in_block(slots + a.cluster.rank * kRangeWords, a.thread);
    there[kRangeWords - 1] = uint64_t(a.control[A::kCount]);
  }
  a.cluster.sync();
  int64_t all = 0;
  for (int from = 1; from <= a.cluster.blocks; ++from)
    all += int64_t(slots[from * kRangeWords - 1]);
  return all * kGoodPart >= a.rows;
}

// Returns the scale of what rows pay: a fraction of `spread` such that nearly all rows can pay
// less, or `spread` itself. The scale is far below the spread if costs have a heavy tail, such as
// exp(3 N) for a normal N. An auction whose first and last epsilon are fractions of the spread
// could not tell such costs apart. Called by all blocks together; next_best must hold the least
// that each row can pay.
template <class A>
__device__ float scale_of_rows(const A& a, float spread) {
  constexpr int kScales = 4, kBits = 16, kFewPart = 16;
  constexpr float kScaleOf[kScales] = {0x1p-14f, 0x1p-22f, 0x1p-30f, 0x1p-38f};
  using Word = unsigned long long;
  Word* above = a.f.template shared<Word>(a.b.at.partial);
  if (a.thread == 0) *above = 0;
  a.sync();
  Word mine = 0;  // for each entry of kScaleOf, kBits bits that count the rows that pay more
  for (int t = a.thread; t < a.rows_here(); t += a.size) {
    const float pays = a.next_best[t] - float(a.base);
    for (int k = 0; k < kScales; ++k) mine += Word(pays > spread * kScaleOf[k]) << k * kBits;
  }
  if (mine > 0) atomicAdd(above, mine);
  a.sync();
  // Blocks exchange their counts in the last word but one of their slots, which is otherwise
  // unused.
  constexpr int kWord = kRangeWords - 2;
  Word* slots = a.f.template shared<Word>(a.b.at.range);
  if (a.thread < a.cluster.blocks) {
    *a.cluster.in_block(slots + a.cluster.rank * kRangeWords + kWord, a.thread) = *above;
  }
  a.cluster.sync();
  Word all = 0;
  for (int from = 0; from < a.cluster.blocks; ++from) all += slots[from * kRangeWords + kWord];
  float scale = spread;
  for (int k = 0; k < kScales; ++k) {
    const int rows = int(all >> k * kBits & ((1 << kBits) - 1));
    if (rows * kFewPart > a.rows) break;
    scale = spread * kScaleOf[k];
  }
  return scale;
}

// Reads the unmatched costs of this block's rows into `leave`.
template <class A>
__device__ void read_unmatched_costs(A& a) {
  for (int t = a.thread; a.may_leave() && t < a.rows_here(); t += a.size) {
    const int64_t at = a.f.problem * a.b.n + a.f.problem_row(a.row_at(t));
    const double x = read_real(a.b.unmatched_cost, a.b.unmatched_dtype, at) * double(a.sign);
    a.leave[t] = fabs(x) < __builtin_huge_val() ? float(x) : kFar;
  }
}

// Scans the costs, and writes their range for the exact solver. Called by all blocks together,
// while all prices are 0.
template <class A>
__device__ Inspected inspect(A& a) {
  using Costs = typename A::Costs;
  typename Costs::Range range;
  double least = __builtin_huge_val(), most = -__builtin_huge_val();
  read_unmatched_costs(a);
  a.sync();
  for (int t = a.warp(); t < a.rows_here(); t += a.warps()) {
    const int i = a.row_at(t);
    const float leave = a.unmatched_cost_of(i);
    TwoLeast<float> o{kFar, kFar, INT32_MAX};
    int useful = 0;
    a.for_columns(i, 0, a.cols, [&](int j, typename A::Raw raw, float p) {
      if (p != 0) return;  // column j is padding, whose price is -inf
      range.include(raw, a.b.maximize);
      const double x = Costs::real(raw) * double(a.sign);
      if (!(fabs(x) < __builtin_huge_val())) return;
      least = x < least ? x : least;
      most = x > most ? x : most;
      useful += float(x) < leave;
      o.col = float(x) < o.least ? j : o.col;
      o.least = float(x) < o.least ? float(x) : o.least;
    });
    o = merge(o);
    useful = __reduce_add_sync(kAllLanes, useful);
    const bool stays = leave <= o.least && leave < kFar;
    if (a.lane() == 0) a.next_best[t] = fminf(o.least, leave);
    a.send(t, make_entry(float(useful),
                         stays            ? A::kStays
                         : o.least < kFar ? o.col
                                          : A::kNoColumn,
                         i));
  }
  a.send_count(a.rows_here());
  constexpr int kOfRange = sizeof(range.word) / sizeof(range.word[0]), kWords = 2 + kOfRange;
  static_assert(kWords < kRangeWords - 1);
  uint64_t words[kWords] = {ordered_bits(most), ordered_bits(-least)};
  for (int k = 0; k < kOfRange; ++k) words[2 + k] = range.word[k];
  a.f.group.all_max(words, a.f.template shared<uint64_t>(a.b.at.partial));
  uint64_t* slots = a.f.template shared<uint64_t>(a.b.at.range);
  if (a.thread < a.cluster.blocks) {
    uint64_t* there = a.cluster.in_block(slots + a.cluster.rank * kRangeWords, a.thread);
    for (int k = 0; k < kWords; ++k) there[k] = words[k];
  }
  if (a.thread == 0) a.control[A::kCount] = a.control[A::kMine0] = 0;
  a.cluster.sync();
  int satisfied = 0, useful = 0;
  a.for_mail([&](uint64_t e) {
    const int j = col_of_entry(e);
    useful += int(price_of_entry(e));
    satisfied += j == A::kStays || (j != A::kNoColumn && atomic_min(&a.best[j], uint64_t(0)) != 0);
  });
  atomicAdd(&a.control[A::kCount], satisfied);
  atomicAdd(&a.control[A::kMine0], useful);
  a.sync();
  satisfied = a.control[A::kCount];
  useful = a.control[A::kMine0];
  for (int from = 0; from < a.cluster.blocks; ++from) {
    for (int k = 0; k < kWords; ++k) words[k] = max(words[k], slots[from * kRangeWords + k]);
  }
  for (int j = a.thread; j < a.cols; j += a.size) a.best[j] = ~uint64_t(0);
  most = from_ordered_bits(words[0]), least = -from_ordered_bits(words[1]);
  for (int k = 0; k < kOfRange; ++k) range.word[k] = typename Costs::Word(words[2 + k]);
  const CostRange found = range.result();
  if (a.cluster.rank == 0 && a.thread == 0) *a.f.template auction<CostRange>(0) = found;
  const float unit = float(found.lowest_bit);
  ++a.rounds;
  const float spread = float(most - least);
  const bool usable = spread > 1e-30f && spread < 1e37f;
  a.base = usable ? least : 0;
  const float scale = usable ? scale_of_rows(a, spread) : spread;
  // A row whose unmatched cost is far above all costs bids as if it had to be matched.
  for (int t = a.thread; a.may_leave() && t < a.rows_here(); t += a.size) {
    const double x = double(a.leave[t]);
    a.leave[t] = x <= most + spread ? float(x - a.base) : kFar;
  }
  a.sync();
  return {spread, unit, scale, usable && !is_far_wider(a, spread, unit), satisfied, useful};
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_AUCTION_INSPECT_CUH_
