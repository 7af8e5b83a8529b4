// Finds start duals by an auction with epsilon scaling (Bertsekas 1988): one free row after another
// bids for its best column. A scale is a phase of the auction in which epsilon is constant. A scale
// ends once few rows are free, because the last free rows would outbid each other many times. The
// solver keeps only the duals of the auction: row reduction and searches then match the rows anew.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// The maximum minus the minimum of all finite reduced costs C_ij - v_j and unmatched costs.
template <class S>
typename S::Acc reduced_spread(const S& s) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  const auto scale = L::splat(s.scale), infinity = L::splat(kInfinity<Acc>);
  auto least = infinity, most = L::splat(-kInfinity<Acc>);
  for (int32_t i = 0; i < s.rows; ++i) {
    const auto include = [&](auto x) {
      least = L::min(least, x);
      most = L::max(most, L::select(L::less(x, infinity), x, most));
    };
    for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
      include(L::scale_sub(c, scale, L::load(s.v + j)));
    });
    include(L::splat(s.leave(i)));
  }
  Acc values[L::kWidth], greatest = -kInfinity<Acc>;
  L::store(values, most);
  for (const Acc x : values) greatest = greatest < x ? x : greatest;
  return greatest - L::least(least);
}

// The state of an auction. Columns that stay unmatched must have the greatest dual, `top`.
// Conceptually, each of these columns is held by an extra row, whose cost is 0 in every column. All
// extra rows are identical. If rows may be dropped, each row also has a private column. Its cost is
// the unmatched cost of the row, and its dual is `top`. A dropped row holds its private column;
// extra rows hold the other private columns.
//
// A row pays the reduced cost of the column that it holds. s.next_best[i] is a lower bound on what
// row i would pay if it gave up its present column. This bound stays valid because v only falls.
template <class S>
struct Auction {
  using Acc = typename S::Acc;
  S& s;
  Acc epsilon = 0, top = 0, step = 0, next_step = 0;
  int32_t first = 0, free_count = 0;  // start and length of the ring buffer s.free_rows

  Acc leave(int32_t i) const { return s.leave(i) - top; }

  int32_t next_row() {
    const int32_t i = s.free_rows[first];
    first = first + 1 == s.rows ? 0 : first + 1;
    --free_count;
    return i;
  }
  void add_free(int32_t i) {
    s.col4row[i] = kNone;
    const int32_t last = first + free_count++;
    s.free_rows[last < s.rows ? last : last - s.rows] = i;
  }

  // Begins a scale with epsilon = `size`. Frees the rows that pay more than the cost of their
  // cheapest choice plus epsilon.
  void begin(Acc size) {
    epsilon = step = next_step = size;
    first = free_count = 0;
    for (int32_t i = 0; i < s.rows; ++i) {
      const int32_t j = s.col4row[i];
      if (j != kNone) {
        const auto two = two_least(s, i);
        const Acc best = leave(i) < two.first ? leave(i) : two.first;
        const Acc other = two.col == j ? two.second : two.first;
        s.next_best[i] = j >= 0 && leave(i) < other ? leave(i) : other;
        if (!(best + epsilon < (j >= 0 ? s.entry(i, j) - s.v[j] : leave(i)))) continue;
        if (j >= 0) s.row4col[j] = kNone;
      }
      add_free(i);
    }
  }
  // Row i takes its best column and lowers the dual of the column, until the column is epsilon
  // worse than the next best choice. If being dropped is best, the row is dropped.
  void bid(int32_t i) {
    s.poll.after(s.cols);
    const auto two = two_least(s, i);
    if (!(two.first < kInfinity<Acc>) && !(s.leave(i) < kInfinity<Acc>))
      return;  // the problem is infeasible
    if (!(leave(i) > two.first)) {
      s.col4row[i] = kDropped;
      s.next_best[i] = two.first;
      return;
    }
    const Acc next = leave(i) < two.second ? leave(i) : two.second;
    s.v[two.col] -= (next < kInfinity<Acc> ? next - two.first : Acc(0)) + epsilon;
    s.next_best[i] = next;
    const int32_t displaced = s.row4col[two.col];
    s.row4col[two.col] = i;
    s.col4row[i] = two.col;
    if (displaced != kNone) add_free(displaced);
  }
  // If more than `few` of the identical extra rows lack a column, all extra rows bid together: they
  // lower `top`, by steps that grow like Fibonacci numbers. Rows that now pay more than the cost of
  // another choice plus epsilon become free. Returns false if at most `few` extra rows lack a
  // column.
  bool lower_top(int32_t few) {
    int32_t lacking = -free_count;
    for (int32_t j = 0; j < s.cols; ++j) lacking += s.row4col[j] == kNone && s.v[j] < top;
    if (lacking <= few) return false;
    top -= step;
    next_step += step;
    step = next_step - step;
    for (int32_t i = 0; i < s.rows; ++i) {
      const int32_t j = s.col4row[i];
      if (j == kNone || (j >= 0 && !(s.v[j] > top))) continue;
      const Acc pays = (j >= 0 ? s.entry(i, j) : s.leave(i)) - top;
      if (!(pays > s.next_best[i] + epsilon)) continue;
      if (j >= 0) s.row4col[j] = kNone;
      add_free(i);
    }
    for (int32_t j = 0; j < s.cols; ++j) s.v[j] = s.v[j] < top ? s.v[j] : top;
    return true;
  }
  // Runs the scale with epsilon = `size`: rows bid until few of them are free. Returns false once a
  // limit on bids is reached, because rows of an infeasible problem would bid forever.
  bool run_scale(Acc size) {
    constexpr int32_t kStopPart = 256, kFewest = 4, kMostBidsPerRow = 64;
    const int32_t few = s.rows / kStopPart > kFewest ? s.rows / kStopPart : kFewest;
    int64_t bids_left = int64_t(kMostBidsPerRow) * s.rows;
    begin(size);
    do {
      for (; free_count > few; bid(next_row())) {
        if (--bids_left < 0) return false;
      }
      if (--bids_left < 0) return false;
    } while (s.cols_optional && lower_top(few));
    return true;
  }
};

// Lowers v by an auction that starts from the present duals and pairs. Then unmatches all rows.
// Unless `unit` is 0, all v stay multiples of `unit`. Returns the dual that unmatched columns must
// have.
template <class S>
typename S::Acc auction(S& s, double unit) {
  using Acc = typename S::Acc;
  // The first and the last epsilon are these fractions of the spread of the reduced costs.
  constexpr double kFirst = 1.0 / 32, kFactor = 1.0 / 5, kLast = 1e-6;
  const double spread = double(reduced_spread(s));
  Auction<S> bidding{s};
  const double last = spread * kLast > unit / 2 ? spread * kLast : unit / 2;
  for (double size = spread * kFirst; spread < __builtin_inf(); size *= kFactor) {
    // Rounds epsilon up to a multiple of the unit. From 2^53 units on, every double is a multiple
    // of the unit.
    const bool rounds = unit > 0 && size / unit < 0x1p53;
    const Acc epsilon = Acc(rounds ? ceil(size / unit) * unit : size);
    if (!(epsilon > 0) || !bidding.run_scale(epsilon) || size <= last) break;
  }
  for (int32_t i = 0; i < s.rows; ++i) s.col4row[i] = kNone;
  for (int32_t j = 0; j < s.cols; ++j) s.row4col[j] = kNone;
  return s.cols_optional ? bidding.top : top_of_duals(s);
}
