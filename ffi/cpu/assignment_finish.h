// What a solve reports beside the pairing: row duals, and a proved bound on the gap.
//
// Included once per instruction set, inside that set's namespace (assignment_solver.inc.h).

// What was read in one pass over the costs.
struct CostRange {
  double max_abs = 0;                  // over finite costs
  double min_abs = __builtin_inf();    // over non-zero finite costs
  bool invalid = false;                // NaN, or an infinity that does not forbid
};

template <class S>
CostRange inspect(const S& s) {
  using L = typename S::Lanes;
  CostRange range;
  const auto infinite = L::splat(__builtin_inf()), zero = L::splat(0);
  auto most = zero, least = infinite;
  for (int32_t i = 0; i < s.rows; ++i) {
    const auto* row = s.row(i);
    for_each_vector<L>(row, s.cols, [&](int64_t first, auto c) {
      const auto x = L::abs(c);
      const unsigned finite = L::bits(L::less(x, infinite));
      if (__builtin_expect(finite != (1u << L::kWidth) - 1, 0)) {
        for (int k = 0; k < L::kWidth && first + k < s.cols; ++k) {
          const double y = widen(row[first + k]);
          const double magnitude = y < 0 ? -y : y;
          if (!(y == y) || y * s.scale == -__builtin_inf()) range.invalid = true;
          if (!(magnitude < __builtin_inf())) continue;
          if (magnitude > range.max_abs) range.max_abs = magnitude;
          if (magnitude > 0 && magnitude < range.min_abs) range.min_abs = magnitude;
        }
        return;
      }
      most = L::max(most, x);
      least = L::min(least, L::select(L::equal(x, zero), infinite, x));
    });
  }
  double values[L::kWidth];
  L::store(values, most);
  for (double x : values) range.max_abs = x > range.max_abs ? x : range.max_abs;
  L::store(values, least);
  for (double x : values) range.min_abs = x < range.min_abs ? x : range.min_abs;
  return range;
}

// The exponent of the lowest set bit of a finite x; a large number for 0.
inline int lowest_bit(double x) {
  uint64_t bits;
  __builtin_memcpy(&bits, &x, sizeof bits);
  const int exponent = int(bits >> 52 & 0x7ff);
  uint64_t fraction = bits & ((uint64_t(1) << 52) - 1);
  if (exponent) fraction |= uint64_t(1) << 52;
  if (!fraction) return 2000;
  return (exponent ? exponent : 1) - 1075 + __builtin_ctzll(fraction);
}

// A sum that carries its own rounding error (Neumaier 1974).
struct CompensatedSum {
  double sum = 0, error = 0;
  void add(double x) {
    const double total = sum + x;
    if (__builtin_isfinite(total)) {
      error += __builtin_fabs(sum) >= __builtin_fabs(x) ? (sum - total) + x : (x - total) + sum;
    }
    sum = total;
  }
  double value() const { return sum + error; }
};

// The exact error of the rounded difference d = a - b (Knuth's TwoSum).
inline double difference_error(double a, double b, double d) {
  const double b_part = a - d, a_part = d + b_part;
  return (a - a_part) + (b_part - b);
}

inline double least_lane(const double* values, int width) {
  double least = values[0];
  for (int k = 1; k < width; ++k) least = values[k] < least ? values[k] : least;
  return least;
}

// The gap that the column duals prove: sum over rows of (what the row pays - the least that any
// column, or leaving, would cost at these duals) and of -v_j over unmatched optional columns.
// Rounding is monotone, so the true minimum of a row is among the entries whose rounded reduced
// costs attain the rounded minimum, and for those the error is known exactly.
template <class S>
double prove_gap(const S& s) {
  using L = typename S::Lanes;
  const auto scale = L::splat(s.scale);
  CompensatedSum gap;
  for (int32_t i = 0; i < s.rows; ++i) {
    const auto* row = s.row(i);
    auto least = L::splat(s.leave(i));
    for_each_vector<L>(row, s.cols, [&](int64_t j, auto c) {
      least = L::min(least, L::scale_sub(c, scale, L::load(s.v + j)));
    });
    double values[L::kWidth];
    L::store(values, least);
    const double u = least_lane(values, L::kWidth);
    double u_error = s.leave(i) == u ? 0 : __builtin_inf();
    const auto target = L::splat(u);
    for_each_vector<L>(row, s.cols, [&](int64_t first, auto c) {
      const auto x = L::scale_sub(c, scale, L::load(s.v + first));
      for_each_bit(L::bits(L::equal(x, target)), [&](int k) {
        if (first + k >= s.cols) return;
        const double error = difference_error(s.entry(i, first + k), s.v[first + k], u);
        u_error = error < u_error ? error : u_error;
      });
    });
    if (s.col4row[i] == kDropped) {
      gap.add(s.leave(i) - u);
      gap.add(-u_error);
    } else {
      const int32_t j = s.col4row[i];
      const double paid = s.entry(i, j) - s.v[j];
      gap.add(paid - u);
      gap.add(difference_error(s.entry(i, j), s.v[j], paid) - u_error);
    }
  }
  for (int32_t j = 0; s.cols_optional && j < s.cols; ++j) {
    if (s.row4col[j] == kNone) gap.add(-s.v[j]);
  }
  // The few roundings of the sum itself.
  const double total = gap.value();
  return total > 0 ? total * (1 + 0x1p-40) : 0;
}

// True where every number that the solve compared was a multiple of 2^granule below 2^(granule+53).
template <class S>
bool is_exact(const S& s, double max_abs, int granule) {
  double most = max_abs + double(s.ceiling < 0 ? -s.ceiling : s.ceiling);
  double most_dual = 0;
  for (int32_t j = 0; j < s.cols; ++j) {
    const double v = double(s.v[j] < 0 ? -s.v[j] : s.v[j]);
    most_dual = v > most_dual ? v : most_dual;
  }
  return granule > -1020 && 8 * (most + most_dual) < __builtin_ldexp(1, granule + 53);
}
