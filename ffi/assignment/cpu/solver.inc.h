// Exact assignment by Jonker and Volgenant (1987): canonical form, initialisation, shortest
// augmenting paths, and results.
//
// Included by portable.cc, avx2.cc and avx512.cc, which define JAXMATCH_ISA_NAMESPACE (the
// namespace) and are compiled for their instruction set. Only solve_assignment may have external
// linkage, and nothing may come from the C++ standard library (see assignment/cpu/problem.h).

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(JAXMATCH_AVX2) || defined(JAXMATCH_AVX512)
#include <immintrin.h>
#endif

#include "assignment/cpu/problem.h"
#include "common/cpu/poll.h"
#include "common/host_device.h"

namespace jaxmatch::assignment {
namespace JAXMATCH_ISA_NAMESPACE {
namespace {

// clang-format off: each of these headers needs the ones above it.
#include "common/compensated_sum.inc.h"
#include "common/float16.inc.h"
#include "common/cpu/number_format.inc.h"
#include "common/exponents.inc.h"
#include "common/cpu/lanes.inc.h"
#include "common/cpu/transpose.inc.h"
#include "common/cpu/stack.inc.h"
#include "common/reals.inc.h"
#include "common/cpu/two_least.inc.h"
#include "assignment/cpu/state.h"
#include "assignment/cpu/canonical.h"
#include "assignment/cpu/start.h"
#include "assignment/cpu/augment.h"
#include "assignment/cpu/warm_start.h"
#include "assignment/cpu/auction.h"
#include "assignment/cpu/distances.h"
#include "assignment/cpu/points.h"
#include "assignment/cpu/finish.h"
#include "assignment/cpu/big_m.h"
// clang-format on

// Limit on immediate rebids of displaced rows in one pass of row reduction, per row of the problem.
// Without a limit, rows would go on outbidding each other by ever smaller amounts. kRowReductions
// is the number of passes.
constexpr int64_t kRebidsPerRow = 1;
constexpr int kRowReductions = 2;
// The solver switches from searches to an auction (assignment/cpu/auction.h) once searches have
// scanned kScansPerRow times as many rows as the problem has. If more than 1 / kMostFreePart of the
// rows are free after row reduction, the solver runs the auction at once. An auction scans about 35
// times as many rows as the problem has; searches scan up to several hundred times as many.
// Problems with fewer than kFewestBidders rows never have an auction.
constexpr int64_t kScansPerRow = 48, kFewestBidders = 64;
constexpr int32_t kMostFreePart = 4;

template <class S>
void allocate_state(S* s, Stack* stack) {
  using Acc = typename S::Acc;
  const int64_t width = padded<typename S::Lanes>(s->cols);
  s->v = stack->take<Acc>(width);
  s->dist = stack->take<Acc>(width);
  s->label = stack->take<Acc>(width);
  s->barrier = stack->take<Acc>(width);
  s->open_key = stack->take<Acc>(width);
  s->row4col = stack->take<int32_t>(s->cols);
  s->pred = stack->take<int32_t>(s->cols);
  s->position = stack->take<int32_t>(s->cols);
  s->open_col = stack->take<int32_t>(s->cols);
  s->settled = stack->take<int32_t>(s->cols);
  s->col4row = stack->take<int32_t>(s->rows);
  s->free_rows = stack->take<int32_t>(s->rows);
  s->next_best = stack->take<Acc>(s->rows);
}

template <class S>
void clear_state(S& s) {
  using Acc = typename S::Acc;
  for (int64_t j = 0; j < s.cols; ++j) {
    s.v[j] = 0;
    s.row4col[j] = s.position[j] = kNone;
  }
  for (int64_t j = s.cols; j < padded<typename S::Lanes>(s.cols); ++j) {
    s.v[j] = -kInfinity<Acc>;
    s.dist[j] = kInfinity<Acc>;
    s.barrier[j] = kNever<Acc>;
    s.label[j] = -kInfinity<Acc>;
  }
  for (int64_t i = 0; i < s.rows; ++i) s.col4row[i] = kNone;
}

// Runs the initialisation (assignment/cpu/start.h). If `warm`, or if columns may stay unmatched,
// row reduction starts from the duals in v, without column reduction. Returns the number of rows
// that are still free, or kNone if a row has no allowed column and no unmatched cost.
template <class S>
int32_t start_rows(S& s, bool warm) {
  using Acc = typename S::Acc;
  int32_t free_count = 0;
  if (!warm && !s.cols_optional) {
    int32_t* count = s.settled;
    reduce_columns(s, count);
    transfer_reductions(s, count);
    for (int32_t i = 0; i < s.rows; ++i) {
      if (s.col4row[i] == kNone) s.free_rows[free_count++] = i;
    }
  } else {
    for (; free_count < s.rows; ++free_count) s.free_rows[free_count] = free_count;
  }
  for (int pass = 0; pass < kRowReductions && free_count > 0; ++pass) {
    free_count = reduce_rows(s, free_count, kRebidsPerRow * s.rows);
    if (free_count == kNone) return kNone;
  }
  for (int64_t j = 0; j < s.cols; ++j) {
    s.barrier[j] = s.row4col[j] == kNone ? Acc(0) : kNever<Acc>;
  }
  return free_count;
}

// Computes the matching and its duals. Sums with duals beyond `limit` might round. For `unit` see
// auction(), for `big_m` see find_big_m(). Returns false if the problem is infeasible.
template <class S>
bool solve_canonical(S& s, bool warm, double limit, double unit, int big_m) {
  int32_t free_count = start_rows(s, warm);
  if (free_count == kNone) return false;
  // The epsilon of an auction is a fraction of the spread of the costs. If big-M pairs could not be
  // forbidden (kNeedsBigM), their costs are part of the spread, and epsilon is so large that an
  // auction could not tell the other costs apart. So there is no auction.
  const bool may_bid = s.rows >= kFewestBidders && big_m != kNeedsBigM;
  Searched searched = Searched::kOverBudget;
  if (!may_bid || free_count <= s.rows / kMostFreePart) {
    searched = augment_rows(s, free_count, may_bid ? kScansPerRow * s.rows : INT64_MAX);
  }
  if (searched == Searched::kOverBudget) {
    warm = shift_duals(s, auction(s, unit), limit);
    free_count = start_rows(s, warm);
    if (free_count == kNone) return false;
    searched = augment_rows(s, free_count, INT64_MAX);
  }
  if (searched == Searched::kInfeasible) return false;
  if (warm && s.cols_optional) settle_free_columns(s);
  return true;
}

// Turns -0 into +0, since the instruction set decides which of the two zeros a minimum returns.
inline double unsigned_zero(double x) { return x + 0.0; }

template <class S>
void write_solution(const S& s, const CanonicalForm& f, double gap) {
  using Elem = typename S::Elem;
  const AssignmentProblem& p = f.p;
  for (int64_t i = 0; i < p.n; ++i) p.col4row[i] = kNone;
  for (int64_t j = 0; j < p.m; ++j) p.row4col[j] = kNone;
  if (p.row_mask) {
    for (int64_t i = 0; i < p.n; ++i) write_real(p.row_dual, p.result_dtype, i, 0);
  }
  if (p.col_mask) {
    for (int64_t j = 0; j < p.m; ++j) write_real(p.col_dual, p.result_dtype, j, 0);
  }
  void* const row_dual = f.transposed ? p.col_dual : p.row_dual;
  void* const col_dual = f.transposed ? p.row_dual : p.col_dual;
  const double unscale = 1 / double(s.scale);
  __int128 integer_sum = 0;
  FullRangeSum sum;
  for (int64_t i = 0; i < s.rows; ++i) {
    const int32_t row = f.row_list[i];
    const int32_t j = s.col4row[i];
    if (j == kDropped) {
      if (p.unmatched_dtype == Dtype::kS64) {
        integer_sum += static_cast<const int64_t*>(p.unmatched_cost)[row];
      } else {
        sum.add(read_real(p.unmatched_cost, p.unmatched_dtype, row));
      }
      write_real(row_dual, p.result_dtype, row, unsigned_zero(double(s.leave(i)) * unscale));
      continue;
    }
    const int32_t col = f.col_list[j];
    p.col4row[f.transposed ? col : row] = f.transposed ? row : col;
    p.row4col[f.transposed ? row : col] = f.transposed ? col : row;
    const auto cost = widen(s.cost_of(i, j));
    if (Format<Elem>::kInteger) {
      integer_sum += __int128(cost);
    } else {
      sum.add(double(cost));
    }
    const double dual = double(s.entry(i, j) - s.v[j]) * unscale;
    write_real(row_dual, p.result_dtype, row, unsigned_zero(dual));
  }
  for (int64_t j = 0; j < s.cols; ++j) {
    write_real(col_dual, p.result_dtype, f.col_list[j], unsigned_zero(double(s.v[j]) * unscale));
  }
  const double real_sum = sum.value();
  const double value = Format<Elem>::kInteger && real_sum == 0 ? double(integer_sum)
                                                               : double(integer_sum) + real_sum;
  write_real(p.value, p.result_dtype, 0, value);
  gap *= fabs(unscale);
  if (p.result_dtype == Dtype::kF32 && gap > double(float(gap))) {
    gap = nextafterf(float(gap), __builtin_inff());
  }
  write_real(p.gap, p.result_dtype, 0, gap);
  *p.status = kOptimal;
}

// Results of one pass over the costs and the unmatched costs.
struct CostSummary {
  Status status = kOptimal;
  double max_abs = 0;                // greatest magnitude of a finite cost or unmatched cost
  double min_abs = __builtin_inf();  // least magnitude of a finite floating-point cost other than 0
  int granule = 0;                   // all costs and unmatched costs are multiples of 2^granule
  bool too_wide = false;             // true if doubles might round sums of int64 costs
};

uint64_t magnitude(int64_t x) { return x < 0 ? 0 - uint64_t(x) : uint64_t(x); }

// True if one cost, or the sum over all pairs of a matching, might reach 2^61. `most` bounds the
// magnitude of each cost.
template <class S>
bool sums_overflow(const S& s, uint64_t most) {
  const int64_t least = s.rows < s.cols ? s.rows : s.cols, pairs = least > 1 ? least : 1;
  return (unsigned __int128)(most)*pairs >= (unsigned __int128)(1) << 61;
}

// Scans the costs and unmatched costs. `big_m`: the least exponent of forbidden costs, see
// find_big_m().
template <class S>
CostSummary inspect_problem(const S& s, const CanonicalForm& f, int big_m) {
  using Elem = typename S::Elem;
  CostSummary found;
  if constexpr (__is_same(Elem, int32_t)) {
    found.max_abs = 0x1p31;  // an upper bound that needs no scan
  } else if constexpr (__is_same(Elem, int64_t)) {
    uint64_t most = 0;
    for (int64_t i = 0; i < s.rows; ++i) {
      for (int64_t j = 0; j < s.cols; ++j) {
        const uint64_t x = magnitude(s.row(i)[j]);
        most = x > most ? x : most;
      }
    }
    if (sums_overflow(s, most)) found.status = kOverflow;
    found.max_abs = double(most);
  } else {
    const CostRange range = find_cost_range(s);
    if (range.invalid) found.status = kInvalidCost;
    found.max_abs = range.max_abs;
    found.min_abs = range.min_abs;
    found.granule = granule_of<Elem>(range.min_abs);
  }
  if (f.p.unmatched_cost) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const double r = read_real(f.p.unmatched_cost, f.p.unmatched_dtype, f.row_list[i]);
      const double signed_r = f.p.maximize ? -r : r;
      if (!(signed_r > -__builtin_inf())) found.status = kInvalidCost;
      if (!__builtin_isfinite(r) || is_big_m<Elem>(r, big_m)) continue;
      if (Format<Elem>::kInteger && found.status == kOptimal &&
          sums_overflow(
              s, f.p.unmatched_dtype == Dtype::kS64
                     ? magnitude(static_cast<const int64_t*>(f.p.unmatched_cost)[f.row_list[i]])
                     : uint64_t(fmin(fabs(r), 0x1p63)))) {
        found.status = kOverflow;
      }
      found.max_abs = fabs(r) > found.max_abs ? fabs(r) : found.max_abs;
      const int lowest = lowest_bit(r);
      found.granule = lowest < found.granule ? lowest : found.granule;
    }
  }
  found.too_wide = __is_same(Elem, int64_t) && found.max_abs >= 0x1p45;
  return found;
}

enum class Outcome { kDone, kAgain, kNeedsWider, kOutOfMemory };

// Tries to solve the problem. If `big_m` is an exponent, costs with this or a greater exponent are
// forbidden. In the first call, `big_m` must be kUnknownBigM. If solve_below() returns kAgain, it
// has changed `big_m`, and the caller must call it again.
template <class S>
Outcome solve_below(const AssignmentProblem& p, Arena* arena, int& big_m) {
  using Elem = typename S::Elem;
  using Acc = typename S::Acc;
  constexpr bool kDouble = __is_same(Acc, double);
  constexpr bool kMayHaveBigM = S::kStored && !Format<Elem>::kInteger;
  CanonicalForm f(p, big_m >= 0);
  S s;
  s.rows = int32_t(f.rows);
  s.cols = int32_t(f.cols);
  Acc* unmatched = nullptr;
  const auto allocate_all = [&](Stack* stack) {
    f.allocate_lists(stack);
    allocate_state(&s, stack);
    if (p.unmatched_cost) unmatched = stack->take<Acc>(f.rows);
    allocate_costs(&s, f, stack);
  };
  Stack stack;
  allocate_all(&stack);
  if (!reserve(arena, stack.used, &stack)) {
    if (big_m < 0) return Outcome::kOutOfMemory;
    big_m = kNeedsBigM;  // retries without a copy of the costs, for which there was no memory
    return Outcome::kAgain;
  }
  allocate_all(&stack);

  gather_costs(&s, f);
  if constexpr (kMayHaveBigM) {
    if (big_m >= 0) forbid_big_m(s, big_m, p.maximize);
  }
  s.scale = p.maximize ? -1 : 1;
  s.unmatched = nullptr;
  s.cols_optional = p.unmatched_cost || s.rows < s.cols;
  clear_state(s);

  const CostSummary found = inspect_problem(s, f, big_m);
  if (found.status != kOptimal) {
    write_failure(p, found.status);
    return Outcome::kDone;
  }
  if (kDouble && found.too_wide) return Outcome::kNeedsWider;
  if constexpr (kDouble) {
    // Scales down huge costs: their sums along a path would overflow to infinity, which means
    // forbidden. Start duals, which may be 16 times as large as costs, make these sums larger.
    const double longest = (p.start_dual ? 1024 : 16) * double(s.rows + 1);
    if (found.max_abs > 0x1p1022 / longest) s.scale *= ldexp(1, -2 - ilogb(longest));
  }
  if (p.unmatched_cost) {
    for (int64_t i = 0; i < s.rows; ++i) {
      const double r = read_real(p.unmatched_cost, p.unmatched_dtype, f.row_list[i]);
      unmatched[i] = kNever<Acc>;
      if (!__builtin_isfinite(r) || is_big_m<Elem>(r, big_m)) continue;
      if (!kDouble && r != rint(r)) {
        write_failure(p, kInvalidCost);
        return Outcome::kDone;
      }
      unmatched[i] =
          s.scale * (p.unmatched_dtype == Dtype::kS64
                         ? Acc(static_cast<const int64_t*>(p.unmatched_cost)[f.row_list[i]])
                         : Acc(r));
    }
    s.unmatched = unmatched;
  }
  if constexpr (kMayHaveBigM) {
    if (big_m == kUnknownBigM) big_m = find_big_m(s, found.max_abs, found.min_abs);
    if (big_m >= 0 && !f.differs) return Outcome::kAgain;
  }
  const bool warm = warm_start(s, f, found.max_abs, found.granule);
  // The unit of all costs, as in warm_start().
  const double unit = found.granule > -1000 ? ldexp(fabs(double(s.scale)), found.granule) : 0;
  const double limit = 16 * (found.max_abs * fabs(double(s.scale)));
  const bool solved = solve_canonical(s, warm, limit, unit, big_m);
  if constexpr (kMayHaveBigM) {
    if (big_m >= 0 && !(solved && are_duals_below(s, big_m, found.max_abs))) {
      big_m = kNeedsBigM;
      return Outcome::kAgain;
    }
  }
  if (!solved) {
    write_failure(p, kInfeasible);
    return Outcome::kDone;
  }
  double gap = 0;
  if constexpr (kDouble) {
    if (!is_exact(s, found.max_abs, found.granule)) {
      if (__is_same(Elem, int64_t) && found.granule >= 0) return Outcome::kNeedsWider;
      gap = prove_gap(s);
      // Adds a bound on the errors that scaling down made: it rounded the smallest costs.
      if (fabs(s.scale) < 1) gap = (gap + 4 * double(s.rows) * 0x1p-1074) * (1 + 0x1p-50);
    }
  }
  write_solution(s, f, gap);
  return Outcome::kDone;
}

template <class S>
Outcome solve_with(const AssignmentProblem& p, Arena* arena) {
  int big_m = kUnknownBigM;
  for (;;) {
    const Outcome outcome = solve_below<S>(p, arena, big_m);
    if (outcome != Outcome::kAgain) return outcome;
  }
}

template <class Elem>
bool solve_as(const AssignmentProblem& p, Arena* arena) {
  Outcome outcome = solve_with<State<DoubleLanes, Elem>>(p, arena);
  if constexpr (__is_same(Elem, int64_t)) {
    if (outcome == Outcome::kNeedsWider) outcome = solve_with<State<WideLanes, Elem>>(p, arena);
  }
  return outcome == Outcome::kDone;
}

template <class Elem>
bool solve_points(const AssignmentProblem& p, Arena* arena) {
  return solve_with<PointState<DoubleLanes, Elem>>(p, arena) == Outcome::kDone;
}

}  // namespace

bool solve_assignment(const AssignmentProblem& p, Arena* arena) {
  if (p.points) {
    return p.cost_dtype == Dtype::kF32 ? solve_points<float>(p, arena)
                                       : solve_points<double>(p, arena);
  }
  switch (p.cost_dtype) {
    case Dtype::kBF16:
      return solve_as<BFloat16>(p, arena);
    case Dtype::kF16:
      return solve_as<Float16>(p, arena);
    case Dtype::kF32:
      return solve_as<float>(p, arena);
    case Dtype::kF64:
      return solve_as<double>(p, arena);
    case Dtype::kS32:
      return solve_as<int32_t>(p, arena);
    case Dtype::kS64:
      return solve_as<int64_t>(p, arena);
  }
  return false;
}

}  // namespace JAXMATCH_ISA_NAMESPACE
}  // namespace jaxmatch::assignment
