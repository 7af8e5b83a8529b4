// Shortest augmenting paths (Jonker and Volgenant 1987, section 5): Dijkstra on reduced costs from
// one free row, then a dual update on the settled columns only.
//
// A path may end at a free column, or at a row that is dropped at its unmatched cost. `bound` is
// the length of the best complete path so far. Rows of columns at distance `bound` or more are
// never scanned. A path of length C_ij - v_j - h to column j (h as in relax_row()) is useful if it
// is shorter than `dist[j]` and `bound`. With `label[j] = v_j + min(dist_j, bound)`, the test is
// only C_ij - h < label[j].
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

template <class Acc>
struct Search {
  Acc bound;
  int32_t end_col;        // the free column where the best path ends; kNone if the path drops a row
  int32_t end_row;        // the row that the best path drops, if end_col is kNone
  int32_t open, settled;  // numbers of open and of settled columns
};

template <class S>
void open_column(S& s, Search<typename S::Acc>& search, int32_t j, typename S::Acc dist) {
  int32_t at = s.position[j];
  if (at == kNone) {
    at = s.position[j] = search.open++;
    s.open_col[at] = j;
  }
  s.open_key[at] = dist;
}

template <class S>
void close_column(S& s, Search<typename S::Acc>& search, int32_t at) {
  const int32_t last = --search.open;
  s.position[s.open_col[at]] = kNone;
  if (at == last) return;
  s.open_key[at] = s.open_key[last];
  s.open_col[at] = s.open_col[last];
  s.position[s.open_col[at]] = at;
}

// Starts a search: sets the distance of every column to the length of its edge from `root`.
template <class S>
void begin_search(S& s, Search<typename S::Acc>& search, int32_t root) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  const Acc leave = s.leave(root);
  s.poll.after(s.cols);
  search = {leave < kInfinity<Acc> ? leave : kInfinity<Acc>, kNone, root, 0, 0};
  const auto scale = L::splat(s.scale);
  auto bound = L::splat(search.bound);
  for_each_vector<L>(s.row(root), s.cols, [&](int64_t j, auto c) {
    const auto x = L::scale_sub(c, scale, L::load(s.v + j));
    L::store(s.dist + j, x);
    const auto to_free = L::add(x, L::load(s.barrier + j));
    if (const unsigned better = L::bits(L::less(to_free, bound))) {
      Acc values[L::kWidth];
      L::store(values, to_free);
      for_each_bit(better, [&](int k) {
        if (!(values[k] < search.bound)) return;
        search.bound = values[k];
        search.end_col = int32_t(j) + k;
      });
      bound = L::splat(search.bound);
    }
  });
  const int64_t end = padded<L>(s.cols);
  for (int64_t j = 0; j < end; j += L::kWidth) {
    const auto x = L::load(s.dist + j);
    L::store(s.label + j, L::add(L::load(s.v + j), L::min(x, bound)));
    for_each_bit(L::bits(L::less(x, bound)), [&](int k) {
      s.pred[j + k] = root;
      open_column(s, search, int32_t(j) + k, s.dist[j + k]);
    });
  }
  if (search.end_col != kNone) s.pred[search.end_col] = root;
}

// Lowers the labels to a smaller bound, so that columns beyond the bound are no longer relaxed.
template <class S>
void tighten_labels(S& s, typename S::Acc bound) {
  using L = typename S::Lanes;
  const auto least = L::splat(bound);
  for (int64_t j = 0; j < s.cols; j += L::kWidth) {
    L::store(s.label + j, L::min(L::load(s.label + j), L::add(L::load(s.v + j), least)));
  }
}

// Relaxes the edges of row i. `h` is u_i minus the distance of the row, so that C_ij - v_j - h is
// the length of the path to column j through row i.
template <class S>
void relax_row(S& s, Search<typename S::Acc>& search, int32_t i, typename S::Acc h) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  const auto scale = L::splat(s.scale), base = L::splat(h);
  const auto* row = s.row(i);
  const Acc old_bound = search.bound;
  s.poll.after(s.cols);
  if (s.leave(i) - h < search.bound) {
    search.bound = s.leave(i) - h;
    search.end_col = kNone;
    search.end_row = i;
  }
  for_each_vector<L>(row, s.cols, [&](int64_t first, auto c) {
    const unsigned better =
        L::bits(L::less(L::scale_sub(c, scale, base), L::load(s.label + first)));
    if (__builtin_expect(better == 0, 1)) return;
    for_each_bit(better, [&](int k) {
      const int32_t j = int32_t(first) + k;
      const Acc x = Acc(widen(row[j])) * s.scale - s.v[j] - h;
      if (!(x < search.bound)) return;
      if (s.barrier[j] == 0) {
        search.bound = x;
        search.end_col = j;
      } else if (x < s.dist[j]) {
        open_column(s, search, j, x);
      } else {
        return;
      }
      s.dist[j] = x;
      s.label[j] = s.v[j] + x;
      s.pred[j] = i;
    });
  });
  if (search.bound < old_bound) tighten_labels(s, search.bound);
}

