// Costs that are distances between points: a row is computed when it is scanned, O(n + m) memory.
//
// The bits are those of large/point_costs.h: in double, coordinate after coordinate, never
// contracted, then rounded to the type of the coordinates.
//
// Included once per instruction set, inside that set's namespace (assignment_solver.inc.h).

// Computed rows are kept, each in the slot of its number modulo their count, as far as this room
// goes. A pass down a vector of columns takes 24 rows by turns (reduce_columns).
constexpr int64_t kKeptBytes = int64_t{16} << 20, kLeastKept = 32;

// A point is seen from so many others to learn where they lie (mean_gradient).
constexpr int64_t kSampled = 4;

// Calls f(term, end): the distance of two points is end(the sum of term(x, y) over coordinates).
template <class L, class F>
inline __attribute__((always_inline)) void with_metric(Metric metric, const F& f) {
  using Reg = typename L::Reg;
  const auto square = [](Reg x, Reg y) { return L::mul(L::sub(x, y), L::sub(x, y)); };
  const auto apart = [](Reg x, Reg y) { return L::abs(L::sub(x, y)); };
  const auto product = [](Reg x, Reg y) { return L::mul(x, y); };
  const auto same = [](Reg x) { return x; };
  const auto root = [](Reg x) { return L::sqrt(x); };
  const auto rest = [](Reg x) { return L::sub(L::splat(1), x); };
  switch (metric) {
    case Metric::kSqeuclidean:
      return f(square, same);
    case Metric::kEuclidean:
      return f(square, root);
    case Metric::kL1:
      return f(apart, same);
    case Metric::kCosine:
      return f(product, rest);
  }
}

// The distances of point x from neighbouring points, whose coordinates lie `stride` apart.
template <class L, int kVectors, class Elem>
inline __attribute__((always_inline)) void compute_distances(Metric metric, const double* x,
                                                             int64_t dims, const double* points,
                                                             int64_t stride, int64_t count,
                                                             Elem* out) {
  with_metric<L>(metric, [&](auto term, auto end) {
    for (int64_t j = 0; j < count; j += kVectors * L::kWidth) {
      typename L::Reg sum[kVectors];
      for (auto& s : sum) s = L::splat(0);
      for (int64_t k = 0; k < dims; ++k) {
        const auto of_row = L::splat(x[k]);
        const double* of_cols = points + k * stride + j;
        for (int a = 0; a < kVectors; ++a) {
          sum[a] = L::add(sum[a], term(of_row, L::load(of_cols + a * L::kWidth)));
        }
      }
      for (int a = 0; a < kVectors; ++a) L::store_cost(out + j + a * L::kWidth, end(sum[a]));
    }
  });
}

template <class LanesType, class ElemType>
struct PointState : State<LanesType, ElemType> {
  using Base = State<LanesType, ElemType>;
  using Elem = ElemType;
  using Acc = typename Base::Acc;
  static constexpr bool kStored = false;
  static constexpr int kVectors = 4;  // of columns, computed together

  double* row_points;          // [rows, dims]
  double* col_points;          // [dims, width], zeros in the padding
  double *direction, *middle;  // [dims], of the start
  Elem* kept;                  // [slots, width] rows
  int32_t* kept_row;           // [slots] which they are, or kNone
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
  s->slots = kKeptBytes / bytes;
  if (s->slots < kLeastKept) s->slots = kLeastKept;
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

// Into s.direction: how a cost changes as its column's point moves, on average over pairs. Into
// s.middle: the mean of the columns' points.
//
// For squares this is twice the difference of the means, and for unit vectors a cost is half the
// square; else pairs are sampled. Sums are sequential: the same on all instruction sets.
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
    // The golden ratio of 2^32: rows that lie far apart.
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

// Fills v for a start: clouds that lie apart are brought together. Moving the columns' points by
// one vector changes squared distances by what rows and columns pay alone; what columns pay then is
// the linear part of these duals, for other metrics approximately. Then each row's least reduced
// cost is its dual, and columns have the largest duals that these allow. Returns false where a dual
// is not finite or beyond `most`. Costs are never changed.
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
