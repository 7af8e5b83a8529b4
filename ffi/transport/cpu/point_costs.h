// Costs that are distances between points. A row of costs is computed when it is scanned, and
// cached. Besides the cache, this takes memory for the coordinates only. The costs of the dummies
// (the last row and the last column) are stored.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// How many vectors of columns are computed at once.
constexpr int kVectorsAtOnce = 4;
// Computed rows are cached: row i is in slot i modulo the number of slots. The slots fill
// kCachedBytes, but there are at least kLeastSlots. With few columns (few_columns.h), all rows are
// cached if they take at most kMostKeptBytes.
constexpr int64_t kLeastSlots = 32;
constexpr double kMostKeptBytes = 1 << 28;

inline int64_t padded_to_blocks(int64_t count) {
  constexpr int64_t kBlock = kVectorsAtOnce * DoubleLanes::kWidth;
  return (count + kBlock - 1) / kBlock * kBlock;
}

// The costs of the given problem. Each access computes a row or a column into `line`, and
// overwrites what the access before has computed.
template <class ElemType>
struct GivenPoints {
  using Elem = ElemType;

  const TransportProblem* p;
  int64_t n, m, dims;               // numbers of points, and dimensions
  int64_t row_width, col_width;     // n and m, padded
  double *row_points, *col_points;  // [dims, width], zeros in the padding
  double* point;                    // [dims] the point whose distances are computed
  Elem* line;                       // [longer width + 1] the last row or column computed

  void allocate(const TransportProblem& problem, Stack* s) {
    p = &problem;
    const int64_t dummies = p->last_row ? 1 : 0;
    n = p->n - dummies;
    m = p->m - dummies;
    dims = p->dims;
    row_width = padded_to_blocks(n);
    col_width = padded_to_blocks(m);
    row_points = s->take<double>(dims * row_width);
    col_points = s->take<double>(dims * col_width);
    point = s->take<double>(dims);
    line = s->take<Elem>((row_width > col_width ? row_width : col_width) + 1);
  }
  void load() {
    widen_points(static_cast<const Elem*>(p->row_points), n, row_width, row_points);
    widen_points(static_cast<const Elem*>(p->col_points), m, col_width, col_points);
  }

  const Elem* row(int64_t i) const {
    if (i == n) return static_cast<const Elem*>(p->last_row);
    compute(row_points + i, row_width, col_points, col_width);
    if (p->last_row) line[m] = static_cast<const Elem*>(p->last_col)[i];
    return line;
  }
  // d(x, y) and d(y, x) are bitwise equal, so a column is computed as a row is.
  template <class F>
  void for_column(int64_t j, const F& f) const {
    if (j == m) {
      for (int64_t i = 0; i < n; ++i) f(i, static_cast<const Elem*>(p->last_col)[i]);
    } else {
      compute(col_points + j, col_width, row_points, row_width);
      for (int64_t i = 0; i < n; ++i) f(i, line[i]);
    }
    if (p->last_row) f(n, static_cast<const Elem*>(p->last_row)[j]);
  }
  // The cost of a pair with a dummy.
  Elem stored(int64_t i, int64_t j) const {
    return i == n ? static_cast<const Elem*>(p->last_row)[j]
                  : static_cast<const Elem*>(p->last_col)[i];
  }
  Elem at(int64_t i, int64_t j) const {
    if (i == n || j == m) return stored(i, j);
    for (int64_t k = 0; k < dims; ++k) point[k] = row_points[k * row_width + i];
    Elem cost = 0;
    compute_distances<ScalarLanes<double>, 1>(p->metric, point, dims, col_points + j, col_width, 1,
                                              &cost);
    return cost;
  }

 private:
  void widen_points(const Elem* from, int64_t count, int64_t width, double* to) const {
    for (int64_t k = 0; k < dims; ++k) {
      for (int64_t i = 0; i < count; ++i) to[k * width + i] = double(from[k * count + i]);
      for (int64_t i = count; i < width; ++i) to[k * width + i] = 0;
    }
  }
  void compute(const double* from, int64_t stride, const double* to, int64_t width) const {
    for (int64_t k = 0; k < dims; ++k) point[k] = from[k * stride];
    compute_distances<DoubleLanes, kVectorsAtOnce>(p->metric, point, dims, to, width, width, line);
  }
};

// The points of the canonical form, and a cache of computed rows.
template <class Elem>
struct PointStorage {
  int64_t dims, width, slots;
  double* row_points;         // [rows, dims]
  double* col_points;         // [dims, width], zeros in the padding
  Elem *last_row, *last_col;  // [cols], [rows] costs of the dummies; null for a dummy without mass
  Elem* kept;                 // [slots, width] cached rows
  int32_t* kept_row;          // [slots] the row in the slot, or kNone

