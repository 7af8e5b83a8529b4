// Compensated sums of doubles.
//
// Included inside a namespace: by compensated_sum.h, and by the CPU's solvers once per instruction
// set. The solvers of different instruction sets must not share inline functions (see
// assignment/cpu/problem.h).

// a + b - total, exactly, where `total` is the rounded sum of a and b (Knuth's TwoSum).
JAXMATCH_HOST_DEVICE inline double addition_error(double a, double b, double total) {
  const double b_part = total - a, a_part = total - b_part;
  return (a - a_part) + (b - b_part);
}

// Compensated summation by A. Neumaier (1974). Infinities and NaN propagate.
struct CompensatedSum {
  double sum = 0, error = 0;

  JAXMATCH_HOST_DEVICE void add(double x) {
    const double total = sum + x;
    if (total - total == 0) {
      const bool smaller = (sum < 0 ? -sum : sum) < (x < 0 ? -x : x);
      error += smaller ? (x - total) + sum : (sum - total) + x;
    }
    sum = total;
  }
  JAXMATCH_HOST_DEVICE double value() const { return sum + error; }
};

// A compensated sum of any finite doubles. It is infinite only if the exact sum is outside the
// range of doubles. Large terms are summed separately and scaled down, so that their partial sums
// do not overflow.
struct FullRangeSum {
  CompensatedSum small, large;

  JAXMATCH_HOST_DEVICE void add(double x) {
    if ((x < 0 ? -x : x) < 0x1p900) {
      small.add(x);
    } else {
      large.add(x * 0x1p-100);
    }
  }
  JAXMATCH_HOST_DEVICE void add(const FullRangeSum& x) {
    small.add(x.small.sum);
    small.add(x.small.error);
    large.add(x.large.sum);
    large.add(x.large.error);
  }
  JAXMATCH_HOST_DEVICE double value() const {
    const double most = large.value();
    return most == 0 ? small.value() : most * 0x1p100 + small.value();
  }
};

// A proved upper bound on a sum, equal to the sum if no addition was rounded. `error` is the sum of
// the rounding errors of `sum`. `lost` is the sum of the magnitudes of the rounding errors of
// `error`.
struct SumBound {
  double sum = 0, error = 0, lost = 0;

  JAXMATCH_HOST_DEVICE void add(double x) {
    const double total = sum + x, rest = addition_error(sum, x, total);
    sum = total;
    const double both = error + rest, missing = addition_error(error, rest, both);
    error = both;
    lost += missing < 0 ? -missing : missing;
  }
  JAXMATCH_HOST_DEVICE void add(const SumBound& x) {
    add(x.sum);
    add(x.error);
    lost += x.lost;
  }
  // The bound is never negative. It is +inf if an addition overflowed.
  JAXMATCH_HOST_DEVICE double value() const {
    const double most = sum + error;
    // `lost` is itself a rounded sum of non-negative numbers; the factor covers its rounding
    // errors.
    const double rest = addition_error(sum, error, most) + lost * (1 + 0x1p-20);
    const double bound = most + rest;
    if (!(bound - bound == 0)) return __builtin_huge_val();
    if (rest == 0) return most > 0 ? most : 0;
    return bound > 0 ? bound * (1 + 0x1p-50) + 0x1p-1074 : 0;
  }
};
