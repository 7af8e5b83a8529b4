// Supplies and demands as multiples of one unit, with equal totals.
#ifndef JAXMATCH_CUDA_TRANSPORT_MASSES_CUH_
#define JAXMATCH_CUDA_TRANSPORT_MASSES_CUH_

#include "common/compensated_sum.h"
#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

#include "transport/masses.inc.h"

// The masses of one side, rows or columns.
struct MassSide {
  const void* given;
  const uint8_t* mask;
  int64_t count;  // number of masses without the dummy
  int64_t* units;
  double* real;
};

struct MassReader {
  Team team;
  const TransportProblem& p;
  MassSide row, col;

  __device__ bool is_integer() const { return is_whole(p.mass_dtype); }
  __device__ double real(const void* x, int64_t k) const {
    return p.mass_dtype == Dtype::kF32   ? double(static_cast<const float*>(x)[k])
           : p.mass_dtype == Dtype::kF64 ? static_cast<const double*>(x)[k]
                                         : double(whole(x, k));
  }
  __device__ int64_t whole(const void* x, int64_t k) const {
    return p.mass_dtype == Dtype::kS32 ? static_cast<const int32_t*>(x)[k]
                                       : static_cast<const int64_t*>(x)[k];
  }

  // The sum of the unmasked entries; NaN if one is negative, infinite or NaN.
  __device__ double real_sum(const MassSide& side) const {
    double own = 0;
    bool invalid = false;
    team.each(side.count, [&](int64_t k) {
      if (side.mask && !side.mask[k]) return;
      const double x = real(side.given, k);
      invalid |= !(x >= 0 && x < __builtin_huge_val());
      own += invalid ? 0 : x;
    });
    const double sum = team.sum_of_block(own);
    return team.any(invalid) ? __builtin_nan("") : sum;
  }
  // Reads integers, or rounds floats to whole units. Returns their total in units.
  __device__ int64_t read(const MassSide& side, double unit, bool& rounded) const {
    int64_t own = 0;
    team.each(side.count, [&](int64_t k) {
      const bool exists = !side.mask || side.mask[k];
      int64_t units = 0;
      if (is_integer()) {
        if (exists) units = whole(side.given, k);
      } else {
        side.real[k] = exists ? real(side.given, k) : 0;
        const double exact = side.real[k] / unit;
        units = int64_t(rint(exact));
        rounded |= double(units) != exact;
      }
      side.units[k] = units;
      own += units;
    });
    return team.sum(own);
  }

  // Changes the demands in proportion, so that their sum grows by `more`. `total` is their sum
  // before. `more` may be negative, but must be small relative to `total`.
  __device__ void spread_difference(int64_t total, int64_t more) const {
    int64_t own = 0;
    uint64_t key = ~uint64_t(0), index = ~uint64_t(0);
    team.each(col.count, [&](int64_t k) {
      const int64_t share = int64_t(double(more) * (double(col.units[k]) / double(total)));
      col.units[k] += share;
      own += share;
      const uint64_t less = ~uint64_t(col.units[k]);
      if (less < key) {
        key = less;
        index = uint64_t(k);
      }
    });
    const int64_t left = more - team.sum(own);
    team.least(key, index);
    team.one([&] { col.units[index] += left; });
    team.sync();
  }

  // Reads and checks the masses. Float masses are not balanced yet (balance()).
  __device__ Masses run() const {
    Masses out{1, 0, false, kOptimal, false, 0};
    const double of_rows = real_sum(row), of_cols = real_sum(col);
    const double moved = p.moved ? real(p.moved, 0) : 0;
    const bool valid = of_rows >= 0 && of_cols >= 0 && moved >= 0 && moved < __builtin_huge_val();
    const double most = fmax(of_rows, of_cols), sum = p.moved ? of_rows + of_cols : most;
    if (!valid) {
      out.status = kInvalidMass;
    } else if (!(most < __builtin_huge_val()) || (is_integer() && sum > 0x1p62)) {
      out.status = kOverflow;
    } else {
      if (!is_integer() && sum > 0) {
        out.unit = ldexp(1.0, max(ilogb(sum) + 1 - kTotalBits, -1074));
      }
      const int64_t rows = read(row, out.unit, out.rounded),
                    cols = read(col, out.unit, out.rounded);
      out.total = rows;
      if (is_integer()) {
        balance_integers(rows, cols, out);
      } else {
        out.lacking = lacking(of_rows, of_cols, moved);
        if (out.lacking > 0) {
          out.status = kUnbalanced;
        } else if (!(sum < __builtin_huge_val())) {
          out.status = kOverflow;
        } else if (p.moved) {
          fill_with_reals(rows, cols, of_rows, of_cols, out);
        }
      }
      out.rounded = team.any(out.rounded);
    }
    return out;
  }

