// Warm start: the solve begins with given column duals instead of column reduction.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// Returns the k-th largest of the first `count` values; k = 0 is the largest. Reorders the values.
// (Quickselect, Hoare 1961; the pivot is the middle value.)
template <class Acc>
Acc select_largest(Acc* values, int64_t count, int64_t k) {
  int64_t low = 0, high = count - 1;
  while (low < high) {
    const Acc pivot = values[low + (high - low) / 2];
    int64_t i = low, j = high;
    while (i <= j) {
      while (values[i] > pivot) ++i;
      while (pivot > values[j]) --j;
      if (i > j) break;
      const Acc swapped = values[i];
      values[i++] = values[j];
      values[j--] = swapped;
    }
    if (k <= j) {
      high = j;
    } else if (k >= i) {
      low = i;
    } else {
      break;
    }
  }
  return values[k];
}

// Sets v to the largest column duals that the given row duals u allow: v_j = min_i C_ij - u_i.
template <class S>
void duals_from_rows(S& s, const typename S::Acc* row_dual) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  for (int64_t j = 0; j < s.cols; ++j) s.v[j] = kInfinity<Acc>;
  const auto scale = L::splat(s.scale);
  for (int32_t i = 0; i < s.rows; ++i) {
    const auto u = L::splat(row_dual[i]);
    for_each_vector<L>(s.row(i), s.cols, [&](int64_t j, auto c) {
      L::store(s.v + j, L::min(L::load(s.v + j), L::scale_sub(c, scale, u)));
    });
  }
  // Restores the padding, which the last vector overwrote.
  for (int64_t j = s.cols; j < padded<L>(s.cols); ++j) s.v[j] = -kInfinity<Acc>;
}

// Reads the caller's column duals, rounded to multiples of `unit` unless `unit` is 0, into v. In a
// transposed problem these are row duals, and v becomes the largest column duals that they allow.
// Returns false and leaves v unchanged if the caller gave no duals, or if a dual is not finite or
// its magnitude exceeds `most`.
template <class Lanes, class Elem>
bool start_duals(State<Lanes, Elem>& s, const CanonicalForm& f, double most, double unit) {
  using Acc = typename Lanes::Acc;
  const AssignmentProblem& p = f.p;
  if (!p.start_dual) return false;
  const int64_t count = f.transposed ? s.rows : s.cols;
  const int32_t* list = f.transposed ? f.row_list : f.col_list;
  Acc* start = f.transposed ? s.dist : s.label;
  for (int64_t k = 0; k < count; ++k) {
    const double x = read_real(p.start_dual, p.result_dtype, list[k]) * double(s.scale);
    if (!(fabs(x) <= most)) return false;
    start[k] = Acc(unit > 0 ? rint(x / unit) * unit : x);
  }
  if (f.transposed) {
    duals_from_rows(s, start);
  } else {
    for (int64_t j = 0; j < s.cols; ++j) s.v[j] = start[j];
  }
  return true;
}

// Returns the k-th largest dual if k > 0 columns will stay unmatched, else the largest dual.
template <class S>
typename S::Acc top_of_duals(S& s) {
  for (int64_t j = 0; j < s.cols; ++j) s.label[j] = s.v[j];
  return select_largest(s.label, s.cols, s.cols > s.rows ? s.cols - s.rows - 1 : 0);
}

// Subtracts `top` from all duals. If columns may stay unmatched, also lowers positive results to 0,
// because unmatched columns must end with the greatest dual, 0. If the magnitude of a result
// exceeds `limit`, sums with it might round; in that case, sets v to 0 and returns false.
template <class S>
bool shift_duals(S& s, typename S::Acc top, double limit) {
  using Acc = typename S::Acc;
  bool fits = top < kInfinity<Acc>;
  for (int64_t j = 0; fits && j < s.cols; ++j) {
    const Acc x = s.v[j] - top;
    s.v[j] = s.cols_optional && x > 0 ? Acc(0) : x;
    fits = s.v[j] >= Acc(-limit) && s.v[j] <= Acc(limit);
  }
  for (int64_t j = 0; !fits && j < s.cols; ++j) s.v[j] = 0;
  return fits;
}

