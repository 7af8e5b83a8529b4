// Supplies and demands as multiples of one unit, with equal totals.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

struct Masses {
  int64_t *row, *col;  // [n], [m] in units
  double* real;        // [n + m] float masses, with demands scaled to sum to the supplies
  double unit = 1;     // a power of two; 1 for integers
  int64_t total = 0;
  bool rounded = false;  // a mass was rounded to the unit, or demands were scaled
  bool coarse = false;   // rounding changed a mass by more than the error allowed by spare()
  double lacking = 0;    // mass that one side lacks, if the totals differ too much; else 0
};

// Sums the unmasked entries. Returns false if one is negative, infinite or NaN.
inline bool sum_masses(const void* x, Dtype dtype, const uint8_t* mask, int64_t size, double* sum,
                       unsigned __int128* whole) {
  CompensatedSum total;
  *whole = 0;
  for (int64_t k = 0; k < size; ++k) {
    if (mask && !mask[k]) continue;
    if (is_whole(dtype)) {
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

// Reads floats into `real`, and their rounded numbers of units into `out`. Returns the total of
// `out`.
inline int64_t round_masses(const void* x, Dtype dtype, const uint8_t* mask, int64_t size,
                            double unit, double* real, int64_t* out, bool* rounded) {
  int64_t total = 0;
  for (int64_t k = 0; k < size; ++k) {
    real[k] = mask && !mask[k] ? 0 : read_real(x, dtype, k);
    const double units = real[k] / unit;
    out[k] = int64_t(rint(units));
    *rounded |= double(out[k]) != units;
    total += out[k];
  }
  return total;
}

inline int64_t read_integer(const void* x, Dtype dtype, int64_t at) {
  return dtype == Dtype::kS32 ? static_cast<const int32_t*>(x)[at]
                              : static_cast<const int64_t*>(x)[at];
}

inline void read_integers(const void* x, Dtype dtype, const uint8_t* mask, int64_t size,
                          int64_t* out) {
  for (int64_t k = 0; k < size; ++k) out[k] = mask && !mask[k] ? 0 : read_integer(x, dtype, k);
}

// Sets the masses of the dummies, so that each side sums to `rows` + `cols` - `moved`. `rows` and
// `cols` are the total masses of the other rows and columns.
inline void fill_dummies(const TransportProblem& p, int64_t rows, int64_t cols, int64_t moved,
                         Masses* out) {
  out->row[p.n - 1] = cols - moved;
  out->col[p.m - 1] = rows - moved;
  out->total = rows + cols - moved;
}

inline Status read_integer_masses(const TransportProblem& p, unsigned __int128 rows,
                                  unsigned __int128 cols, Masses* out) {
  const unsigned __int128 least = rows < cols ? rows : cols;
  unsigned __int128 total = rows, moved = 0;
  if (p.moved) {
    const int64_t given = read_integer(p.moved, p.mass_dtype, 0);
    if (given < 0) return kInvalidMass;
    moved = (unsigned __int128)(given);
    total = rows + cols - (moved < rows ? moved : rows);
  }
  if ((rows | cols | total) >> kTotalBits) return kOverflow;
  if (p.moved ? moved > least : rows != cols) {
    out->lacking = p.moved ? double(moved - least) : double(rows + cols - 2 * least);
    return kUnbalanced;
  }
  read_integers(p.supply, p.mass_dtype, p.row_mask, p.n, out->row);
  read_integers(p.demand, p.mass_dtype, p.col_mask, p.m, out->col);
  out->total = int64_t(total);
  if (p.moved) fill_dummies(p, int64_t(rows), int64_t(cols), int64_t(moved), out);
  return kOptimal;
}

// Checks the total supply `rows` and the total demand `cols`. Sets `moved`, and `most`, an upper
// bound of each side's total. If one side lacks mass, sets `lacking`.
inline Status sum_reals(const TransportProblem& p, double rows, double cols, double* moved,
                        double* most, Masses* out) {
  const double forgiven = tolerance(p.coarsest, p.n + p.m), least = fmin(rows, cols);
  *most = fmax(rows, cols);
  if (p.moved) {
    *moved = read_real(p.moved, p.mass_dtype, 0);
    if (!(*moved >= 0 && *moved < __builtin_inf())) return kInvalidMass;
    out->lacking = *moved > least * (1 + forgiven) ? *moved - least : 0;
    *most = rows + cols;
  } else if (*most < __builtin_inf()) {
    out->lacking = *most - least > forgiven * *most ? *most - least : 0;
  }
  if (out->lacking > 0) return kUnbalanced;
  return *most < __builtin_inf() ? kOptimal : kOverflow;
}

// Reads and checks the masses. Float masses are not balanced yet (balance_masses()).
inline Status read_masses(const TransportProblem& p, Masses* out) {
  double rows, cols, moved = 0, most = 0;
  unsigned __int128 whole_rows, whole_cols;
  const int64_t n = p.moved ? p.n - 1 : p.n, m = p.moved ? p.m - 1 : p.m;
  if (!sum_masses(p.supply, p.mass_dtype, p.row_mask, n, &rows, &whole_rows) ||
      !sum_masses(p.demand, p.mass_dtype, p.col_mask, m, &cols, &whole_cols)) {
    return kInvalidMass;
  }
  if (is_whole(p.mass_dtype)) return read_integer_masses(p, whole_rows, whole_cols, out);
  const Status status = sum_reals(p, rows, cols, &moved, &most, out);
  if (status != kOptimal) return status;
  const int lowest = most > 0 ? ilogb(most) + 1 - kTotalBits : 0;
  out->unit = ldexp(1, lowest < -1074 ? -1074 : lowest);
  out->total = round_masses(p.supply, p.mass_dtype, p.row_mask, n, out->unit, out->real, out->row,
                            &out->rounded);
  const int64_t total = round_masses(p.demand, p.mass_dtype, p.col_mask, m, out->unit,
                                     out->real + p.n, out->col, &out->rounded);
  if (!p.moved) return kOptimal;
  const double least = fmin(rows, cols), units = rint(moved / out->unit);
  const int64_t fewest = out->total < total ? out->total : total;
  const int64_t whole = units < double(fewest) ? int64_t(units) : fewest;
  out->rounded |= double(whole) * out->unit != moved;
  fill_dummies(p, out->total, total, whole, out);
  out->real[p.n - 1] = cols - fmin(moved, least);
  out->real[p.n + p.m - 1] = rows - fmin(moved, least);
  return kOptimal;
}
