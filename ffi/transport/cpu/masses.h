// Supplies and demands in whole units of one grid, with equal totals.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// The totals of supplies and of demands are below 2^61.
constexpr int kTotalBits = 60;

struct Masses {
  int64_t *row, *col;  // [n], [m] in units
  double unit = 1;     // a power of two; 1 for integers
  int64_t total = 0;
  bool rounded = false;  // a mass is not a multiple of the unit, or demands were scaled
};

// The number of roundings, relative to the total, by which the totals of floats may differ: those
// of `count` numbers and of their sum.
inline double tolerance(Dtype dtype, int64_t count) {
  return 2.0 * double(count) * (dtype == Dtype::kF32 ? 0x1p-23 : 0x1p-52);
}

// Sums the unmasked entries. False if one is negative, infinite or NaN.
inline bool sum_masses(const void* x, Dtype dtype, const uint8_t* mask, int64_t size, double* sum,
                       unsigned __int128* whole) {
  CompensatedSum total;
  *whole = 0;
  for (int64_t k = 0; k < size; ++k) {
    if (mask && !mask[k]) continue;
    if (dtype == Dtype::kS32 || dtype == Dtype::kS64) {
      const int64_t mass = dtype == Dtype::kS32 ? static_cast<const int32_t*>(x)[k]
                                                : static_cast<const int64_t*>(x)[k];
      if (mass < 0) return false;
      *whole += (unsigned __int128)(mass);
    } else {
      const double mass = read_real(x, dtype, k);
      if (!(mass >= 0 && mass < __builtin_inf())) return false;
      total.add(mass);
    }
  }
  *sum = total.value();
  return true;
}

// Rounds floats to the grid. Returns the total.
inline int64_t round_masses(const void* x, Dtype dtype, const uint8_t* mask, int64_t size,
                            double unit, int64_t* out, bool* rounded) {
  int64_t total = 0;
  for (int64_t k = 0; k < size; ++k) {
    out[k] = 0;
    if (mask && !mask[k]) continue;
    const double units = read_real(x, dtype, k) / unit;
    out[k] = int64_t(rint(units));
    *rounded |= double(out[k]) != units;
    total += out[k];
  }
  return total;
}

// Changes the demands in proportion so that their total grows by `more`, which is small beside it.
inline void spread_difference(int64_t* x, int64_t size, int64_t total, int64_t more) {
  int64_t most = 0, left = more;
  for (int64_t k = 0; k < size; ++k) {
    const int64_t share = int64_t(double(more) * (double(x[k]) / double(total)));
    x[k] += share;
    left -= share;
    if (x[k] > x[most]) most = k;
  }
  x[most] += left;
}

inline int64_t read_integer(const void* x, Dtype dtype, int64_t at) {
  return dtype == Dtype::kS32 ? static_cast<const int32_t*>(x)[at]
                              : static_cast<const int64_t*>(x)[at];
}

inline void read_integers(const void* x, Dtype dtype, const uint8_t* mask, int64_t size,
                          int64_t* out) {
  for (int64_t k = 0; k < size; ++k) out[k] = mask && !mask[k] ? 0 : read_integer(x, dtype, k);
}

// Gives the dummies what the others lack: all sums are then `rows` + `cols` - `moved`.
inline void fill_dummies(const TransportProblem& p, int64_t rows, int64_t cols, int64_t moved,
                         Masses* out) {
  out->row[p.n - 1] = cols - moved;
  out->col[p.m - 1] = rows - moved;
  out->total = rows + cols - moved;
}

inline Status read_integer_masses(const TransportProblem& p, unsigned __int128 rows,
                                  unsigned __int128 cols, Masses* out) {
  unsigned __int128 total = rows, moved = 0;
  if (p.moved) {
    const int64_t given = read_integer(p.moved, p.mass_dtype, 0);
    if (given < 0) return kInvalidMass;
    moved = (unsigned __int128)(given);
    total = rows + cols - (moved < rows ? moved : rows);
  }
  if ((rows | cols | total) >> kTotalBits) return kOverflow;
  if (p.moved ? moved > rows || moved > cols : rows != cols) return kUnbalanced;
  read_integers(p.supply, p.mass_dtype, p.row_mask, p.n, out->row);
  read_integers(p.demand, p.mass_dtype, p.col_mask, p.m, out->col);
  out->total = int64_t(total);
  if (p.moved) fill_dummies(p, int64_t(rows), int64_t(cols), int64_t(moved), out);
  return kOptimal;
}

inline Status read_masses(const TransportProblem& p, Masses* out) {
  const bool integers = p.mass_dtype == Dtype::kS32 || p.mass_dtype == Dtype::kS64;
  double supply, demand;
  unsigned __int128 rows, cols;
  const int64_t n = p.moved ? p.n - 1 : p.n, m = p.moved ? p.m - 1 : p.m;
  if (!sum_masses(p.supply, p.mass_dtype, p.row_mask, n, &supply, &rows) ||
      !sum_masses(p.demand, p.mass_dtype, p.col_mask, m, &demand, &cols)) {
    return kInvalidMass;
  }
  if (integers) return read_integer_masses(p, rows, cols, out);
  const double forgiven = tolerance(p.mass_dtype, p.n + p.m);
  double most = fmax(supply, demand), moved = 0;
  if (p.moved) {
    moved = read_real(p.moved, p.mass_dtype, 0);
    if (!(moved >= 0 && moved < __builtin_inf())) return kInvalidMass;
    if (moved > fmin(supply, demand) * (1 + forgiven)) return kUnbalanced;
    most = supply + demand;
  }
  if (!(most < __builtin_inf())) return kOverflow;
  if (!p.moved && fabs(supply - demand) > forgiven * most) return kUnbalanced;
  if (most == 0) {
    for (int64_t i = 0; i < p.n; ++i) out->row[i] = 0;
    for (int64_t j = 0; j < p.m; ++j) out->col[j] = 0;
    return kOptimal;
  }
  const int lowest = ilogb(most) + 1 - kTotalBits;
  out->unit = ldexp(1, lowest < -1074 ? -1074 : lowest);
  out->total =
      round_masses(p.supply, p.mass_dtype, p.row_mask, n, out->unit, out->row, &out->rounded);
  const int64_t total =
      round_masses(p.demand, p.mass_dtype, p.col_mask, m, out->unit, out->col, &out->rounded);
  if (p.moved) {
    const double units = rint(moved / out->unit);
    const int64_t least = out->total < total ? out->total : total;
    const int64_t whole = units < double(least) ? int64_t(units) : least;
    out->rounded |= double(whole) * out->unit != moved;
    fill_dummies(p, out->total, total, whole, out);
    return kOptimal;
  }
  if (total != out->total) {
    // All masses of one side may be below half a unit, where the least double bounds it.
    if (total == 0 || out->total == 0) return kUnbalanced;
    spread_difference(out->col, p.m, total, out->total - total);
    out->rounded = true;
  }
  return kOptimal;
}
