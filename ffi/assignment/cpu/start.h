// Initialisation of Jonker and Volgenant (1987), section 4: column reduction, reduction transfer
// and augmenting row reduction. Searches (augment.h) match the rows that are still free afterwards.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// Returns a column other than `avoid` whose reduced cost in row i is `value`, a free one if
// possible. Returns kNone if there is no such column.
template <class S>
int32_t find_tied(const S& s, int32_t i, typename S::Acc value, int32_t avoid) {
  using L = typename S::Lanes;
  const auto scale = L::splat(s.scale), target = L::splat(value);
  const auto* row = s.row(i);
  int32_t tied = kNone;
  for (int64_t j = 0; j < s.cols; j += L::kWidth) {
    const auto c =
        j + L::kWidth <= s.cols ? L::load_cost(row + j) : L::load_cost(row + j, int(s.cols - j));
    unsigned equal = L::bits(L::equal(L::scale_sub(c, scale, L::load(s.v + j)), target));
    for (; equal; equal &= equal - 1) {
      const int32_t k = int32_t(j) + __builtin_ctz(equal);
      if (k == avoid) continue;
      if (s.row4col[k] == kNone) return k;
      if (tied == kNone) tied = k;
    }
  }
  return tied;
}

// Column reduction: v_j = min_i C_ij, and each column is matched to the row of its minimum if that
// row is still free. Stores in count[i] the number of columns that have their minimum in row i.
template <class S>
void reduce_columns(S& s, int32_t* count) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  Acc* argmin = s.dist;
  const auto scale = L::splat(s.scale), zero = L::splat(0);
  // In the first rows minima change often, and branches would be mispredicted. For these rows, the
  // minima of a vector of columns stay in registers, and the loop has no branches. In later rows
  // minima change rarely, and a branch skips the stores.
  constexpr int32_t kUnpredictableRows = 24;
  const int32_t head = s.rows < kUnpredictableRows ? s.rows : kUnpredictableRows;
  for (int64_t j = 0; j < s.cols; j += L::kWidth) {
    const bool whole = j + L::kWidth <= s.cols;
    auto least = L::splat(kInfinity<Acc>), row = zero;
    for (int32_t i = 0; i < head; ++i) {
      const auto* here = s.row(i) + j;
      const auto c = whole ? L::load_cost(here) : L::load_cost(here, int(s.cols - j));
      const auto x = L::scale_sub(c, scale, zero);
      row = L::select(L::less(x, least), L::splat(Acc(i)), row);
      least = L::min(least, x);
    }
    L::store(s.v + j, least);
    L::store(argmin + j, row);
  }
  for (int32_t i = head; i < s.rows; ++i) {
    const auto here = L::splat(Acc(i));
    s.poll.after(s.cols);
    for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
      const auto x = L::scale_sub(c, scale, zero);
      const auto old = L::load(s.v + j);
      const auto better = L::less(x, old);
      if (__builtin_expect(L::bits(better) == 0, 1)) return;
      L::store(s.v + j, L::min(x, old));
      L::store(argmin + j, L::select(better, here, L::load(argmin + j)));
    });
  }
  // Restores the padding, which the last vector overwrote.
  for (int64_t j = s.cols; j < padded<L>(s.cols); ++j) s.v[j] = -kInfinity<Acc>;
  for (int32_t i = 0; i < s.rows; ++i) count[i] = 0;
  for (int64_t j = s.cols - 1; j >= 0; --j) {
    if (!(s.v[j] < kInfinity<Acc>)) {  // every pair of column j is forbidden: any dual will do
      s.v[j] = 0;
      continue;
    }
    const int32_t i = int32_t(argmin[j]);
    if (count[i]++ == 0) {
      s.col4row[i] = int32_t(j);
      s.row4col[j] = i;
    }
  }
  // Special case: all columns have their minima in row 0, and the minima of the first and the last
  // column are equal. Then row 0 takes column 0 instead of the last column. So a matrix of equal
  // costs gives the identity, as in scipy.
  const int32_t last = s.cols - 1;
  if (last > 0 && count[0] == s.cols && s.v[0] == s.v[last]) {
    s.row4col[last] = kNone;
    s.col4row[0] = s.row4col[0] = 0;
  }
}

// Reduction transfer: if exactly one column has its minimum in a row, v of this column drops until
// the second best column of the row has the same reduced cost. The pair stays tight.
template <class S>
void transfer_reductions(S& s, const int32_t* count) {
  for (int32_t i = 0; i < s.rows; ++i) {
    if (count[i] != 1) continue;
    const int32_t j = s.col4row[i];
    const auto least = two_least(s, i);
    const auto own = s.entry(i, j) - s.v[j];
    // The least reduced cost of the other columns. If it equals `own`, v does not change.
    const auto other = least.col == j ? least.second : least.first;
    if (own < other && other < kInfinity<typename S::Acc>) s.v[j] -= other - own;
  }
}

// One pass of augmenting row reduction, in which each free row bids: it takes its best column and
// lowers the column's dual until the row's second best column is as good. If another row held the
// column, that row is displaced. A displaced row bids again at once, as long as the pass has had
// fewer than `budget` such rebids; otherwise it waits for the next pass. Returns the number of rows
// that are still free, or kNone if a row has no allowed column and no unmatched cost.
template <class S>
int32_t reduce_rows(S& s, int32_t free_count, int64_t budget) {
  using Acc = typename S::Acc;
  int32_t next = 0, kept = 0;
  while (next < free_count) {
    const int32_t i = s.free_rows[next++];
    s.poll.after(s.cols);
    const auto least = two_least(s, i);
    const Acc leave = s.leave(i);
    if (leave < least.first) {
      s.col4row[i] = kDropped;
      continue;
    }
    if (!(least.first < kInfinity<Acc>)) {
      if (leave < kInfinity<Acc>) {
        s.col4row[i] = kDropped;
        continue;
      }
      return kNone;
    }
    const Acc second = leave < least.second ? leave : least.second;
    int32_t j = least.col, displaced = s.row4col[j];
    const bool strict = least.first < second && second < kInfinity<Acc>;
    if (strict) {
      s.v[j] -= second - least.first;
    } else if (displaced != kNone) {
      // If the best columns are tied, or if there is no second choice, the dual must not change. So
      // the row takes another tied column, a free one if possible. If there is none, the row stays
      // free.
      const int32_t tied = least.second == least.first ? find_tied(s, i, least.first, j) : kNone;
      if (tied == kNone || (s.row4col[tied] != kNone && budget <= 0)) {
        s.free_rows[kept++] = i;
        continue;
      }
      j = tied;
      displaced = s.row4col[j];
    }
    s.col4row[i] = j;
    s.row4col[j] = i;
    if (displaced == kNone) continue;
    s.col4row[displaced] = kNone;
    if (strict && --budget > 0) {
      s.free_rows[--next] = displaced;
    } else {
      s.free_rows[kept++] = displaced;
    }
  }
  return kept;
}
