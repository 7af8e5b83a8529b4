// One network, with numbers in the types that the caller passed.
#ifndef JAXMATCH_MIN_COST_FLOW_GIVEN_H_
#define JAXMATCH_MIN_COST_FLOW_GIVEN_H_

#include <climits>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "common/dtype.h"
#include "common/host_device.h"
#include "common/reals.h"

namespace jaxmatch::min_cost_flow {

JAXMATCH_HOST_DEVICE inline bool is_whole(Dtype dtype) {
  return dtype == Dtype::kS32 || dtype == Dtype::kS64;
}
JAXMATCH_HOST_DEVICE inline int64_t greatest_whole(Dtype dtype) {
  return dtype == Dtype::kS32 ? INT32_MAX : INT64_MAX;
}
JAXMATCH_HOST_DEVICE inline int64_t read_whole(const void* array, Dtype dtype, int64_t i) {
  return dtype == Dtype::kS32 ? static_cast<const int32_t*>(array)[i]
                              : static_cast<const int64_t*>(array)[i];
}
JAXMATCH_HOST_DEVICE inline void write_whole(void* array, Dtype dtype, int64_t i, int64_t x) {
  if (dtype == Dtype::kS32) {
    static_cast<int32_t*>(array)[i] = int32_t(x);
  } else {
    static_cast<int64_t*>(array)[i] = x;
  }
}
constexpr double kGreatest = 1.7976931348623157e308;  // the greatest finite double
JAXMATCH_HOST_DEVICE inline bool is_finite(double x) { return std::abs(x) <= kGreatest; }

// The exponent of the lowest set bit of a finite number that is not 0.
JAXMATCH_HOST_DEVICE inline int lowest_bit(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  const int exponent = int(bits >> 52) & 0x7ff;
  uint64_t digits = bits & ((uint64_t{1} << 52) - 1);
  if (exponent > 0) digits |= uint64_t{1} << 52;
#if defined(__CUDA_ARCH__)
  const int zeros = __ffsll(static_cast<long long>(digits)) - 1;
#else
  const int zeros = __builtin_ctzll(digits);
#endif
  return zeros + (exponent > 0 ? exponent : 1) - 1075;
}
// |x| < 2^bits_above(x), and at least half of it.
JAXMATCH_HOST_DEVICE inline int bits_above(double x) {
  int size = 0;
  std::frexp(x, &size);
  return size;
}

// Arrays of one problem. Optional ones are null if absent.
struct Given {
  int32_t nodes, edges;
  const int32_t *senders, *receivers;
  const void *capacity, *lower, *supply, *start_flow, *cost, *start_potential;
  Dtype mass, of_cost;

  JAXMATCH_HOST_DEVICE double cost_of(int32_t e) const { return read_real(cost, of_cost, e); }
  // A cost of +inf forbids an edge: it carries nothing.
  JAXMATCH_HOST_DEVICE bool is_forbidden(int32_t e) const {
    return !is_whole(of_cost) && cost_of(e) > kGreatest;
  }
  JAXMATCH_HOST_DEVICE bool is_unlimited(int32_t e) const {
    if (is_forbidden(e)) return false;
    return is_whole(mass) ? read_whole(capacity, mass, e) == greatest_whole(mass)
                          : read_real(capacity, mass, e) > kGreatest;
  }
  JAXMATCH_HOST_DEVICE double least(int32_t e) const {
    return lower != nullptr && !is_forbidden(e) ? read_real(lower, mass, e) : 0.0;
  }
  JAXMATCH_HOST_DEVICE double most(int32_t e) const {
    return is_forbidden(e) ? 0.0 : read_real(capacity, mass, e);
  }
  // Whether the lower bound is finite and not above the capacity. A forbidden edge must be able to
  // carry nothing.
  JAXMATCH_HOST_DEVICE bool has_valid_limits(int32_t e) const {
    const bool forbidden = is_forbidden(e);
    if (is_whole(mass)) {
      const int64_t least = lower != nullptr ? read_whole(lower, mass, e) : 0;
      const int64_t most = read_whole(capacity, mass, e);
      return least <= most && (!forbidden || (least <= 0 && most >= 0));
    }
    const double least = lower != nullptr ? read_real(lower, mass, e) : 0.0;
    const double most = read_real(capacity, mass, e);
    return is_finite(least) && least <= most && (!forbidden || (least <= 0 && most >= 0));
  }
  // Whether the flow of an edge can differ from its lower bound.
  JAXMATCH_HOST_DEVICE bool can_carry(int32_t e) const {
    return !is_forbidden(e) &&
           (is_whole(mass) ? whole_least(e) < whole_most(e) : least(e) < most(e));
  }
  JAXMATCH_HOST_DEVICE int64_t whole_least(int32_t e) const {
    return lower != nullptr && !is_forbidden(e) ? read_whole(lower, mass, e) : 0;
  }
  JAXMATCH_HOST_DEVICE int64_t whole_most(int32_t e) const {
    return is_forbidden(e) ? 0 : read_whole(capacity, mass, e);
  }
};

// Arrays of the results of one problem. The cost, potentials and the gap have the dtype `value`.
struct Results {
  void* flow;                    // [edges]
  void *cost, *potential, *gap;  // one number, [nodes], one number
  bool *source_side, *cycle;     // [nodes], [edges]
  int32_t* status;
  Dtype value;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_GIVEN_H_
