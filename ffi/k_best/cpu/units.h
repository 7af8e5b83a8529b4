// The canonical form of a problem: a minimisation in whole units. Its rows are the smaller side of
// the problem, so that every row is matched. Its matrix is a copy.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

constexpr int32_t kNone = -1;  // no row or column

// Suppose that (rows + 1) * max|C| is at most kMostInAll. Then lengths of paths are below kFar.
// Reduced costs of forbidden pairs, and of columns with dual kGone, are at least kFar, but do not
// overflow. The reason is that a dual of the best assignment is a sum of costs along a path without
// repetition, so it is at most kMostInAll. From the best assignment to that of a node, duals change
// by at most the difference of the two assignments' costs, which is at most 2 * kMostInAll.
constexpr int64_t kMostInAll = int64_t{1} << 56;
constexpr int64_t kFar = int64_t{1} << 60;        // greater than any length of a path
constexpr int64_t kForbidden = int64_t{1} << 61;  // the cost of a forbidden pair
constexpr int64_t kGone = -(int64_t{1} << 61);    // dual of a column that must not be used

// The rows and columns that the masks include. `rows` is the size of the smaller side.
struct Form {
  bool transposed;
  int32_t rows, cols;
  int64_t stride;           // cols, padded to a multiple of 8
  const int32_t* row_list;  // the problem's row (column, if transposed) for each canonical row
  const int32_t* col_list;
  int32_t *n_list, *m_list;  // the rows and columns that the masks include

  explicit Form(const KBestProblem& p) {
    const auto count = [](const uint8_t* mask, int64_t size) {
      int64_t used = mask ? 0 : size;
      for (int64_t k = 0; mask && k < size; ++k) used += mask[k] != 0;
      return int32_t(used);
    };
    const int32_t n = count(p.row_mask, p.n), m = count(p.col_mask, p.m);
    transposed = n > m;
    rows = transposed ? m : n;
    cols = transposed ? n : m;
    stride = (cols + 7) / 8 * 8;
  }
  void allocate(const KBestProblem& p, Stack* stack) {
    n_list = stack->take<int32_t>(p.n);
    m_list = stack->take<int32_t>(p.m);
    if (!stack->base) return;
    const auto list = [](const uint8_t* mask, int64_t size, int32_t* to) {
      for (int64_t k = 0; k < size; ++k) {
        if (!mask || mask[k]) *to++ = int32_t(k);
      }
    };
    list(p.row_mask, p.n, n_list);
    list(p.col_mask, p.m, m_list);
    row_list = transposed ? m_list : n_list;
    col_list = transposed ? n_list : m_list;
  }
  // The index of a pair in the costs of the problem.
  int64_t place(const KBestProblem& p, int32_t row, int32_t col) const {
    const int64_t i = row_list[row], j = col_list[col];
    return transposed ? j * p.m + i : i * p.m + j;
  }
};

// Costs in units. If there are more columns than rows, the matrix has a spare row, number `rows`: a
// row of zeros that holds all unmatched columns. It stands for as many rows of zeros as there are
// unmatched columns.
struct Matrix {
  int64_t* cost;
  int32_t rows, cols;
  int64_t stride;
  double scale;  // factor from costs to units; negative to maximise
  CostMap map;   // replaces some costs before they are scaled
  bool exact;    // no cost was rounded

  bool has_spare() const { return cols > rows; }
  int64_t all_rows() const { return rows + (has_spare() ? 1 : 0); }
  const int64_t* row(int64_t i) const { return cost + i * stride; }
};

// Results of a pass over the costs.
struct CostSummary {
  bool invalid = false;            // a cost is NaN or -inf (+inf when maximising)
  uint64_t most_whole = 0;         // greatest magnitude of integers
  double most = 0;                 // greatest magnitude of finite floats
  double least = __builtin_inf();  // least non-zero magnitude of floats
};

template <class Elem>
CostSummary summarize_costs(const KBestProblem& p, const Form& f) {
  CostSummary found;
  const double sign = p.maximize ? -1 : 1;
  const int32_t n = f.transposed ? f.cols : f.rows, m = f.transposed ? f.rows : f.cols;
  for (int32_t i = 0; i < n; ++i) {
    const Elem* const row = static_cast<const Elem*>(p.cost) + f.n_list[i] * p.m;
    for (int32_t j = 0; j < m; ++j) {
      const Elem cost = row[f.m_list[j]];
      if constexpr (Format<Elem>::kInteger) {
        const int64_t x = cost;
        const uint64_t size = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
        found.most_whole = size > found.most_whole ? size : found.most_whole;
      } else {
        const double x = sign * widen(cost), size = fabs(x);
        const bool finite = size < __builtin_inf();
        found.invalid |= !(x > -__builtin_inf());
        found.most = finite && size > found.most ? size : found.most;
        found.least = size > 0 && size < found.least ? size : found.least;
      }
    }
  }
  return found;
}

