// Numbers of a network in the types that the caller passed.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_NUMBERS_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_NUMBERS_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace jaxmatch::min_cost_flow {

using Wide = long double;  // holds every number of the four types exactly

// One problem. M is the type of masses, C that of costs. Optional arrays are null if absent.
template <class M, class C>
struct Given {
  int32_t nodes, edges;
  const int32_t *senders, *receivers;
  const M *capacity, *lower, *supply, *start_flow;
  const C* cost;

  bool is_forbidden(int32_t e) const {
    return std::is_floating_point_v<C> && Wide(cost[e]) > Wide(std::numeric_limits<C>::max());
  }
  // Whether edge e has no upper limit.
  bool is_unlimited(int32_t e) const {
    if (is_forbidden(e)) return false;
    return std::is_integral_v<M> ? capacity[e] == std::numeric_limits<M>::max()
                                 : capacity[e] > std::numeric_limits<M>::max();
  }
  M least(int32_t e) const { return lower != nullptr && !is_forbidden(e) ? lower[e] : M(0); }
  M most(int32_t e) const { return is_forbidden(e) ? M(0) : capacity[e]; }
};

// The exponent of the lowest set bit of a finite number that is not 0.
inline int lowest_bit(double x) {
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  const int exponent = int(bits >> 52) & 0x7ff;
  const uint64_t fraction = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0) return __builtin_ctzll(fraction) - 1074;
  return __builtin_ctzll(fraction | uint64_t{1} << 52) + exponent - 1075;
}

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_NUMBERS_H_
