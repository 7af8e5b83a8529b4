// What a solved network returns: potentials, the cost, the gap, and witnesses of failure.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_FINISH_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_FINISH_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/status.h"
#include "min_cost_flow/cpu/arcs.h"
#include "min_cost_flow/cpu/mass_units.h"
#include "min_cost_flow/cpu/numbers.h"

namespace jaxmatch::min_cost_flow {

// V is the type of costs, potentials and gaps in the result.
template <class M, class V>
struct Results {
  M* flow;                    // [edges]
  V *cost, *potential, *gap;  // one number, [nodes], one number
  bool *source_side, *cycle;  // [nodes], [edges]
  int32_t* status;
};

template <class T>
constexpr T kNothing = std::is_integral_v<T> ? T(-1) : std::numeric_limits<T>::quiet_NaN();

template <class M, class C, class V>
void write_failure(const Given<M, C>& g, Status status, const Results<M, V>& out) {
  std::fill_n(out.flow, g.edges, kNothing<M>);
  std::fill_n(out.potential, g.nodes, kNothing<V>);
  std::fill_n(out.source_side, g.nodes, false);
  std::fill_n(out.cycle, g.edges, false);
  *out.cost = *out.gap = kNothing<V>;
  *out.status = status;
}

// Prices of an engine hold the great cost of artificial arcs: nodes that reach the root by such an
// arc have low prices, and nodes that the root reaches have high ones. No edge that can carry more
// leads from a low to a high node. Moves both kinds to prices that do not depend on that cost. Sets
// `is_low`.
template <class P>
void level_prices(const Arcs<P>& g, const int64_t* flow, P artificial, P root, P* price,
                  bool* is_low) {
  for (int32_t u = 0; u < g.nodes; ++u) {
    price[u] -= root;
    is_low[u] = price[u] < 0;
    price[u] += is_low[u] ? artificial : -artificial;
  }
  // Edges from high to low nodes now must not have negative reduced costs: raises all high nodes.
  P raise = 0;
  const auto see = [&](int32_t from, int32_t to, P reduced) {
    if (!is_low[from] && is_low[to]) raise = std::max(raise, -reduced);
  };
  for (int32_t e = 0; e < g.arcs; ++e) {
    const int32_t u = g.tail[e], v = g.head[e];
    const P reduced = g.cost[e] + price[u] - price[v];
    if (flow[e] < g.capacity[e]) see(u, v, reduced);
    if (flow[e] > 0) see(v, u, -reduced);
  }
  const P base = g.nodes > 0 ? price[0] + (is_low[0] ? 0 : raise) : 0;
  for (int32_t u = 0; u < g.nodes; ++u) price[u] += (is_low[u] ? 0 : raise) - base;
}

// Writes the results of an optimal flow, in units above the lower bounds. A price of 1 is
// 2^exponent. Returns kOverflow if integers do not fit.
template <class P, class M, class C, class V>
Status write_optimum(const Given<M, C>& g, const MassUnits& masses, const int64_t* flow,
                     const P* price, int exponent, const Results<M, V>& out) {
  for (int32_t e = 0; e < g.edges; ++e) {
    const int64_t whole = flow[e] + (masses.lower != nullptr ? masses.lower[e] : 0);
    if constexpr (std::is_integral_v<M>) {
      out.flow[e] = M(whole);
    } else {
      const M x = M(std::ldexp(Wide(whole), masses.exponent));
      out.flow[e] = std::clamp(x, g.least(e), g.most(e));
    }
  }
  for (int32_t u = 0; u < g.nodes; ++u) {
    if constexpr (std::is_integral_v<V>) {
      const P y = -price[u];
      if (y > P(std::numeric_limits<V>::max()) || y < P(std::numeric_limits<V>::min())) {
        return kOverflow;
      }
      out.potential[u] = V(y);
    } else {
      out.potential[u] = V(std::ldexp(-Wide(price[u]), exponent));
    }
  }
  if constexpr (std::is_integral_v<V>) {
    __int128 sum = 0;
    for (int32_t e = 0; e < g.edges; ++e) {
      if (__builtin_add_overflow(sum, __int128(g.cost[e]) * __int128(out.flow[e]), &sum)) {
        return kOverflow;
      }
    }
    if (sum > std::numeric_limits<V>::max() || sum < std::numeric_limits<V>::min()) {
      return kOverflow;
    }
    *out.cost = V(sum);
    *out.gap = 0;
  } else {
    Wide sum = 0, gap = 0;
    for (int32_t e = 0; e < g.edges; ++e) {
      if (g.is_forbidden(e)) continue;
      const Wide x = out.flow[e], least = g.least(e);
      sum += Wide(g.cost[e]) * x;
      const Wide reduced =
          Wide(g.cost[e]) - Wide(out.potential[g.senders[e]]) + Wide(out.potential[g.receivers[e]]);
      if (reduced > 0) gap += reduced * (x - least);
      if (reduced < 0) gap -= reduced * (std::min(Wide(g.most(e)), least + masses.most) - x);
    }
    *out.cost = V(sum);
    gap = std::max(gap, Wide(0)) * (1 + 0x1p-40L);
    V rounded = V(gap);
    if (Wide(rounded) < gap) {
      rounded = std::nextafter(rounded, std::numeric_limits<V>::infinity());
    }
    *out.gap = rounded;
  }
  std::fill_n(out.source_side, g.nodes, false);
  std::fill_n(out.cycle, g.edges, false);
  *out.status = kOptimal;
  return kOptimal;
}

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_FINISH_H_
