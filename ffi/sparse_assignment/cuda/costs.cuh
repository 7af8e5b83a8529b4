// Costs of a problem: a minimisation in whole units.
#ifndef JAXMATCH_CUDA_SPARSE_ASSIGNMENT_COSTS_CUH_
#define JAXMATCH_CUDA_SPARSE_ASSIGNMENT_COSTS_CUH_

#include "common/float16.h"
#include "common/status.h"
#include "sparse_assignment/cuda/team.cuh"

namespace jaxmatch::sparse_assignment {

constexpr int64_t kForbidden = INT64_MAX;  // units of an edge that does not exist
constexpr int64_t kMustMatch = INT64_MAX;  // of leaving a vertex, at the price `big`

// Integers below this are exact: as CPU solvers promise.
constexpr double kMostOnPath = 0x1p61;
constexpr int kMostFloatBits = 50, kMostBits = 61;
// Costs of leaving a vertex that must be matched, times the scale, have so many bits.
constexpr int kMostBigBits = 118;
// Epsilon ends at this power of two, and costs are perturbed by less.
constexpr int kLastEpsilon = 8;

__device__ inline double to_double(Price x) {
  if (x == Price(int64_t(x))) return double(int64_t(x));
  return double(int64_t(x >> 64)) * 0x1p64 + double(uint64_t(x));
}
__device__ inline bool is_integer(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}
__device__ inline int64_t whole_at(const void* array, Dtype dtype, int64_t k) {
  return dtype == Dtype::kS32 ? static_cast<const int32_t*>(array)[k]
                              : static_cast<const int64_t*>(array)[k];
}
__device__ inline double real_at(const void* array, Dtype dtype, int64_t k) {
  switch (dtype) {
    case Dtype::kBF16:
      return double(single(static_cast<const BFloat16*>(array)[k]));
    case Dtype::kF16:
      return double(single(static_cast<const Float16*>(array)[k]));
    case Dtype::kF32:
      return double(static_cast<const float*>(array)[k]);
    case Dtype::kF64:
      return static_cast<const double*>(array)[k];
    default:
      return double(whole_at(array, dtype, k));
  }
}
__device__ inline void write_real(void* out, Dtype dtype, int64_t at, double x) {
  if (dtype == Dtype::kF32) {
    static_cast<float*>(out)[at] = float(x);
  } else {
    static_cast<double*>(out)[at] = x;
  }
}

// The exponent of the lowest bit of x, which is not zero.
__device__ inline int lowest_bit(double x) {
  const int exponent = ilogb(x);
  const int64_t bits = int64_t(ldexp(fabs(x), 52 - exponent));
  return exponent - 52 + ilogb(double(bits & -bits));
}
__device__ inline int lowest_bit(int64_t x) {
  return ilogb(double(uint64_t(x) & (0 - uint64_t(x))));
}

// Results of a pass over the costs that count, of which those of a maximisation are negated.
struct CostSummary {
  bool invalid = false;        // NaN, or infinite on the side that does not forbid
  double least = 0, most = 0;  // finite costs, and zero
  double least_edge = __builtin_huge_val(), most_edge = -__builtin_huge_val();
  int lowest = INT32_MAX;  // exponent of the lowest bit of all

  __device__ void include(double x, bool is_edge) {
    invalid |= !(x > -__builtin_huge_val());
    if (!(fabs(x) < __builtin_huge_val())) return;
    least = fmin(least, x);
    most = fmax(most, x);
    if (!is_edge) return;
    least_edge = fmin(least_edge, x);
    most_edge = fmax(most_edge, x);
  }
  __device__ void include_bits(int bit) { lowest = min(lowest, bit); }
  __device__ double size() const { return fmax(most, -least); }
};

// The units of a problem, and its form: rows and columns alone if all of both must be matched;
// else the doubled graph.
//
// The doubled graph has, on the left, the rows and a copy of each column; on the right, the columns
// and a copy of each row. The edges between copies cost nothing, and a vertex that stays is matched
// with its copy. So a matching of the graph becomes a perfect matching of the same cost, and
// epsilon scaling needs no bounds on the prices of those that stay.
struct Scaling {
  bool integers = false, doubled = false;
  int exponent = 0;      // of the unit
  int bits = 0;          // of costs in units
  int shift = 0;         // prices are units times 2^shift
  int big_bits = 0;      // leaving a vertex that must be matched costs 2^big_bits units
  int64_t vertices = 0;  // of a side

