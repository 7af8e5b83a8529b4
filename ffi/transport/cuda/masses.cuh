// Supplies and demands in whole units of one grid, with equal totals.
#ifndef JAXMATCH_CUDA_TRANSPORT_MASSES_CUH_
#define JAXMATCH_CUDA_TRANSPORT_MASSES_CUH_

#include "transport/cuda/team.cuh"

namespace jaxmatch::transport {

// The totals of supplies and of demands are below 2^61.
constexpr int kTotalBits = 60;

// What one side has, read by all threads.
struct MassSide {
  const void* given;
  const uint8_t* mask;
  int64_t count;  // without a dummy
  int64_t* units;
};

struct MassReader {
  Team team;
  const TransportProblem& p;
  MassSide row, col;

  __device__ bool is_integer() const {
    return p.mass_dtype == Dtype::kS32 || p.mass_dtype == Dtype::kS64;
  }
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
  // Reads integers, or rounds floats to the grid. Returns the total.
  __device__ int64_t read(const MassSide& side, double unit, bool& rounded) const {
    int64_t own = 0;
    team.each(side.count, [&](int64_t k) {
      int64_t units = 0;
      if (!side.mask || side.mask[k]) {
        if (is_integer()) {
          units = whole(side.given, k);
        } else {
          const double exact = real(side.given, k) / unit;
          units = int64_t(rint(exact));
          rounded |= double(units) != exact;
        }
      }
      side.units[k] = units;
      own += units;
    });
    return team.sum(own);
  }

  // Changes the demands in proportion so that their total grows by `more`, small beside it.
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

  __device__ Masses run() const {
    Masses out{1, 0, false, kOptimal};
    const double of_rows = real_sum(row), of_cols = real_sum(col);
    const double moved = p.moved ? real(p.moved, 0) : 0;
    const bool valid = of_rows >= 0 && of_cols >= 0 && moved >= 0 && moved < __builtin_huge_val();
    const double sum = p.moved ? of_rows + of_cols : fmax(of_rows, of_cols);
    if (!valid) {
      out.status = kInvalidMass;
    } else if (!(sum < __builtin_huge_val()) || (is_integer() && sum > 0x1p62)) {
      out.status = kOverflow;
    } else if (sum == 0) {
      team.each(p.n, [&](int64_t i) { row.units[i] = 0; });
      team.each(p.m, [&](int64_t j) { col.units[j] = 0; });
      if (moved > 0) out.status = kUnbalanced;
      team.sync();
    } else {
      if (!is_integer()) out.unit = ldexp(1.0, max(ilogb(sum) + 1 - kTotalBits, -1074));
      const int64_t rows = read(row, out.unit, out.rounded),
                    cols = read(col, out.unit, out.rounded);
      out.status = p.moved ? fill_dummies(rows, cols, out) : balance(rows, cols, out);
      out.rounded = team.any(out.rounded);
    }
    return out;
  }

 private:
  __device__ double forgiven() const {
    return 2.0 * double(p.n + p.m) * (p.mass_dtype == Dtype::kF32 ? 0x1p-23 : 0x1p-52);
  }

  __device__ Status balance(int64_t rows, int64_t cols, Masses& out) const {
    out.total = rows;
    if (is_integer()) {
      if ((rows > cols ? rows : cols) >> kTotalBits) return kOverflow;
      return rows == cols ? kOptimal : kUnbalanced;
    }
    const double most = double(rows > cols ? rows : cols);
    if (fabs(double(rows - cols)) > forgiven() * most) return kUnbalanced;
    if (rows == cols) return kOptimal;
    // All masses of one side may be below half a unit, where the least double bounds it.
    if (rows == 0 || cols == 0) return kUnbalanced;
    spread_difference(cols, rows - cols);
    out.rounded = true;
    return kOptimal;
  }

  // Gives the dummies what the others lack.
  __device__ Status fill_dummies(int64_t rows, int64_t cols, Masses& out) const {
    const int64_t least = rows < cols ? rows : cols;
    int64_t units;
    if (is_integer()) {
      units = whole(p.moved, 0);
      if ((rows + cols - (units < rows ? units : rows)) >> kTotalBits) return kOverflow;
      if (units > least) return kUnbalanced;
    } else {
      const double exact = real(p.moved, 0) / out.unit;
      if (exact > double(least) * (1 + forgiven())) return kUnbalanced;
      units = rint(exact) < double(least) ? int64_t(rint(exact)) : least;
      out.rounded |= double(units) != exact;
    }
    team.one([&] {
      row.units[p.n - 1] = cols - units;
      col.units[p.m - 1] = rows - units;
    });
    team.sync();
    out.total = rows + cols - units;
    return kOptimal;
  }
};

// By one block.
__device__ inline Masses read_masses(Team team, const TransportProblem& p, const Workspace& w) {
  const int dummies = p.moved ? 1 : 0;
  const MassReader reader{team,
                          p,
                          {p.supply, p.row_mask, p.n - dummies, w.supply},
                          {p.demand, p.col_mask, p.m - dummies, w.demand}};
  return reader.run();
}

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_MASSES_CUH_
