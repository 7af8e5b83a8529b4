// A sum of doubles that keeps what its additions round away.
#ifndef JAXMATCH_COMPENSATED_SUM_H_
#define JAXMATCH_COMPENSATED_SUM_H_

#if defined(__CUDACC__)
#define JAXMATCH_SUM_FN __host__ __device__
#else
#define JAXMATCH_SUM_FN
#endif

namespace jaxmatch {

// A. Neumaier (1974). Infinities and NaN come through.
struct CompensatedSum {
  double sum = 0, error = 0;

  JAXMATCH_SUM_FN void add(double x) {
    const double total = sum + x;
    if (total - total == 0) {
      const bool smaller = (sum < 0 ? -sum : sum) < (x < 0 ? -x : x);
      error += smaller ? (x - total) + sum : (sum - total) + x;
    }
    sum = total;
  }
  JAXMATCH_SUM_FN double value() const { return sum + error; }
};

}  // namespace jaxmatch

#endif  // JAXMATCH_COMPENSATED_SUM_H_