  __device__ Price big() const { return Price(1) << (big_bits + shift); }
};

template <class Team>
struct CostReader {
  const Team team;
  const SparseProblem& p;
  const Workspace& w;

  __device__ bool has_row(int64_t i) const { return !p.row_mask || p.row_mask[i]; }
  __device__ bool has_col(int64_t j) const { return !p.col_mask || p.col_mask[j]; }
  __device__ double sign() const { return p.maximize ? -1 : 1; }

  // f(row, edge) for all edges of unmasked vertices.
  template <class F>
  __device__ void each_edge(int width, const F& f) const {
    each_by_group(team, p.n, width, [&](int64_t i, int lane, bool exists) {
      if (!exists || !has_row(i)) return;
      const int64_t last = p.row_ptr[i + 1];
      for (int64_t k = p.row_ptr[i] + lane; k < last; k += width) {
        if (has_col(p.col_ind[k])) f(i, k);
      }
    });
  }

  __device__ __noinline__ CostSummary summarize(int width) const {
    CostSummary own;
    const auto include = [&](const void* array, Dtype dtype, int64_t k, bool is_edge) {
      const double x = real_at(array, dtype, k);
      own.include(sign() * x, is_edge);
      if (x == 0 || !(fabs(x) < __builtin_huge_val())) return;
      own.include_bits(is_integer(dtype) ? lowest_bit(whole_at(array, dtype, k)) : lowest_bit(x));
    };
    each_edge(width, [&](int64_t, int64_t k) { include(p.cost, p.cost_dtype, k, true); });
    if (p.unmatched_cost) {
      team.each(p.n, [&](int64_t i) {
        if (has_row(i)) include(p.unmatched_cost, p.unmatched_dtype, i, false);
      });
    }
    if (p.unmatched_col_cost) {
      team.each(p.m, [&](int64_t j) {
        if (has_col(j)) include(p.unmatched_col_cost, p.unmatched_col_dtype, j, false);
      });
    }
    own.invalid = team.any(own.invalid);
    own.least = -team.most(-own.least);
    own.most = team.most(own.most);
    own.least_edge = -team.most(-own.least_edge);
    own.most_edge = team.most(own.most_edge);
    own.lowest = int(-team.most(-double(own.lowest)));
    return own;
  }

  // Chooses the unit. False if integers do not fit.
  __device__ __noinline__ bool choose(Scaling& c, const CostSummary& found, bool doubled) const {
    const double size = found.size(), shorter = double(min(p.n, p.m));
    const double terms = 2 * (p.unmatched_cost ? double(p.n + p.m) : shorter) + 1;
    c.integers = is_integer(p.cost_dtype);
    c.doubled = doubled;
    c.vertices = doubled ? p.n + p.m : p.n;
    // One more power of two than vertices, times twice the last epsilon: see exact prices.
    c.shift = kLastEpsilon + 1 + (c.vertices > 0 ? ilogb(double(c.vertices)) + 1 : 0);
    if (c.integers && fmax(found.most_edge, -found.least_edge) * 2 * (shorter + 1) > kMostOnPath) {
      return false;
    }
    const int top = size > 0 ? ilogb(size) + 1 : 0, over = ilogb(terms) + 1;
    int most_bits = min(c.integers ? kMostBits : kMostFloatBits, kMostBigBits - c.shift - over);
    c.exponent = size > 0 ? max(found.lowest, top - most_bits) : 0;
    if (c.integers && c.exponent > found.lowest && c.exponent > 0) return false;
    c.bits = top - c.exponent;
    c.big_bits = c.bits + over;
    if (p.cardinality == Cardinality::kMaximum) {
      // The least power of two that is no less, in costs; 1 if all are zero.
      const double wanted = terms * size;
      const int least = size > 0 ? ilogb(wanted) : 0;
      c.big_bits = least + (size > 0 && ldexp(1.0, least) < wanted) - c.exponent;
    }
    return true;
  }

