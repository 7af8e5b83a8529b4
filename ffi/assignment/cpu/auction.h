// Start duals by an auction with epsilon scaling (Bertsekas 1988): one free row after another bids
// for its best column. Each scale is cut off once few rows are free, because the last ones would
// bid against each other for long; searches match them.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// The greatest difference between finite reduced costs C_ij - v_j.
template <class S>
typename S::Acc reduced_spread(const S& s) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  const auto scale = L::splat(s.scale), infinity = L::splat(kInfinity<Acc>);
  auto least = infinity, most = L::splat(-kInfinity<Acc>);
  for (int32_t i = 0; i < s.rows; ++i) {
    for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
      const auto x = L::scale_sub(c, scale, L::load(s.v + j));
      least = L::min(least, x);
      most = L::max(most, L::select(L::less(x, infinity), x, most));
    });
  }
  Acc values[L::kWidth], greatest = -kInfinity<Acc>;
  L::store(values, most);
  for (const Acc x : values) greatest = greatest < x ? x : greatest;
  return greatest - L::least(least);
}

// Frees the rows whose column costs them more than epsilon above their least, and lists all free
// rows. Returns their number.
template <class S>
int32_t free_slack_rows(S& s, typename S::Acc epsilon) {
  int32_t count = 0;
  for (int32_t i = 0; i < s.rows; ++i) {
    const int32_t j = s.col4row[i];
    if (j >= 0) {
      if (!(two_least(s, i).first + epsilon < s.entry(i, j) - s.v[j])) continue;
      s.row4col[j] = s.col4row[i] = kNone;
    }
    s.free_rows[count++] = i;
  }
  return count;
}

// Bids at one scale until few rows are free. Returns false if it was given up: the rows bid without
// end if the problem is infeasible.
template <class S>
bool bid_at_scale(S& s, typename S::Acc epsilon) {
  using Acc = typename S::Acc;
  constexpr int32_t kStopPart = 256, kFewest = 4, kMostBidsPerRow = 64;
  const int32_t stop = s.rows / kStopPart > kFewest ? s.rows / kStopPart : kFewest;
  int64_t bids_left = int64_t(kMostBidsPerRow) * s.rows;
  int32_t count = free_slack_rows(s, epsilon), first = 0;  // of a ring
  while (count > stop) {
    if (--bids_left < 0) return false;
    const int32_t i = s.free_rows[first];
    first = first + 1 == s.rows ? 0 : first + 1;
    --count;
    const auto two = two_least(s, i);
    if (!(two.first < kInfinity<Acc>)) continue;  // has no allowed column
    const Acc gain = two.second < kInfinity<Acc> ? two.second - two.first : Acc(0);
    s.v[two.col] -= gain + epsilon;
    const int32_t displaced = s.row4col[two.col];
    s.row4col[two.col] = i;
    s.col4row[i] = two.col;
    if (displaced == kNone) continue;
    s.col4row[displaced] = kNone;
    const int32_t last = first + count++;
    s.free_rows[last < s.rows ? last : last - s.rows] = displaced;
  }
  return true;
}

// Lowers v by an auction that starts from the present duals and pairs, and unmatches all rows.
// There are as many columns as rows, and all must be matched. v stays a multiple of `unit`, unless
// that is 0.
template <class S>
void auction(S& s, double unit) {
  using Acc = typename S::Acc;
  constexpr double kFirst = 1.0 / 32, kFactor = 1.0 / 5, kLast = 1e-6;  // parts of the spread
  const double spread = double(reduced_spread(s));
  const double last = spread * kLast > unit / 2 ? spread * kLast : unit / 2;
  for (double size = spread * kFirst; spread < __builtin_inf(); size *= kFactor) {
    // From 2^53 units on every double is a multiple of the unit.
    const bool rounds = unit > 0 && size / unit < 0x1p53;
    const Acc epsilon = Acc(rounds ? ceil(size / unit) * unit : size);
    if (!(epsilon > 0) || !bid_at_scale(s, epsilon) || size <= last) break;
  }
  for (int32_t i = 0; i < s.rows; ++i) s.col4row[i] = kNone;
  for (int32_t j = 0; j < s.cols; ++j) s.row4col[j] = kNone;
}
