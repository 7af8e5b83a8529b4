// What a solved network returns: the flow, potentials, the cost and the gap.
#ifndef JAXMATCH_MIN_COST_FLOW_FINISH_H_
#define JAXMATCH_MIN_COST_FLOW_FINISH_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/status.h"
#include "min_cost_flow/arcs.h"
#include "min_cost_flow/given.h"
#include "min_cost_flow/mass_units.h"

namespace jaxmatch::min_cost_flow {

JAXMATCH_HOST_DEVICE inline void write_nothing(void* array, Dtype dtype, int64_t i) {
  if (is_whole(dtype)) {
    write_whole(array, dtype, i, -1);
  } else {
    write_real(array, dtype, i, NAN);
  }
}

template <class Lanes>
JAXMATCH_HOST_DEVICE JAXMATCH_ONCE void write_failure(const Given& g, Status status,
                                                      const Results& out, Lanes& lanes) {
  lanes.each(g.edges, [&](int32_t e) {
    write_nothing(out.flow, g.mass, e);
    out.cycle[e] = false;
  });
  lanes.each(g.nodes, [&](int32_t u) {
    write_nothing(out.potential, out.value, u);
    out.source_side[u] = false;
  });
  if (lanes.leads()) {
    write_nothing(out.cost, out.value, 0);
    write_nothing(out.gap, out.value, 0);
    *out.status = status;
  }
  lanes.sync();
}

// Prices of the network simplex method hold the great cost of artificial arcs: nodes that reach the
// root by such an arc have low prices, and nodes that the root reaches have high ones. No edge that
// can carry more leads from a low to a high node. Moves both kinds to prices that do not depend on
// that cost. Sets `is_low`.
template <class P, class Lanes>
JAXMATCH_HOST_DEVICE void level_prices(const Arcs<P>& g, const int64_t* flow, P artificial, P root,
                                       P* price, bool* is_low, Lanes& lanes) {
  using Whole = typename UnsignedOf<P>::Type;
  lanes.each(g.nodes, [&](int32_t u) {
    price[u] = P(Whole(price[u]) - Whole(root));  // prices may wrap around
    is_low[u] = price[u] < 0;
    price[u] += is_low[u] ? artificial : -artificial;
  });
  // Edges from high to low nodes must not have negative reduced costs: raises all high nodes.
  P raise = 0;
  const auto see = [&](int32_t from, int32_t to, P reduced) {
    if (!is_low[from] && is_low[to] && -reduced > raise) raise = -reduced;
  };
  lanes.each(g.arcs, [&](int32_t e) {
    const int32_t u = g.tail[e], v = g.head[e];
    const P reduced = g.cost[e] + price[u] - price[v];
    if (flow[e] < g.capacity[e]) see(u, v, reduced);
    if (flow[e] > 0) see(v, u, -reduced);
  });
  raise = lanes.max(raise);
  const P base = g.nodes > 0 ? price[0] + (is_low[0] ? P(0) : raise) : P(0);
  lanes.sync();
  lanes.each(g.nodes, [&](int32_t u) { price[u] += (is_low[u] ? P(0) : raise) - base; });
}

// A sum of three doubles that is rounded about once.
JAXMATCH_HOST_DEVICE inline double sum_of(double a, double b, double c) {
  const double x = a + b, y = x - a, e = (a - (x - y)) + (b - y);
  const double z = x + c, w = z - x, f = (x - (z - w)) + (c - w);
  return z + (e + f);
}

template <class P>
JAXMATCH_HOST_DEVICE double to_double(P x) {
  if (sizeof(P) == 8) return double(x);
  const bool negative = x < 0;
  const unsigned __int128 size = negative ? -static_cast<unsigned __int128>(x) : x;
  const double found = std::ldexp(double(uint64_t(size >> 64)), 64) + double(uint64_t(size));
  return negative ? -found : found;
}

// Writes a number that is not negative, rounded up.
JAXMATCH_HOST_DEVICE inline void write_up(void* array, Dtype dtype, double x) {
  if (dtype == Dtype::kF64) return write_real(array, dtype, 0, x);
  float y = float(x);
  if (double(y) < x) y = nextafterf(y, INFINITY);
  write_real(array, dtype, 0, y);
}

// Writes the results of an optimal flow, in units above the lower bounds. A price of 1 is
// 2^exponent; `exact`: costs are multiples of that. `left`: units that could not be sent. Returns
// kOverflow if integers do not fit, or if masses differ so much in size that those of a node were
// rounded away.
template <class P, class Lanes>
class OptimumWriter {
 public:
  JAXMATCH_HOST_DEVICE OptimumWriter(const Given& g, const MassUnits& masses, const int64_t* flow,
                                     const P* price, int exponent, bool exact, int64_t left,
                                     const Results& out, Lanes& lanes)
      : g_(g),
        masses_(masses),
        flow_(flow),
        price_(price),
        exponent_(exponent),
        exact_(exact),
        left_(left),
        out_(out),
        lanes_(lanes) {}