  // Scales the demands so that they sum to the supplies. Allowed pairs must connect all rows and
  // columns that have mass.
  __device__ void balance(Masses& out) const {
    const double of_rows = real_sum(row), of_cols = real_sum(col);
    int64_t rows = 0, cols = 0;
    team.each(p.n, [&](int64_t i) { rows += row.units[i]; });
    team.each(p.m, [&](int64_t j) { cols += col.units[j]; });
    rows = team.sum(rows);
    cols = team.sum(cols);
    const double factor = of_cols > 0 ? of_rows / of_cols : 1;
    team.each(col.count, [&](int64_t j) { col.real[j] *= factor; });
    team.sync();
    if (rows == cols) return;
    // If the unit is the least positive double, all masses of one side may round to 0 units.
    if (rows == 0 || cols == 0) {
      out.status = kUnbalanced;
      out.lacking = fabs(of_rows - of_cols);
      return;
    }
    spread_difference(cols, rows - cols);
    out.rounded = true;
  }

  // Whether rounding to units changed some mass by more than half of the allowed error (spare()).
  __device__ bool are_coarse(double unit) const {
    const double near = spare(p.mass_dtype) / 2;
    bool coarse = false;
    const auto look = [&](int64_t units, double x) {
      coarse |= fabs(double(units) * unit - x) > near * x;
    };
    team.each(p.n, [&](int64_t i) { look(row.units[i], row.real[i]); });
    team.each(p.m, [&](int64_t j) { look(col.units[j], col.real[j]); });
    return team.any(coarse);
  }

 private:
  // The mass that one side lacks: the difference of the totals or, if `p.moved` is given, `moved`
  // minus the smaller total. Returns 0 within the tolerance.
  __device__ double lacking(double of_rows, double of_cols, double moved) const {
    const double forgiven = tolerance(p.coarsest, p.n + p.m), least = fmin(of_rows, of_cols),
                 most = fmax(of_rows, of_cols);
    if (p.moved) return moved > least * (1 + forgiven) ? moved - least : 0;
    return most - least > forgiven * most ? most - least : 0;
  }

  __device__ void balance_integers(int64_t rows, int64_t cols, Masses& out) const {
    const int64_t least = rows < cols ? rows : cols;
    if (!p.moved) {
      if (rows != cols) out.status = kUnbalanced;
      out.lacking = fabs(double(rows - cols));
      if ((rows > cols ? rows : cols) >> kTotalBits) out.status = kOverflow;
      return;
    }
    const int64_t moved = whole(p.moved, 0);
    if (moved > least) {
      out.status = kUnbalanced;
      out.lacking = double(moved - least);
    }
    if ((rows + cols - (moved < rows ? moved : rows)) >> kTotalBits) out.status = kOverflow;
    if (out.status == kOptimal) fill_dummies(rows, cols, moved, out);
  }

  __device__ void fill_with_reals(int64_t rows, int64_t cols, double of_rows, double of_cols,
                                  Masses& out) const {
    const double moved = real(p.moved, 0), exact = moved / out.unit,
                 part = fmin(moved, fmin(of_rows, of_cols));
    const int64_t least = rows < cols ? rows : cols;
    const int64_t units = rint(exact) < double(least) ? int64_t(rint(exact)) : least;
    out.rounded |= double(units) != exact;
    fill_dummies(rows, cols, units, out);
    team.one([&] {
      row.real[p.n - 1] = of_cols - part;
      col.real[p.m - 1] = of_rows - part;
    });
    team.sync();
  }

  // Sets the masses of the dummies, so that both sides have the same total. `rows` and `cols` are
  // the total masses of the other rows and columns, between which `units` move.
  __device__ void fill_dummies(int64_t rows, int64_t cols, int64_t units, Masses& out) const {
    team.one([&] {
      row.units[p.n - 1] = cols - units;
      col.units[p.m - 1] = rows - units;
    });
    team.sync();
    out.total = rows + cols - units;
  }
};

__device__ inline MassReader mass_reader(Team team, const TransportProblem& p, const Workspace& w) {
  const int dummies = p.moved ? 1 : 0;
  return {team,
          p,
          {p.supply, p.row_mask, p.n - dummies, w.supply, w.real},
          {p.demand, p.col_mask, p.m - dummies, w.demand, w.real + p.n}};
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_MASSES_CUH_
