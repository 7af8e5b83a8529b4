// The start of Jonker and Volgenant (1987), section 4: column reduction, reduction transfer and
// augmenting row reduction.
//
// Included once per instruction set, inside that set's namespace (assignment_solver.inc.h).

template <class Acc>
struct TwoLeast {
  Acc first, second;  // the least two of C_ij - v_j
  int32_t col;        // of the first, the lowest index among equals
};

template <class S>
TwoLeast<typename S::Acc> two_least(const S& s, int32_t i) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  const auto scale = L::splat(s.scale);
  auto first = L::splat(kInfinity<Acc>), second = first, col = L::splat(0), here = L::splat(0);
  const auto step = L::splat(1);
  for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
    const auto x = L::scale_sub(c, scale, L::load(s.v + j));
    const auto better = L::less(x, first);
    second = L::min(second, L::max(x, first));
    first = L::min(first, x);
    col = L::select(better, here, col);
    here = L::add(here, step);
  });
  constexpr int W = L::kWidth;
  Acc firsts[W], seconds[W], vectors[W];
  L::store(firsts, first);
  L::store(seconds, second);
  L::store(vectors, col);
  TwoLeast<Acc> least{firsts[0], seconds[0], int32_t(vectors[0]) * W};
  for (int k = 1; k < W; ++k) {
    const int32_t j = int32_t(vectors[k]) * W + k;
    if (firsts[k] < least.first || (firsts[k] == least.first && j < least.col)) {
      least.second = least.first < seconds[k] ? least.first : seconds[k];
      least.first = firsts[k];
      least.col = j;
    } else if (firsts[k] < least.second) {
      least.second = firsts[k];
    }
  }
  return least;
}

// A column other than `avoid` whose reduced cost is `value` too, a free one if there is one.
template <class S>
int32_t find_tied(const S& s, int32_t i, typename S::Acc value, int32_t avoid) {
  using L = typename S::Lanes;
  const auto scale = L::splat(s.scale), target = L::splat(value);
  const auto* row = s.row(i);
  int32_t tied = kNone;
  for (int64_t j = 0; j < s.cols; j += L::kWidth) {
    const auto c = j + L::kWidth <= s.cols ? L::load_cost(row + j)
                                           : L::load_cost(row + j, int(s.cols - j));
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

// v_j = min_i C_ij, and each column takes the row of its minimum if that row is still free.
// Leaves in count[i] how many columns have their minimum in row i.
template <class S>
void reduce_columns(S& s, int32_t* count) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  for (int64_t j = 0; j < s.cols; ++j) s.v[j] = kInfinity<Acc>;
  int32_t* argmin = s.pred;
  const auto scale = L::splat(s.scale), zero = L::splat(0);
  for (int32_t i = 0; i < s.rows; ++i) {
    count[i] = 0;
    for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
      const auto x = L::scale_sub(c, scale, zero);
      const auto old = L::load(s.v + j);
      const auto better = L::less(x, old);
      if (const unsigned bits = L::bits(better)) {
        L::store(s.v + j, L::select(better, x, old));
        for_each_bit(bits, [&](int k) { argmin[j + k] = i; });
      }
    });
  }
  for (int64_t j = s.cols - 1; j >= 0; --j) {
    if (!(s.v[j] < kInfinity<Acc>)) {  // all forbidden: any dual will do
      s.v[j] = 0;
      continue;
    }
    const int32_t i = argmin[j];
    if (count[i]++ == 0) {
      s.col4row[i] = int32_t(j);
      s.row4col[j] = i;
    }
  }
}

// A row that is the minimum of one column only passes its slack on: v of its column drops as far
// as the row stays tight there.
template <class S>
void transfer_reductions(S& s, const int32_t* count) {
  for (int32_t i = 0; i < s.rows; ++i) {
    if (count[i] != 1) continue;
    const int32_t j = s.col4row[i];
    const auto least = two_least(s, i);
    const auto own = s.entry(i, j) - s.v[j];
    // The least over the other columns. Equal reduced costs leave nothing to pass on.
    const auto other = least.col == j ? least.second : least.first;
    if (own < other && other < kInfinity<typename S::Acc>) s.v[j] -= other - own;
  }
}

// Each free row takes its best column and lowers that column's dual until its second best is as
// good. A row that is thrown out bids again at once, up to `budget` times in a pass, else in the
// next pass. Returns the number of rows still free; kNone: some row has no column at all.
template <class S>
int32_t reduce_rows(S& s, int32_t free_count, int64_t budget) {
  using Acc = typename S::Acc;
  int32_t next = 0, kept = 0;
  while (next < free_count) {
    const int32_t i = s.free_rows[next++];
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
    int32_t j = least.col, thrown_out = s.row4col[j];
    const bool strict = least.first < second && second < kInfinity<Acc>;
    if (strict) {
      s.v[j] -= second - least.first;
    } else if (thrown_out != kNone) {
      // A tie, or no second choice: the price must not move. Another column may be free.
      const int32_t tied = least.second == least.first ? find_tied(s, i, least.first, j) : kNone;
      if (tied == kNone || (s.row4col[tied] != kNone && budget <= 0)) {
        s.free_rows[kept++] = i;
        continue;
      }
      j = tied;
      thrown_out = s.row4col[j];
    }
    s.col4row[i] = j;
    s.row4col[j] = i;
    if (thrown_out == kNone) continue;
    s.col4row[thrown_out] = kNone;
    if (strict && --budget > 0) {
      s.free_rows[--next] = thrown_out;
    } else {
      s.free_rows[kept++] = thrown_out;
    }
  }
  return kept;
}
