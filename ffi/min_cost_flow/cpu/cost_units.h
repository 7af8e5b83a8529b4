// Costs as whole numbers of a unit.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_COST_UNITS_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_COST_UNITS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/status.h"
#include "min_cost_flow/cpu/numbers.h"

namespace jaxmatch::min_cost_flow {

// Costs are `fine` in units for 128-bit prices, and `coarse` in units for 64-bit prices. The fine
// unit is exact, unless costs differ by more than about 2^100 in size. If the coarse unit is exact,
// too, the fine one is not needed.
//
// Prices are sums of up to `nodes` costs, and the engines add a few of them.
template <class C>
class CostUnits {
 public:
  template <class M>
  Status choose(const Given<M, C>& g) {
    int margin = 4;
    while ((int64_t{1} << (margin - 4)) < int64_t(g.nodes) + 1) ++margin;
    int least_bit = std::numeric_limits<int>::max(), most_bit = std::numeric_limits<int>::min();
    for (int32_t e = 0; e < g.edges; ++e) {
      const Wide c = g.cost[e];
      if (g.is_forbidden(e) || c == 0) continue;
      if (!(std::abs(c) <= Wide(std::numeric_limits<C>::max()) || std::is_integral_v<C>)) {
        return kInvalidCost;
      }
      int size;
      std::frexp(c, &size);
      most_bit = std::max(most_bit, size);
      if constexpr (std::is_floating_point_v<C>) {
        least_bit = std::min(least_bit, lowest_bit(double(c)));
      } else {
        least_bit = 0;
      }
    }
    if (least_bit == std::numeric_limits<int>::max()) return kOptimal;  // all costs are 0
    coarse_ = std::max(least_bit, most_bit + margin - 62);
    fine_ = std::max(least_bit, most_bit + margin - 126);
    is_coarse_exact_ = coarse_ == least_bit;
    return kOptimal;
  }

  bool is_coarse_exact() const { return is_coarse_exact_; }
  int exponent(bool fine) const { return fine ? fine_ : coarse_; }

  // The cost of a finite number in units, rounded to nearest.
  template <class P>
  P units(C cost) const {
    if constexpr (std::is_integral_v<C> && sizeof(P) > 8) {
      return P(cost);
    } else if constexpr (sizeof(P) == 8) {
      if (std::is_integral_v<C> && coarse_ == 0) return P(cost);
      return P(llrintl(std::ldexp(Wide(cost), -coarse_)));
    } else {
      // A whole number times a power of two, at most 2^126.
      int size;
      const Wide mantissa = std::frexp(Wide(cost), &size);  // below 1
      const int64_t digits = int64_t(std::ldexp(mantissa, 62));
      const int shift = size - 62 - fine_;
      if (shift >= 0) return P(digits) << shift;
      return shift <= -63 ? P(0) : P(digits >> -shift);
    }
  }

 private:
  int coarse_ = 0, fine_ = 0;
  bool is_coarse_exact_ = true;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_COST_UNITS_H_