// Sets v to start duals: those of the caller or, for costs between points, computed ones. Returns
// false with v = 0, for a cold start, in three cases:
//   - there are no duals;
//   - duals exceed the costs by so much that sums with them would round;
//   - more than a tenth of the columns will stay unmatched, or rows may stay unmatched. Then a cold
//     start needs little more than one scan of each row. A warm start would cost a search for every
//     unmatched column whose dual is too low.
template <class S>
bool warm_start(S& s, const CanonicalForm& f, double max_abs, int granule) {
  if (s.rows == 0 || s.unmatched) return false;
  if (int64_t(s.cols) * 9 > int64_t(s.rows) * 10) return false;
  const double scale = double(s.scale), limit = 16 * (max_abs * fabs(scale));
  // Duals that are multiples of the unit of the costs keep later sums exact. Units of 2^-1000 or
  // less are ignored.
  const double unit = granule > -1000 ? ldexp(fabs(scale), granule) : 0;
  if (!start_duals(s, f, 16 * limit, unit)) return false;
  return shift_duals(s, top_of_duals(s), limit);
}

// Restores v_j = 0 for unmatched columns. A warm start or an auction may have left v_j below 0.
//
// Conceptually, each unmatched column is held by an extra row, whose cost is 0 in every column.
// `ceiling` is the dual of the columns that extra rows hold. The extra rows are identical, so one
// search starts from all of them: column j begins at distance `ceiling - v_j`, its reduced cost for
// an extra row. Each search finds the shortest path to a free column whose dual is below `ceiling`,
// moves each row of the path to the next column, and lowers `ceiling`. At the end, `ceiling` is
// subtracted from all duals.
//
// If rows may be dropped, each row also has a private column. Its cost is the unmatched cost of the
// row, and its dual is `ceiling`. A dropped row holds its private column, and extra rows hold the
// other private columns. So extra rows reach every private column at distance 0, and with it the
// dropped row that holds it.
template <class S>
void settle_free_columns(S& s) {
  using Acc = typename S::Acc;
  Acc ceiling = 0;
  const Acc* const unmatched = s.unmatched;
  for (;;) {
    Search<Acc> search{kInfinity<Acc>, kNone, kNone, 0, 0};
    for (int32_t j = 0; j < s.cols; ++j) {
      const bool is_free = s.row4col[j] == kNone, too_low = s.v[j] < ceiling;
      s.barrier[j] = is_free && too_low ? Acc(0) : kNever<Acc>;
      s.pred[j] = kNone;
      s.dist[j] = ceiling - s.v[j];
      s.label[j] = is_free && !too_low ? -kInfinity<Acc> : ceiling;
      if (is_free && too_low && s.dist[j] < search.bound) {
        search.bound = s.dist[j];
        search.end_col = j;
      }
    }
    if (search.end_col == kNone) break;
    for (int32_t j = 0; j < s.cols; ++j) {
      if (s.row4col[j] != kNone) open_column(s, search, j, s.dist[j]);
    }
    s.unmatched = nullptr;  // no path drops a row: extra rows, where paths begin, hold its column
    for (int32_t i = 0; unmatched && i < s.rows; ++i) {
      if (s.col4row[i] == kDropped) relax_row(s, search, i, unmatched[i] - ceiling);
    }
    search_path(s, search);
    s.unmatched = unmatched;
    close_search(s, search);
    const Acc lower = ceiling - search.bound;
    for (int32_t j = 0; j < s.cols; ++j) {
      if (s.row4col[j] == kNone && !(s.v[j] < ceiling)) s.v[j] = lower;
    }
    int32_t j = search.end_col;
    while (j != kDropped && s.pred[j] != kNone) {
      const int32_t i = s.pred[j], before = s.col4row[i];
      s.row4col[j] = i;
      s.col4row[i] = j;
      j = before;
    }
    if (j != kDropped) {
      s.row4col[j] = kNone;
      s.v[j] = lower;
    }
    ceiling = lower;
  }
  for (int32_t j = 0; j < s.cols; ++j) {
    const Acc x = s.v[j] - ceiling;
    s.v[j] = x < 0 ? x : Acc(0);  // rounding may leave x above 0
  }
}
