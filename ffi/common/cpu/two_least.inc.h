// The least and the second least reduced cost of a row i: of C_ij - v_j, where C is the scaled cost
// and v the column duals.
//
// Solvers include this file once per instruction set, inside that set's namespace (see
// assignment/cpu/problem.h).

template <class Acc>
struct TwoLeast {
  Acc first, second;  // the two least reduced costs
  int32_t col;        // column of `first`; the lowest among ties
};

template <class S>
TwoLeast<typename S::Acc> two_least(const S& s, int32_t i) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  const auto scale = L::splat(s.scale);
  const auto infinity = L::splat(kInfinity<Acc>), step = L::splat(L::kWidth);
  auto first = infinity, second = infinity, col = infinity, here = L::lane_numbers();
  for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
    const auto x = L::scale_sub(c, scale, L::load(s.v + j));
    const auto better = L::less(x, first);
    second = L::min(second, L::max(x, first));
    first = L::min(first, x);
    col = L::select(better, here, col);
    here = L::add(here, step);
  });
  // Reduces across lanes without a branch, since the winning lane is unpredictable.
  TwoLeast<Acc> least;
  L::least_two(first, second, &least.first, &least.second);
  const auto tied = L::equal(first, L::splat(least.first));
  const Acc winner = L::least(L::select(tied, col, infinity));
  least.col = winner < kInfinity<Acc> ? int32_t(winner) : 0;
  return least;
}