  void allocate(const CanonicalForm& f, bool known, Stack* s) {
    if (!known) return;
    dims = f.p.dims;
    width = padded_to_blocks(f.cols);
    slots = kCachedBytes / (width * int64_t(sizeof(Elem)));
    if (slots < kLeastSlots) slots = kLeastSlots;
    if (slots > f.rows || f.few_columns) slots = f.rows;
    row_points = s->take<double>(f.rows * dims);
    col_points = s->take<double>(dims * width);
    last_row = f.p.last_row ? s->take<Elem>(f.cols) : nullptr;
    last_col = f.p.last_row ? s->take<Elem>(f.rows) : nullptr;
    kept = s->take<Elem>(slots * width);
    kept_row = s->take<int32_t>(slots);
  }
};

template <class LanesType, class ElemType>
struct PointCosts : Costs<LanesType, ElemType>, PointStorage<ElemType> {
  using Elem = ElemType;
  using Given = GivenPoints<Elem>;
  using Storage = PointStorage<Elem>;
  static constexpr bool kComputed = true;

  static bool can_keep_rows(const CanonicalForm& f) {
    return double(f.rows) * double(padded_to_blocks(f.cols)) * sizeof(Elem) <= kMostKeptBytes;
  }

  Metric metric;

  const Elem* row(int64_t i) const {
    if (this->last_row && i == this->rows - 1) return this->last_row;
    const int64_t slot = uint32_t(i) % uint32_t(this->slots), dims = this->dims;
    Elem* const costs = this->kept + slot * this->width;
    if (this->kept_row[slot] == i) return costs;
    compute_distances<LanesType, kVectorsAtOnce>(metric, this->row_points + i * dims, dims,
                                                 this->col_points, this->width, this->width, costs);
    if (this->last_col) costs[this->cols - 1] = this->last_col[i];
    if (this->map.changes()) {
      for (int32_t j = 0; j < this->cols; ++j) costs[j] = this->mapped(costs[j]);
    }
    this->kept_row[slot] = int32_t(i);
    return costs;
  }
  Elem cost_of(int64_t i, int64_t j) const {
    if (this->last_row && i == this->rows - 1) return this->last_row[j];
    if (this->last_col && j == this->cols - 1) return this->mapped(this->last_col[i]);
    const int64_t slot = uint32_t(i) % uint32_t(this->slots), dims = this->dims;
    if (this->kept_row[slot] == i) return this->kept[slot * this->width + j];
    Elem cost = 0;
    compute_distances<ScalarLanes<double>, 1>(metric, this->row_points + i * dims, dims,
                                              this->col_points + j, this->width, 1, &cost);
    return this->mapped(cost);
  }
  double key(int64_t i, int64_t j) const { return this->key_of(cost_of(i, j)); }
  int64_t units(int64_t i, int64_t j) const { return this->units_of(cost_of(i, j)); }
};

template <class Lanes, class Elem>
void set_costs(PointCosts<Lanes, Elem>* c, const CanonicalForm& f,
               const Workspace<PointCosts<Lanes, Elem>>& w) {
  const GivenPoints<Elem>& given = w.given;
  PointStorage<Elem>& own = *c;
  own = w.storage;
  c->cost = nullptr;
  c->stride = 0;
  c->row_id = nullptr;
  c->rows = f.rows;
  c->cols = f.cols;
  c->metric = f.p.metric;
  c->v = w.shadow + f.rows;
  for (int32_t j = f.cols; j % DoubleLanes::kWidth != 0; ++j) c->v[j] = -__builtin_inf();
  const bool flip = f.transposed;
  const double* const x = flip ? given.col_points : given.row_points;
  const double* const y = flip ? given.row_points : given.col_points;
  const int64_t x_width = flip ? given.col_width : given.row_width;
  const int64_t y_width = flip ? given.row_width : given.col_width;
  const int64_t x_dummy = flip ? given.m : given.n, y_dummy = flip ? given.n : given.m;
  for (int64_t i = 0; i < f.rows; ++i) {
    const int64_t from = f.row_list[i];
    for (int64_t k = 0; k < own.dims; ++k) {
      own.row_points[i * own.dims + k] = from == x_dummy ? 0 : x[k * x_width + from];
    }
  }
  for (int64_t k = 0; k < own.dims; ++k) {
    double* const to = own.col_points + k * own.width;
    for (int64_t j = 0; j < own.width; ++j) {
      const int64_t from = j < f.cols ? f.col_list[j] : y_dummy;
      to[j] = from == y_dummy ? 0 : y[k * y_width + from];
    }
  }
  const auto stored = [&](int64_t i, int64_t j) {
    return flip ? given.stored(j, i) : given.stored(i, j);
  };
  if (f.row_list[f.rows - 1] != x_dummy) own.last_row = nullptr;
  if (f.col_list[f.cols - 1] != y_dummy) own.last_col = nullptr;
  for (int32_t j = 0; own.last_row && j < f.cols; ++j) {
    own.last_row[j] = c->mapped(stored(x_dummy, f.col_list[j]));
  }
  for (int32_t i = 0; own.last_col && i < f.rows; ++i) {
    own.last_col[i] = stored(f.row_list[i], y_dummy);
  }
  for (int64_t slot = 0; slot < own.slots; ++slot) own.kept_row[slot] = kNone;
}
