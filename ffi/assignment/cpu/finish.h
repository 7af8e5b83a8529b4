// Computes the range of the costs before a solve, and a proved bound on the optimality gap after
// it.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// Results of one pass over floating-point costs.
struct CostRange {
  double max_abs = 0;                // greatest magnitude of a finite cost
  double min_abs = __builtin_inf();  // least magnitude of a finite cost other than 0
  bool invalid = false;              // a cost is NaN, or -infinity (+infinity when maximising)
};

// Range of the magnitudes of a row, for costs of 16 and 32 bits. A magnitude is represented by its
// key: the bits of the number, shifted left by one to drop the sign. Keys are ordered like
// magnitudes. `most` is the greatest key, `least` the least non-zero key minus 1. Every instruction
// set compares vectors of integers of these sizes, so the compiler vectorises the loop.
template <class L, class Bits>
void magnitude_range(const void* costs, int64_t cols, Bits* most, Bits* least) {
  using Aliased __attribute__((may_alias)) = Bits;
  const Aliased* row = static_cast<const Aliased*>(costs);
  Bits high = 0, low = Bits(-1);
  for (int64_t j = 0; j < cols; ++j) {
    const Bits key = Bits(row[j] << 1), below = Bits(key - 1);  // wraps around for key 0
    high = key > high ? key : high;
    low = below < low ? below : low;
  }
  *most = high;
  *least = low;
}

// The same for doubles. Compares the numbers themselves, because processors compare 64-bit integers
// more slowly.
template <class L>
void magnitude_range(const double* row, int64_t cols, uint64_t* most, uint64_t* least) {
  using Reg = typename L::Reg;
  constexpr int kTogether = 4;  // number of vectors per iteration, to hide latency
  const Reg zero = L::splat(0), infinity = L::splat(__builtin_inf());
  Reg high[kTogether], low[kTogether], sum[kTogether];
  for (int k = 0; k < kTogether; ++k) {
    high[k] = sum[k] = zero;
    low[k] = infinity;
  }
  const auto include = [&](Reg x, int k) {
    x = L::abs(x);
    high[k] = L::max(high[k], x);
    low[k] = L::min(low[k], L::select(L::equal(x, zero), infinity, x));
    sum[k] = L::add(sum[k], L::sub(x, x));  // stays 0; becomes NaN if a number is not finite
  };
  int64_t j = 0;
  for (; j + kTogether * L::kWidth <= cols; j += kTogether * L::kWidth) {
    for (int k = 0; k < kTogether; ++k) include(L::load_cost(row + j + k * L::kWidth), k);
  }
  for (; j < cols; j += L::kWidth) {
    const int64_t left = cols - j;
    include(left < L::kWidth ? L::load_cost(row + j, int(left)) : L::load_cost(row + j), 0);
  }
  for (int k = 1; k < kTogether; ++k) {
    high[0] = L::max(high[0], high[k]);
    low[0] = L::min(low[0], low[k]);
    sum[0] = L::add(sum[0], sum[k]);
  }
  const double greatest = -L::least(L::sub(zero, high[0])), smallest = L::least(low[0]);
  const bool finite = L::bits(L::equal(sum[0], zero)) == (1u << L::kWidth) - 1;
  const auto key = [](double x) {
    uint64_t bits;
    __builtin_memcpy(&bits, &x, sizeof bits);
    return bits << 1;
  };
  *most = finite ? key(greatest) : ~uint64_t(0);
  *least = smallest < __builtin_inf() ? key(smallest) - 1 : ~uint64_t(0);
}