  JAXMATCH_HOST_DEVICE Status write() {
    bool fits = true;
    lanes_.each(g_.edges, [&](int32_t e) {
      fits &= write_flow(e);
      out_.cycle[e] = false;
    });
    lanes_.each(g_.nodes, [&](int32_t u) {
      fits &= write_potential(u);
      out_.source_side[u] = false;
    });
    if (lanes_.any(!fits)) return kOverflow;
    lanes_.sync();
    const Status status = is_whole(out_.value) ? write_whole_cost() : write_real_cost();
    if (lanes_.leads()) *out_.status = status;
    return status;
  }

 private:
  JAXMATCH_HOST_DEVICE bool write_flow(int32_t e) const {
    const __int128 units = __int128(flow_[e]) + (masses_.lower != nullptr ? masses_.lower[e] : 0);
    if (is_whole(g_.mass)) {
      write_whole(out_.flow, g_.mass, e, int64_t(units));
      const __int128 most = greatest_whole(g_.mass);
      return units <= most && units >= -most - 1;
    }
    // Flows at their bounds are the bounds, without rounding.
    const double least = g_.least(e), most = g_.most(e);
    double x = std::ldexp(double(int64_t(units)), masses_.exponent);
    if (flow_[e] == 0 || x < least) {
      x = least;
    } else if (flow_[e] == masses_.range[e] || x > most) {
      x = most;
    }
    write_real(out_.flow, g_.mass, e, x);
    return true;
  }
  JAXMATCH_HOST_DEVICE bool write_potential(int32_t u) const {
    const P y = -price_[u];
    if (!is_whole(out_.value)) {
      write_real(out_.potential, out_.value, u, std::ldexp(to_double(y), exponent_));
      return is_finite(read_real(out_.potential, out_.value, u));
    }
    const P most = P(greatest_whole(out_.value));
    write_whole(out_.potential, out_.value, u, int64_t(y));
    return y <= most && y >= -most;
  }

  JAXMATCH_HOST_DEVICE Status write_whole_cost() const {
    __int128 sum = 0;
    double size = 0;
    lanes_.each(g_.edges, [&](int32_t e) {
      const int64_t x = read_whole(out_.flow, g_.mass, e);
      const __int128 cost = __int128(read_whole(g_.cost, g_.of_cost, e)) * x;
      sum = __int128(static_cast<unsigned __int128>(sum) + static_cast<unsigned __int128>(cost));
      size += std::abs(g_.cost_of(e) * double(x));
    });
    sum = lanes_.sum(sum);
    size = lanes_.sum(size);
    const __int128 most = greatest_whole(out_.value);
    if (size > 0x1p125 || sum > most || sum < -most) return kOverflow;
    if (lanes_.leads()) {
      write_whole(out_.cost, out_.value, 0, int64_t(sum));
      write_whole(out_.gap, out_.value, 0, 0);
    }
    return kOptimal;
  }

