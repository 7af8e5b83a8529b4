// Passes over a row of costs.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

template <class C>
double least_of_row(const C& c, int32_t i) {
  using L = typename C::Lanes;
  const auto scale = L::splat(c.scale);
  auto least = L::splat(__builtin_inf());
  for_each_vector<L>(c.row(i), c.cols, [&](int64_t j, auto x) {
    least = L::min(least, L::scale_sub(x, scale, L::load(c.v + j)));
  });
  return L::least(least);
}

// The first column with the reduced cost `value`.
template <class C>
int32_t find_column(const C& c, int32_t i, double value) {
  using L = typename C::Lanes;
  const auto scale = L::splat(c.scale), target = L::splat(value);
  const auto* row = c.row(i);
  for (int64_t j = 0; j < c.cols; j += L::kWidth) {
    const auto x =
        j + L::kWidth <= c.cols ? L::load_cost(row + j) : L::load_cost(row + j, int(c.cols - j));
    const unsigned equal = L::bits(L::equal(L::scale_sub(x, scale, L::load(c.v + j)), target));
    if (equal) return int32_t(j) + __builtin_ctz(equal);
  }
  return kNone;
}

// The greatest difference between finite reduced costs.
template <class C>
double spread_of_costs(const C& c) {
  using L = typename C::Lanes;
  const auto scale = L::splat(c.scale), infinity = L::splat(__builtin_inf());
  auto least = infinity, most = L::splat(-__builtin_inf());
  Poll poll;
  for (int32_t i = 0; i < c.rows; ++i) {
    poll.after(c.cols);
    for_each_vector<L>(c.row(i), c.cols, [&](int64_t j, auto y) {
      // x is infinite in the padding, where v is -infinity.
      const auto x = L::scale_sub(y, scale, L::load(c.v + j));
      least = L::min(least, x);
      most = L::max(most, L::select(L::less(x, infinity), x, most));
    });
  }
  double values[L::kWidth], greatest = -__builtin_inf();
  L::store(values, most);
  for (const double x : values) greatest = greatest < x ? x : greatest;
  return greatest - L::least(least);
}

// What scan_exactly() finds in row i: the least of C_ij - v_j in whole units, the first column that
// has it, and whether every cost of the row is a whole number of units.
struct ExactScan {
  int64_t least;
  int32_t col;
  bool whole;
};

template <class C>
ExactScan scan_exactly(const C& c, const int64_t* v, int32_t i) {
  using Elem = typename C::Elem;
  const Elem* row = c.row(i);
  int64_t least = INT64_MAX;
  bool rounded = false;
  for (int32_t j = 0; j < c.cols; ++j) {
    const int64_t x = c.units_of(row[j]) - v[j];
    least = x < least ? x : least;
    if constexpr (!Format<Elem>::kInteger) {
      const double y = double(widen(row[j])) * c.scale;
      rounded |= y < __builtin_inf() && double(as_integer(y)) != y;
    }
  }
  int32_t col = 0;
  while (c.units_of(row[col]) - v[col] != least) ++col;
  return {least, col, !rounded};
}
