// A network as whole numbers, as the engines of minimum-cost flow take it.
#ifndef JAXMATCH_MIN_COST_FLOW_ARCS_H_
#define JAXMATCH_MIN_COST_FLOW_ARCS_H_

#include <cstdint>
#include <type_traits>

#include "common/host_device.h"

// Functions that a kernel calls in several places and that take long anyway stay out of line.
#if defined(__CUDA_ARCH__)
#define JAXMATCH_ONCE __noinline__
#else
#define JAXMATCH_ONCE
#endif

namespace jaxmatch::min_cost_flow {

// Flows and capacities are below kMostFlow. A capacity of kNoLimit stands for an arc without a
// limit. Their sums and differences fit int64.
constexpr int64_t kMostFlow = int64_t{1} << 60, kNoLimit = int64_t{1} << 62;

JAXMATCH_HOST_DEVICE inline bool is_limited(int64_t capacity) { return capacity < kNoLimit / 2; }

JAXMATCH_HOST_DEVICE inline int32_t larger(int32_t x, int32_t y) { return x > y ? x : y; }

// Arc e leads from tail[e] to head[e] and carries from 0 to capacity[e]. Node u sends supply[u]
// more than it receives; supplies sum to 0. P is int64_t or __int128, wide enough for 4 (nodes + 1)
// times the greatest cost.
template <class P>
struct Arcs {
  int32_t nodes, arcs;
  const int32_t *tail, *head;
  const P* cost;
  const int64_t *capacity, *supply;
};

// The unsigned type of as many bits, whose numbers may wrap around.
template <class P>
struct UnsignedOf {
  using Type = std::conditional_t<sizeof(P) == 8, uint64_t, unsigned __int128>;
};

enum class Outcome { kOptimal, kInfeasible, kUnbounded };

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_ARCS_H_
