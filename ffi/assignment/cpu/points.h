// Costs that are distances between points. A row of costs is computed when it is scanned; memory is
// O(n + m).
//
// For the distances see assignment/cpu/distances.h.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// Computed rows are cached: row i is in slot i modulo the number of slots. The slots take up
// kCachedBytes bytes, or the size of kLeastCached rows if that is more, because reduce_columns()
// reads its first 24 rows again for every vector of columns.
constexpr int64_t kLeastCached = 32;

// Number of pairs that mean_gradient() samples for each column.
constexpr int64_t kSampled = 4;

template <class LanesType, class ElemType>
struct PointState : State<LanesType, ElemType> {
  using Base = State<LanesType, ElemType>;
  using Elem = ElemType;
  using Acc = typename Base::Acc;
  static constexpr bool kStored = false;
  static constexpr int kVectors = 4;  // vectors of columns that are computed at once

  double* row_points;          // [rows, dims]
  double* col_points;          // [dims, width], zeros in the padding
  double *direction, *middle;  // [dims] results of mean_gradient()
  Elem* kept;                  // [slots, width] cached rows
  int32_t* kept_row;           // [slots] index of the row in the slot, or kNone
  int64_t width, slots, dims;
  Metric metric;

  const Elem* row(int64_t i) const {
    const int64_t slot = uint32_t(i) % uint32_t(slots);
    Elem* const costs = kept + slot * width;
    if (kept_row[slot] != i) {
      compute_distances<LanesType, kVectors>(metric, row_points + i * dims, dims, col_points, width,
                                             width, costs);
      kept_row[slot] = int32_t(i);
    }
    return costs;
  }
  Elem cost_of(int64_t i, int64_t j) const {
    Elem cost = 0;
    compute_distances<ScalarLanes<double>, 1>(metric, row_points + i * dims, dims, col_points + j,
                                              width, 1, &cost);
    return cost;
  }
  Acc entry(int64_t i, int64_t j) const { return Acc(widen(cost_of(i, j))) * this->scale; }
};

template <class Lanes, class Elem>
void allocate_costs(PointState<Lanes, Elem>* s, const CanonicalForm& f, Stack* stack) {
  constexpr int64_t kBlock = PointState<Lanes, Elem>::kVectors * Lanes::kWidth;
  s->dims = f.p.points->dims;
  s->metric = f.p.points->metric;
  s->width = (f.cols + kBlock - 1) / kBlock * kBlock;
  const int64_t bytes = s->width > 0 ? s->width * int64_t(sizeof(Elem)) : 1;
  s->slots = kCachedBytes / bytes;
  if (s->slots < kLeastCached) s->slots = kLeastCached;
  if (s->slots > f.rows) s->slots = f.rows;
  s->row_points = stack->take<double>(f.rows * s->dims);
  s->col_points = stack->take<double>(s->width * s->dims);
  s->direction = stack->take<double>(s->dims);
  s->middle = stack->take<double>(s->dims);
  s->kept = stack->take<Elem>(s->slots * s->width);
  s->kept_row = stack->take<int32_t>(s->slots);
}

template <class Lanes, class Elem>
void gather_costs(PointState<Lanes, Elem>* s, const CanonicalForm& f) {
  s->cost = nullptr;
  s->stride = 0;
  s->row_id = nullptr;
  const PointSets& points = *f.p.points;
  const Elem* x = static_cast<const Elem*>(f.transposed ? points.cols : points.rows);
  const Elem* y = static_cast<const Elem*>(f.transposed ? points.rows : points.cols);
  const int64_t rows = f.transposed ? f.p.m : f.p.n, cols = f.transposed ? f.p.n : f.p.m;
  for (int64_t k = 0; k < s->dims; ++k) {
    for (int64_t i = 0; i < f.rows; ++i) {
      s->row_points[i * s->dims + k] = double(x[k * rows + f.row_list[i]]);
    }
    double* const of_cols = s->col_points + k * s->width;
    for (int64_t j = 0; j < s->width; ++j) {
      of_cols[j] = j < f.cols ? double(y[k * cols + f.col_list[j]]) : 0;
    }
  }
  for (int64_t slot = 0; slot < s->slots; ++slot) s->kept_row[slot] = kNone;
}