// Returns the least distance in the open list. If this distance is below the bound, moves all open
// columns at this distance from the open list to the end of `settled`.
template <class S>
typename S::Acc settle_nearest(S& s, Search<typename S::Acc>& search) {
  using L = typename S::Lanes;
  using Acc = typename S::Acc;
  for (int64_t at = search.open; at % L::kWidth; ++at) s.open_key[at] = kInfinity<Acc>;
  auto least = L::splat(kInfinity<Acc>);
  for (int64_t at = 0; at < search.open; at += L::kWidth) {
    least = L::min(least, L::load(s.open_key + at));
  }
  const Acc nearest = L::least(least);
  if (!(nearest < search.bound)) return nearest;
  // Goes backwards, because closing a column moves the last open column into its place.
  const auto target = L::splat(nearest);
  for (int64_t at = (search.open - 1) / L::kWidth * L::kWidth; at >= 0; at -= L::kWidth) {
    unsigned bits = L::bits(L::equal(L::load(s.open_key + at), target));
    while (bits) {
      const int k = 31 - __builtin_clz(bits);
      bits ^= 1u << k;
      const int32_t j = s.open_col[at + k];
      close_column(s, search, int32_t(at) + k);
      s.settled[search.settled++] = j;
      s.label[j] = -kInfinity<Acc>;
    }
  }
  return nearest;
}

// Extends the tree of shortest paths until no open column is nearer than `bound`. Returns false if
// it has found no complete path.
template <class S>
bool search_path(S& s, Search<typename S::Acc>& search) {
  int32_t scanned = search.settled;
  while (search.open > 0) {
    const auto nearest = settle_nearest(s, search);
    while (scanned < search.settled && nearest < search.bound) {
      const int32_t j = s.settled[scanned++];
      const int32_t i = s.row4col[j];  // never kNone: free columns are never opened
      relax_row(s, search, i, s.entry(i, j) - s.v[j] - s.dist[j]);
    }
    if (!(nearest < search.bound)) break;
  }
  return search.bound < kInfinity<typename S::Acc>;
}

// Lowers the duals of settled columns so that matched pairs stay tight, and clears the open list.
template <class S>
void close_search(S& s, Search<typename S::Acc>& search) {
  for (int32_t k = 0; k < search.settled; ++k) {
    const int32_t j = s.settled[k];
    s.v[j] -= search.bound - s.dist[j];
  }
  while (search.open > 0) close_column(s, search, search.open - 1);
}

// Flips the pairs along the path that the search from row `root` found: each column of the path is
// matched to the row before it.
template <class S>
void augment(S& s, const Search<typename S::Acc>& search, int32_t root) {
  int32_t j = search.end_col;
  if (j == kNone) {  // drop the last row of the path; the row before gets its column
    j = s.col4row[search.end_row];
    s.col4row[search.end_row] = kDropped;
    if (search.end_row == root) return;
  } else {
    s.barrier[j] = kNever<typename S::Acc>;
  }
  for (;;) {
    const int32_t i = s.pred[j];
    const int32_t before = s.col4row[i];
    s.row4col[j] = i;
    s.col4row[i] = j;
    if (i == root) return;
    j = before;
  }
}

enum class Searched { kAll, kInfeasible, kOverBudget };

// Matches or drops the first `free_count` free rows, each along a shortest path. Returns
// kOverBudget if searches have scanned `budget` rows before all rows are done. Returns kInfeasible
// if a row can neither be matched nor dropped.
template <class S>
Searched augment_rows(S& s, int32_t free_count, int64_t budget) {
  Search<typename S::Acc> search;
  for (int32_t k = 0; k < free_count; ++k) {
    if (budget <= 0) return Searched::kOverBudget;
    const int32_t root = s.free_rows[k];
    begin_search(s, search, root);
    if (!search_path(s, search)) return Searched::kInfeasible;
    budget -= 1 + search.settled;
    close_search(s, search);
    augment(s, search, root);
  }
  return Searched::kAll;
}