template <class S>
CostRange find_cost_range(const S& s) {
  using Elem = typename S::Elem;
  using Bits = typename Format<Elem>::Bits;
  constexpr Bits kInfinite = Bits(Format<Elem>::kInfinityBits << 1);
  CostRange range;
  Bits most = 0, least = Bits(-1);
  // Rows without gaps between them are scanned as one row.
  const bool dense = S::kStored && !s.row_id && s.stride == s.cols;
  const int64_t rows = dense ? 1 : s.rows, cols = dense ? int64_t(s.rows) * s.cols : s.cols;
  for (int64_t i = 0; i < rows; ++i) {
    Bits high, low;
    const Elem* row = s.row(i);
    magnitude_range<typename S::Lanes>(row, cols, &high, &low);
    if (high < kInfinite) {
      most = high > most ? high : most;
      least = low < least ? low : least;
      continue;
    }
    for (int64_t j = 0; j < cols; ++j) {
      const double x = widen(row[j]);
      const double magnitude = x < 0 ? -x : x;
      if (!(x == x) || x * double(s.scale) == -__builtin_inf()) range.invalid = true;
      if (!(magnitude < __builtin_inf())) continue;
      if (magnitude > range.max_abs) range.max_abs = magnitude;
      if (magnitude > 0 && magnitude < range.min_abs) range.min_abs = magnitude;
    }
  }
  const auto value = [](Bits key) {
    const Bits bits = Bits(key >> 1);
    Elem x;
    __builtin_memcpy(&x, &bits, sizeof x);
    return double(widen(x));
  };
  if (value(most) > range.max_abs) range.max_abs = value(most);
  if (Bits(least + 1) != 0 && value(Bits(least + 1)) < range.min_abs) {
    range.min_abs = value(Bits(least + 1));
  }
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

// Upper bound on the optimality gap, proved by the column duals. It is the sum of two parts:
//   - over all rows, what the row pays minus the least that it could pay at these duals. A row pays
//     the reduced cost of its column, or its unmatched cost if it is dropped;
//   - over all unmatched columns, -v_j, if columns may stay unmatched.
// Rounding is monotone, so the true minimum of a row is among the entries whose rounded reduced
// costs attain the rounded minimum. The rounding errors of these entries are known exactly; the
// least of them corrects the rounded minimum.
template <class S>
double prove_gap(const S& s) {
  using L = typename S::Lanes;
  const auto scale = L::splat(s.scale);
  SumBound gap;
  for (int32_t i = 0; i < s.rows; ++i) {
    const auto* row = s.row(i);
    s.poll.after(s.cols);
    auto least = L::splat(s.leave(i));
    for_each_vector<L>(row, s.cols, [&](int64_t j, auto c) {
      least = L::min(least, L::scale_sub(c, scale, L::load(s.v + j)));
    });
    const double u = L::least(least);
    double u_error = s.leave(i) == u ? 0 : __builtin_inf();
    const auto target = L::splat(u);
    for_each_vector<L>(row, s.cols, [&](int64_t first, auto c) {
      const auto x = L::scale_sub(c, scale, L::load(s.v + first));
      for_each_bit(L::bits(L::equal(x, target)), [&](int k) {
        if (first + k >= s.cols) return;
        const double error = addition_error(s.entry(i, first + k), -s.v[first + k], u);
        u_error = error < u_error ? error : u_error;
      });
    });
    if (s.col4row[i] == kDropped) {
      gap.add(s.leave(i));
    } else {
      const int32_t j = s.col4row[i];
      const double cost = s.entry(i, j), paid = cost - s.v[j];
      gap.add(paid);
      gap.add(addition_error(cost, -s.v[j], paid));
    }
    gap.add(-u);
    gap.add(-u_error);
  }
  for (int32_t j = 0; s.cols_optional && j < s.cols; ++j) {
    if (s.row4col[j] == kNone) gap.add(-s.v[j]);
  }
  return gap.value();
}

// True if every number that the solve compared was a multiple of 2^granule below 2^(granule+53). A
// double represents such numbers exactly, so the solve was exact.
template <class S>
bool is_exact(const S& s, double max_abs, int granule) {
  double most_dual = 0;
  for (int32_t j = 0; j < s.cols; ++j) {
    const double v = double(s.v[j] < 0 ? -s.v[j] : s.v[j]);
    most_dual = v > most_dual ? v : most_dual;
  }
  return granule > -1020 && 8 * (max_abs + most_dual) < __builtin_ldexp(1, granule + 53);
}
