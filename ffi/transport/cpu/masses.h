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

inline Status read_masses(const TransportProblem& p, Masses* out) {
  const bool integers = p.mass_dtype == Dtype::kS32 || p.mass_dtype == Dtype::kS64;
  double supply, demand;
  unsigned __int128 rows, cols;
  if (!sum_masses(p.supply, p.mass_dtype, p.row_mask, p.n, &supply, &rows) ||
      !sum_masses(p.demand, p.mass_dtype, p.col_mask, p.m, &demand, &cols)) {
    return kInvalidMass;
  }
  if (integers) {
    if (rows != cols) return kUnbalanced;
    if (rows >> kTotalBits) return kOverflow;
    for (int64_t i = 0; i < p.n; ++i) {
      out->row[i] = p.row_mask && !p.row_mask[i]    ? 0
                    : p.mass_dtype == Dtype::kS32 ? static_cast<const int32_t*>(p.supply)[i]
                                                  : static_cast<const int64_t*>(p.supply)[i];
    }
    for (int64_t j = 0; j < p.m; ++j) {
      out->col[j] = p.col_mask && !p.col_mask[j]    ? 0
                    : p.mass_dtype == Dtype::kS32 ? static_cast<const int32_t*>(p.demand)[j]
                                                  : static_cast<const int64_t*>(p.demand)[j];
    }
    out->total = int64_t(rows);
    return kOptimal;
  }
  const double most = fmax(supply, demand);
  if (!(most < __builtin_inf())) return kOverflow;
  if (fabs(supply - demand) > tolerance(p.mass_dtype, p.n + p.m) * most) return kUnbalanced;
  if (most == 0) {
    for (int64_t i = 0; i < p.n; ++i) out->row[i] = 0;
    for (int64_t j = 0; j < p.m; ++j) out->col[j] = 0;
    return kOptimal;
  }
  const int lowest = ilogb(most) + 1 - kTotalBits;
  out->unit = ldexp(1, lowest < -1022 ? -1022 : lowest);
  out->total = round_masses(p.supply, p.mass_dtype, p.row_mask, p.n, out->unit, out->row,
                            &out->rounded);
  const int64_t total = round_masses(p.demand, p.mass_dtype, p.col_mask, p.m, out->unit, out->col,
                                     &out->rounded);
  if (total != out->total) {
    // All masses of one side may be below half a unit, where the least double bounds it.
    if (total == 0 || out->total == 0) return kUnbalanced;
    spread_difference(out->col, p.m, total, out->total - total);
    out->rounded = true;
  }
  return kOptimal;
}
