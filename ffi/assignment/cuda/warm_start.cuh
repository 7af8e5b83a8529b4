// Warm start: the solve begins with given column duals instead of column reduction. The duals come
// from the caller or from an auction, which calls them prices.
#ifndef JAXMATCH_CUDA_ASSIGNMENT_WARM_START_CUH_
#define JAXMATCH_CUDA_ASSIGNMENT_WARM_START_CUH_

#include "assignment/cuda/state.cuh"

namespace jaxmatch::assignment {

struct WarmStart {
  bool use;          // whether to start from the given duals
  bool held;         // whether an auction has computed prices for this problem
  double top, unit;  // place_duals() subtracts `top`, given_dual() rounds to multiples of `unit`
};

// The dual of column j from the auction or the caller. It is scaled like keys (arithmetic.cuh) and,
// unless `unit` is 0, rounded to a multiple of `unit`.
template <class S>
__device__ double given_dual(const S& s, int j, double unit) {
  const auto& f = s.f;
  double x;
  if (f.b.auction) {
    x = f.auction_price(j) * fabs(s.scale.factor);
  } else {
    const int64_t at = f.problem * f.b.m + f.col_id(j);
    x = read_real(f.b.start_dual, f.b.result_dtype, at) * s.scale.factor;
  }
  return unit > 0 ? rint(x / unit) * unit : x;
}

// Decides whether to start warm. If columns may stay unmatched, the caller's duals are not used,
// because each unmatched column whose dual is not 0 would cost a search (settle_columns.cuh). No
// duals are used if one of them is not finite, or if they exceed the costs by so much that sums
// with them would round.
template <class S>
__device__ WarmStart inspect_duals(const S& s, const CostRange& found) {
  const auto& f = s.f;
  WarmStart start{false, false, 0, 0};
  if (!(f.b.start_dual || f.b.auction) || f.rows == 0 || f.cols == 0) return start;
  if (s.cols_optional && (S::kOneWarp || !f.b.auction)) return start;
  start.held = f.b.auction && f.auction_price(0) == f.auction_price(0);
  const double factor = fabs(s.scale.factor);
  // Duals that are multiples of the unit of the costs keep later sums exact. Units below 2^-1000
  // are ignored.
  start.unit = found.lowest_bit >= 0x1p-1000 ? found.lowest_bit * factor : 0;
  double limit = 16 * (found.max_abs * factor);
  if (S::Arithmetic::kWatched) limit = fmin(limit, double(s.scale.most) / 2);
  double least = __builtin_huge_val(), most = -__builtin_huge_val();
  bool fits = true;
  for (int j = f.group.thread; j < f.cols; j += f.group.size) {
    const double x = given_dual(s, j, start.unit);
    fits = fits && fabs(x) <= 16 * limit;
    least = fmin(least, x);
    most = fmax(most, x);
  }
  uint64_t ends[3] = {ordered_bits(most), ordered_bits(-least), uint64_t(!fits)};
  f.group.all_max(ends, f.template shared<uint64_t>(f.b.shared.slots));
  start.top = s.cols_optional ? 0 : from_ordered_bits(ends[0]);
  start.use = ends[2] == 0 && start.top + from_ordered_bits(ends[1]) <= limit;
  return start;
}

// Sets v to the given duals minus start.top, so that no dual is above 0. If columns may stay
// unmatched, the prices of the auction are at most 0 already, and start.top is 0.
template <class S>
__device__ void place_duals(const S& s, const WarmStart& start) {
  for (int j = s.f.group.thread; j < s.f.cols; j += s.f.group.size) {
    s.v[j] = typename S::Key(given_dual(s, j, start.unit) - start.top);
  }
  s.f.group.sync();
}

}  // namespace jaxmatch::assignment

#endif  // JAXMATCH_CUDA_ASSIGNMENT_WARM_START_CUH_