// Computes two vectors. s.direction is the gradient of the cost of a pair with respect to the
// column's point, averaged over pairs. s.middle is the mean of the columns' points.
//
// For squared distances, this average is twice the difference of the two means. For the cosine
// cost, which is half the squared distance of unit vectors, the average is this difference itself.
// For other metrics, the average is over sampled pairs. Sums are sequential, so that all
// instruction sets return the same bits.
template <class S>
void mean_gradient(S& s) {
  for (int64_t k = 0; k < s.dims; ++k) {
    double of_rows = 0, of_cols = 0;
    for (int64_t i = 0; i < s.rows; ++i) of_rows += s.row_points[i * s.dims + k];
    for (int64_t j = 0; j < s.cols; ++j) of_cols += s.col_points[k * s.width + j];
    s.middle[k] = of_cols / s.cols;
    s.direction[k] = s.middle[k] - of_rows / s.rows;
    if (s.metric == Metric::kSqeuclidean) s.direction[k] *= 2;
  }
  if (s.metric == Metric::kSqeuclidean || s.metric == Metric::kCosine) return;
  for (int64_t k = 0; k < s.dims; ++k) s.direction[k] = 0;
  for (int64_t pair = 0; pair < kSampled * s.cols; ++pair) {
    // Multiples of 2^32 / golden ratio, modulo the number of rows, spread the sampled rows.
    const int64_t j = pair / kSampled, i = int64_t(uint64_t(pair) * 2654435769u % uint64_t(s.rows));
    const double* const x = s.row_points + i * s.dims;
    const double* const y = s.col_points + j;
    double distance = 0;
    for (int64_t k = 0; k < s.dims; ++k) {
      const double apart = y[k * s.width] - x[k];
      distance += apart * apart;
    }
    distance = __builtin_sqrt(distance);
    if (!(distance > 0 && distance < __builtin_inf())) continue;
    for (int64_t k = 0; k < s.dims; ++k) {
      const double apart = y[k * s.width] - x[k];
      s.direction[k] += s.metric == Metric::kEuclidean ? apart / distance
                        : apart > 0                    ? 1.0
                                                       : (apart < 0 ? -1.0 : 0.0);
    }
  }
  for (int64_t k = 0; k < s.dims; ++k) s.direction[k] /= double(kSampled * s.cols);
}

// Computes start duals in v that cancel a translation between the two point sets. Translating the
// columns' points changes squared distances by a sum of row terms and column terms. The column
// terms, which are linear in the points, are used as duals. For other metrics, these duals are only
// an approximation. Unless `unit` is 0, the duals are rounded to multiples of `unit`. Then each
// row's dual is its least reduced cost, and v becomes the largest column duals that these row duals
// allow. Returns false if a dual is not finite or its magnitude exceeds `most`.
template <class Lanes, class Elem>
bool start_duals(PointState<Lanes, Elem>& s, const CanonicalForm&, double most, double unit) {
  using Acc = typename Lanes::Acc;
  mean_gradient(s);
  for (int64_t j = 0; j < s.cols; ++j) {
    double x = 0;
    for (int64_t k = 0; k < s.dims; ++k) {
      x += s.direction[k] * (s.col_points[k * s.width + j] - s.middle[k]);
    }
    x *= double(s.scale);
    if (!(fabs(x) <= most)) return false;
    s.label[j] = unit > 0 ? rint(x / unit) * unit : x;
  }
  for (int64_t j = 0; j < s.cols; ++j) s.v[j] = s.label[j];
  const auto scale = Lanes::splat(s.scale);
  for (int32_t i = 0; i < s.rows; ++i) {
    auto least = Lanes::splat(kInfinity<Acc>);
    for_each_vector<Lanes>(s.row(i), s.cols, [&](int64_t j, auto c) {
      least = Lanes::min(least, Lanes::scale_sub(c, scale, Lanes::load(s.v + j)));
    });
    s.dist[i] = Lanes::least(least);
  }
  duals_from_rows(s, s.dist);
  return true;
}