  // The gap is rounded up.
  JAXMATCH_HOST_DEVICE Status write_real_cost() const {
    double* const net = is_whole(g_.mass) ? nullptr : lanes_.template take<double>(g_.nodes);
    double* const size = is_whole(g_.mass) ? nullptr : lanes_.template take<double>(g_.nodes);
    double sum = 0, lost = 0, gap = 0;  // `lost` in rounding
    const double can_flow = most_flow();
    lanes_.each(g_.edges, [&](int32_t e) {
      if (g_.is_forbidden(e)) return;
      const double x = read_real(out_.flow, g_.mass, e), cost = g_.cost_of(e);
      const double term = cost * x, next = sum + term, back = next - sum;
      lost += (sum - (next - back)) + (term - back);
      sum = next;
      const double reduced = sum_of(cost, -read_real(out_.potential, out_.value, g_.senders[e]),
                                    read_real(out_.potential, out_.value, g_.receivers[e]));
      if (reduced > 0) {
        gap += reduced * above(e);
      } else if (reduced < 0) {
        const double rest = can_flow - above(e), below = this->below(e);
        gap -= reduced * (rest > below ? below : (rest > 0 ? rest : 0));
      }
    });
    sum = lanes_.sum(sum + lost);
    gap = lanes_.sum(gap);
    bool conserved = true;
    if (lanes_.leads()) {
      write_real(out_.cost, out_.value, 0, sum);
      if (!is_whole(g_.mass)) gap += cost_of_rounding(net, size, conserved);
      // Sums of doubles are rounded.
      const double up = 1 + (double(g_.nodes) + g_.edges + 8) * 0x1p-50;
      write_up(out_.gap, out_.value, gap >= 0 ? gap * up : INFINITY);
    }
    conserved = lanes_.from_leader(conserved);
    lanes_.sync();
    if (!conserved) return kOverflow;
    return is_finite(read_real(out_.cost, out_.value, 0)) ? kOptimal : kOverflow;
  }
  // What a flow of least cost need not exceed on an edge.
  JAXMATCH_HOST_DEVICE double most_flow() const {
    if (!exact_) return masses_.most_of_all;
    return is_whole(g_.mass) ? masses_.most : std::ldexp(masses_.most, masses_.exponent);
  }
  // The cost of the mass that the flow over- or under-delivers, as it is a multiple of the unit and
  // was rounded. Only the leader computes it. `conserved`: whether no node misses more than the
  // spacing of floats around it, and the unit of a grid of 2^55 steps up to the sum of all flows,
  // explain.
  JAXMATCH_HOST_DEVICE double cost_of_rounding(double* net, double* size, bool& conserved) const {
    double supplies = 0, flows = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      net[u] = read_real(g_.supply, g_.mass, u);
      size[u] = std::abs(net[u]);
      supplies += size[u];
    }
    for (int32_t e = 0; e < g_.edges; ++e) flows += std::abs(read_real(out_.flow, g_.mass, e));
    const double unit = (supplies + flows) * 0x1p-55;
    const double eps = g_.mass == Dtype::kF32 ? 0x1p-23 : 0x1p-52;
    for (int32_t u = 0; u < g_.nodes; ++u) size[u] = 2 * eps * size[u] + unit;
    if (g_.nodes > 0) net[masses_.reduced] -= std::ldexp(double(masses_.rest), masses_.exponent);
    for (int32_t e = 0; e < g_.edges; ++e) {
      const double x = read_real(out_.flow, g_.mass, e);
      const double most = 2 * eps * (std::abs(x) + std::abs(g_.least(e))) + unit;
      const int32_t u = g_.senders[e], v = g_.receivers[e];
      net[u] -= x;
      net[v] += x;
      size[u] += most;
      size[v] += most;
    }
    double sum = 0, beyond = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const double off = std::abs(net[u]);
      sum += off * std::abs(read_real(out_.potential, out_.value, u));
      beyond += off > size[u] ? off - size[u] : 0;
    }
    const double forgiven = std::ldexp(double(left_), masses_.exponent + 1);
    conserved = !(beyond > forgiven + 2 * g_.nodes * eps * supplies);  // NaN if sums are infinite
    return sum;
  }

  // How much the flow of edge e is above its lower bound, and below its capacity.
  JAXMATCH_HOST_DEVICE double above(int32_t e) const {
    if (!is_whole(g_.mass)) return read_real(out_.flow, g_.mass, e) - g_.least(e);
    return to_double(__int128(read_whole(out_.flow, g_.mass, e)) - g_.whole_least(e));
  }
  JAXMATCH_HOST_DEVICE double below(int32_t e) const {
    if (g_.is_unlimited(e)) return INFINITY;
    if (!is_whole(g_.mass)) return g_.most(e) - read_real(out_.flow, g_.mass, e);
    return to_double(__int128(g_.whole_most(e)) - read_whole(out_.flow, g_.mass, e));
  }

  const Given& g_;
  const MassUnits& masses_;
  const int64_t* const flow_;
  const P* const price_;
  const int exponent_;
  const bool exact_;
  const int64_t left_;
  const Results& out_;
  Lanes& lanes_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_FINISH_H_