// The number of lower costs that one cost of a higher level must outweigh: at least as many as two
// assignments have.
inline double most_pairs(const Form& f) { return 2 * (double(f.rows) + 1); }

// Finds the levels of the costs (common/cost_levels.inc.h).
template <class Elem>
CostLevels find_levels(const KBestProblem& p, const Form& f, const CostSummary& found) {
  CostLevels levels;
  if constexpr (Format<Elem>::kInteger) return levels;
  const double sign = p.maximize ? -1 : 1;
  const auto for_row = [&](int32_t i, const auto& g) {
    for (int32_t j = 0; j < f.cols; ++j) {
      const double x = sign * double(widen(static_cast<const Elem*>(p.cost)[f.place(p, i, j)]));
      if (x < __builtin_inf()) g(x);
    }
  };
  Exponents seen, wanted;
  const auto see = [&](double x) {
    if (x == 0) return;
    seen.add(exponent_of(x));
    if (x < 0) wanted.add(exponent_of(x));
  };
  if (f.rows > 0) for_row(0, see);
  if (!may_have_levels(seen, found.most, found.least)) return levels;
  for (int32_t i = 1; i < f.rows; ++i) for_row(i, see);
  levels.split(seen, wanted.most(), most_pairs(f));
  for (int32_t i = 0; i < f.rows; ++i) {
    for_row(i, [&](double x) { levels.level[levels.of(x)].add(fabs(x)); });
  }
  return levels;
}

// Sets `scale` such that the unit is the smallest for which sums of costs do not overflow. Integers
// keep the unit 1; returns false if they are too large for it.
template <class Elem>
bool choose_unit(const CostSummary& found, bool maximize, Matrix* c) {
  const int64_t longest = int64_t(c->rows) + 1;
  const double sign = maximize ? -1 : 1;
  if constexpr (Format<Elem>::kInteger) {
    c->scale = sign;
    return found.most_whole <= uint64_t(kMostInAll / longest);
  } else {
    int bits = ilogb(double(kMostInAll / longest));
    bits = bits < kMostFloatBits ? bits : kMostFloatBits;
    const int exponent = bits - (found.most > 0 ? ilogb(found.most) + 1 : 0);
    c->scale = sign * ldexp(1, exponent > 1000 ? 1000 : exponent);
    return true;
  }
}

template <class Elem>
int64_t units_of(Elem x, double scale, const CostMap& map, bool* rounded) {
  if constexpr (Format<Elem>::kInteger) {
    return scale < 0 ? -int64_t(x) : int64_t(x);
  } else {
    const double sign = scale < 0 ? -1 : 1, given = sign * double(widen(x));
    const double real = map.of(given), y = real * fabs(scale);
    *rounded |= real < given;
    if (!(y < __builtin_inf())) return kForbidden;
    const int64_t units = as_integer(y);
    *rounded |= double(units) != y || (units == 0 && real != 0);  // y may have underflowed
    return units;
  }
}

template <class Elem>
void convert_costs(const KBestProblem& p, const Form& f, Matrix* c) {
  const Elem* const cost = static_cast<const Elem*>(p.cost);
  const int64_t row_step = f.transposed ? 1 : p.m, col_step = f.transposed ? p.m : 1;
  bool rounded = false;
  constexpr int32_t kBlock = 16;  // columns at a time; a transposed read reuses their cache lines
  for (int32_t first = 0; first < c->cols; first += kBlock) {
    const int32_t end = first + kBlock < c->cols ? first + kBlock : c->cols;
    for (int32_t i = 0; i < c->rows; ++i) {
      const Elem* const row = cost + f.row_list[i] * row_step;
      int64_t* const out = c->cost + i * c->stride;
      for (int32_t j = first; j < end; ++j) {
        out[j] = units_of(row[f.col_list[j] * col_step], c->scale, c->map, &rounded);
      }
    }
  }
  c->exact = !rounded;
  for (int64_t i = 0; i < c->all_rows(); ++i) {
    int64_t* const out = c->cost + i * c->stride;
    for (int64_t j = i < c->rows ? c->cols : 0; j < c->cols; ++j) out[j] = 0;
    for (int64_t j = c->cols; j < c->stride; ++j) out[j] = kForbidden;
  }
}
