// Shortest augmenting paths on reduced costs (Dijkstra; Jonker and Volgenant 1987, section 5), from
// one row to the nearest free column.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

// An assignment with duals. v has the duals of columns; the dual of a row is the cost of its pair
// minus v of the pair's column. The spare row, number `rows`, is a row of zeros that holds all
// unmatched columns (k_best/cpu/units.h). The dual of this row is minus v of each of its columns,
// so they all have the same v, the greatest of all.
struct Assignment {
  int32_t* col4row;  // [all_rows()] column of each row; one of several for the spare row
  int32_t* row4col;  // [cols] row of each column; kNone for a column that is still free
  int64_t* v;        // [stride]
};

// The state of a search.
struct Search {
  const Matrix& c;
  Assignment now;
  int64_t* open;     // [stride] v of each column that paths may still use, else kGone
  int64_t* dist;     // [stride] length of the shortest known path to each open column
  int64_t* from;     // [stride] row before each column on its shortest known path
  int64_t* length;   // [stride] length of the path to each settled column
  int64_t* busy;     // [stride] 0 for free columns, else kFar; added to `dist`
  int32_t* settled;  // [cols] columns in the order in which they were settled
  int32_t count = 0;
  int32_t* counts;
  Poll poll{};

  // Extends the path to row i by each of its pairs: the new path to column j has length `base` +
  // cost - v. `kFirst` is for the first scan of a search, before which there are no paths. Returns
  // the nearest column.
  template <bool kFirst>
  Least scan(int32_t i, int64_t base) {
    ++counts[kScans];
    poll.after(c.stride);
    const int64_t* const cost = c.row(i);
    const Vector from_here = splat(i), offset = splat(base);
    Vector least = splat(kFar), at = splat(0), here = lane_numbers();
    for (int64_t j = 0; j < c.stride; j += kLanes) {
      const Vector through = load(cost + j) - load(open + j) + offset;
      Vector x = through;
      if (kFirst) {
        store(from + j, from_here);
      } else {
        const Vector old = load(dist + j);
        const auto closer = through < old;
        x = closer ? through : old;
        store(from + j, closer ? from_here : load(from + j));
      }
      store(dist + j, x);
      const auto nearer = x < least;
      least = nearer ? x : least;
      at = nearer ? here : at;
      here += kLanes;
    }
    return first_least(least, at);
  }

  // Finds the shortest path from row `root`, whose dual is `u`, to the free column `target`, or to
  // any free column if `target` is kNone. Returns the last column of the path and the path's
  // length, or kNone if no path is shorter than `limit`. Calls before() and after() around the
  // first scan.
  template <class Before, class After>
  Least find(int32_t root, int64_t u, int32_t target, int64_t limit, const Before& before,
             const After& after) {
    ++counts[kSearches];
    count = 0;
    before();
    Least nearest = scan<true>(root, -u);
    after();
    const int32_t spare = c.rows;
    bool spare_waits = c.has_spare();
    for (;;) {
      if (nearest.value >= limit) return {kFar, kNone};
      // If several columns are nearest, prefers one at which the path may end.
      const Least end =
          target == kNone ? first_least_sum(dist, busy, c.stride) : Least{dist[target], target};
      if (end.value == nearest.value) return end;
      const int32_t j = int32_t(nearest.at), i = now.row4col[j];
      length[j] = nearest.value;
      dist[j] = kFar;
      open[j] = kGone;
      settled[count++] = j;
      if (i == spare && !spare_waits) {  // another column of the spare row, already scanned
        nearest = first_least(dist, c.stride);
        continue;
      }
      if (i == spare) {
        spare_waits = false;
        now.col4row[spare] = j;
      }
      nearest = scan<false>(i, nearest.value - (c.row(i)[j] - now.v[j]));
    }
  }

  // Changes duals so that the pairs along the path are tight, then flips matched and unmatched
  // pairs along it.
  void augment(int32_t root, const Least& end) {
    for (int32_t k = 0; k < count; ++k) {
      const int32_t j = settled[k];
      now.v[j] -= end.value - length[j];
    }
    for (int32_t j = int32_t(end.at);;) {
      const int32_t i = int32_t(from[j]), before = now.col4row[i];
      now.row4col[j] = i;
      now.col4row[i] = j;
      if (i == root) return;
      j = before;
    }
  }
};

// Finds the best assignment. Returns false if there is none.
inline bool find_best(Search& s) {
  const Matrix& c = s.c;
  Assignment& a = s.now;
  for (int64_t j = 0; j < c.stride; ++j) {
    a.v[j] = s.open[j] = j < c.cols ? 0 : kGone;
    s.busy[j] = 0;
  }
  for (int32_t j = 0; j < c.cols; ++j) a.row4col[j] = kNone;
  for (int32_t i = 0; i < c.rows; ++i) {
    const Least best = s.scan<true>(i, 0);
    a.col4row[i] = kNone;
    if (best.value >= kFar || a.row4col[best.at] != kNone) continue;
    a.col4row[i] = int32_t(best.at);
    a.row4col[best.at] = i;
    s.busy[best.at] = kFar;
  }
  const auto reopen = [&] {
    for (int64_t j = 0; j < c.stride; j += kLanes) store(s.open + j, load(a.v + j));
  };
  for (int32_t i = 0; i < c.rows; ++i) {
    if (a.col4row[i] != kNone) continue;
    const Least end = s.find(i, 0, kNone, kFar, reopen, [] {});
    if (end.at == kNone) return false;
    s.augment(i, end);
    s.busy[end.at] = kFar;
  }
  for (int32_t j = 0; j < c.cols; ++j) {
    if (a.row4col[j] != kNone) continue;
    a.row4col[j] = c.rows;
    a.col4row[c.rows] = j;
  }
  return true;
}