  // Of a finite number.
  __device__ int64_t units_of(const Scaling& c, const void* array, Dtype dtype, int64_t k,
                              bool& rounded) const {
    if (is_integer(dtype)) {
      const int64_t x = whole_at(array, dtype, k);
      if (x == 0) return 0;
      const int64_t units = c.exponent < 0 ? x * (int64_t(1) << -c.exponent) : x >> c.exponent;
      return p.maximize ? -units : units;
    }
    const double x = sign() * real_at(array, dtype, k), exact = ldexp(x, -c.exponent);
    const double nearest = rint(exact);
    rounded |= ldexp(nearest, c.exponent) != x;
    return int64_t(nearest);
  }
  __device__ bool is_finite(const void* array, Dtype dtype, int64_t k) const {
    return fabs(real_at(array, dtype, k)) < __builtin_huge_val();
  }

  // Writes w.units. Returns whether some cost was rounded.
  __device__ __noinline__ bool write_units(const Scaling& c, int width) const {
    bool rounded = false;
    each_by_group(team, p.n, width, [&](int64_t i, int lane, bool exists) {
      if (!exists) return;
      const int64_t last = p.row_ptr[i + 1];
      for (int64_t k = p.row_ptr[i] + lane; k < last; k += width) {
        const bool there =
            has_row(i) && has_col(p.col_ind[k]) && is_finite(p.cost, p.cost_dtype, k);
        w.units[k] = there ? units_of(c, p.cost, p.cost_dtype, k, rounded) : kForbidden;
      }
    });
    return team.any(rounded);
  }

  // The power of two of the mean difference between the cost of an edge and the least of its row,
  // in units: more telling than the range, which a few edges determine. `range` if there is none.
  __device__ __noinline__ int mean_excess(const Scaling& c, int width, int range) const {
    const int shift = max(c.bits - 30, 0);
    int64_t sum = 0, count = 0;
    each_by_group(team, p.n, width, [&](int64_t i, int lane, bool exists) {
      const int64_t first = exists ? p.row_ptr[i] : 0, last = exists ? p.row_ptr[i + 1] : 0;
      int64_t least = kForbidden;
      for (int64_t k = first + lane; k < last; k += width) least = min(least, w.units[k]);
      for (int step = width / 2; step > 0; step /= 2) {
        least = min(least, __shfl_xor_sync(kAllLanes, least, step));
      }
      for (int64_t k = first + lane; k < last; k += width) {
        if (w.units[k] == kForbidden) continue;
        sum += (w.units[k] - least) >> shift;
        ++count;
      }
    });
    sum = team.sum(sum);
    count = team.sum(count);
    return sum > 0 ? ilogb(double(sum) / double(count)) + shift : range;
  }

  // Writes w.stay for the doubled graph. `rows`, `cols`: the numbers of unmasked ones.
  __device__ __noinline__ bool write_stays(const Scaling& c, int64_t rows, int64_t cols) const {
    bool rounded = false;
    const bool all_rows = p.cardinality == Cardinality::kMaximum || rows <= cols;
    const bool all_cols = p.cardinality != Cardinality::kMaximum && cols <= rows;
    const auto read = [&](const void* given, Dtype dtype, int64_t k, bool must) -> int64_t {
      if (given) {
        if (!is_finite(given, dtype, k)) return kMustMatch;
        return units_of(c, given, dtype, k, rounded);
      }
      return !p.unmatched_cost && must ? kMustMatch : 0;
    };
    team.each(p.n, [&](int64_t i) {
      w.stay[i] = has_row(i) ? read(p.unmatched_cost, p.unmatched_dtype, i, all_rows) : 0;
    });
    team.each(p.m, [&](int64_t j) {
      w.stay[p.n + j] =
          has_col(j) ? read(p.unmatched_col_cost, p.unmatched_col_dtype, j, all_cols) : 0;
    });
    return team.any(rounded);
  }
};

}  // namespace jaxmatch::sparse_assignment

#endif  // JAXMATCH_CUDA_SPARSE_ASSIGNMENT_COSTS_CUH_
