// Solves one network: reads it in units, runs the network simplex method, and writes results or a
// witness.
#ifndef JAXMATCH_MIN_COST_FLOW_SOLVE_H_
#define JAXMATCH_MIN_COST_FLOW_SOLVE_H_

#include <cstdint>

#include "common/host_device.h"
#include "common/status.h"
#include "min_cost_flow/arcs.h"
#include "min_cost_flow/cost_units.h"
#include "min_cost_flow/finish.h"
#include "min_cost_flow/given.h"
#include "min_cost_flow/mass_units.h"
#include "min_cost_flow/network_simplex.h"

namespace jaxmatch::min_cost_flow {

template <class Lanes>
class Problem {
 public:
  using Long = __int128;
  // Costs or limits that were set apart may matter after all.
  enum class Next { kDone, kWithAllCosts, kWithMoreLimits };

  JAXMATCH_HOST_DEVICE Problem(const Given& given, double forgiven, Lanes& lanes,
                               const Results& out)
      : given_(given), forgiven_(forgiven), lanes_(lanes), out_(out) {}

  // Calls engine(*this, masses), which writes results. The engine may ask for another attempt.
  template <class Engine>
  JAXMATCH_HOST_DEVICE void solve(const Engine& engine) {
    const Status status = has_ends() ? costs_.choose(given_, lanes_) : kInvalidGraph;
    if (status != kOptimal) return write_failure(given_, status, out_, lanes_);
    constexpr int kPatience = 8;
    double above = 0;
    for (int attempts = 1;; ++attempts) {
      lanes_.restart();
      MassUnits masses;
      const Next next = attempt(engine, above, masses);
      if (next == Next::kDone) return;
      if (next == Next::kWithAllCosts) {
        costs_.keep_all(given_, lanes_);
      } else {
        above = masses.threshold * (attempts > kPatience ? 0x1p60 : 1);
      }
    }
  }

  // An engine: 64-bit prices first, and if these are not exact 128-bit ones from the same basis.
  JAXMATCH_HOST_DEVICE Next by_simplex(const MassUnits& masses) {
    const Arcs<int64_t> coarse = arcs<int64_t>(masses);
    NetworkSimplex<int64_t, Lanes> engine(coarse, lanes_);
    const Start start = read_start(masses, coarse);
    if (start.flow != nullptr) {
      engine.begin_at(start.flow, start.price);
    } else {
      engine.begin();
    }
    const Outcome found = engine.solve();
    if (costs_.is_coarse_exact()) return finish(masses, coarse, engine, found, false);
    const Arcs<Long> fine = arcs<Long>(masses);
    NetworkSimplex<Long, Lanes> exact(fine, lanes_);
    exact.begin_with(engine);
    return finish(masses, fine, exact, exact.solve(), true);
  }

  template <class P>
  JAXMATCH_HOST_DEVICE Arcs<P> arcs(const MassUnits& masses) {
    P* const cost = lanes_.template take<P>(given_.edges);
    lanes_.each(given_.edges, [&](int32_t e) { cost[e] = costs_.template units<P>(given_, e); });
    lanes_.sync();
    return {given_.nodes, given_.edges, given_.senders, given_.receivers,
            cost,         masses.range, masses.supply};
  }

  template <class P>
  JAXMATCH_HOST_DEVICE Next finish(const MassUnits& masses, const Arcs<P>& g,
                                   NetworkSimplex<P, Lanes>& engine, Outcome found, bool fine) {
    bool* const is_low = lanes_.template take<bool>(g.nodes);
    int64_t* const flow = lanes_.template take<int64_t>(g.arcs);
    if (found == Outcome::kUnbounded) {
      const Next next = write_if_infeasible(masses, is_low, flow);
      if (next != Next::kWithMoreLimits) return next;
      if (masses.has_set_apart()) return Next::kWithMoreLimits;
      write_failure(given_, kUnbounded, out_, lanes_);
      if (lanes_.leads()) engine.for_cycle([&](int32_t e) { out_.cycle[e] = true; });
      return Next::kDone;
    }
    prepare(g, engine, is_low, flow);
    if (!is_forgiven(masses, engine.left())) return write_cut(is_low);
    write(masses, flow, engine.price(), fine, engine.left());
    return Next::kDone;
  }

  template <class P>
  JAXMATCH_HOST_DEVICE void write(const MassUnits& masses, const int64_t* flow, const P* price,
                                  bool fine, int64_t left = 0) {
    const Status status =
        OptimumWriter<P, Lanes>(given_, masses, flow, price, costs_.exponent(fine),
                                costs_.is_exact(), left, out_, lanes_)
            .write();
    if (status != kOptimal) write_failure(given_, status, out_, lanes_);
  }

  // The flow and the prices of an earlier solve, in coarse units; null if there are none or they
  // make no sense.
  struct Start {
    int64_t *flow, *price;
  };
  JAXMATCH_HOST_DEVICE Start read_start(const MassUnits& masses, const Arcs<int64_t>& g) {
    if (given_.start_flow == nullptr) return {nullptr, nullptr};
    int64_t* const flow = lanes_.template take<int64_t>(g.arcs);
    int64_t* const price = lanes_.template take<int64_t>(g.nodes);
    lanes_.each(g.arcs, [&](int32_t e) {
      const double x = read_real(given_.start_flow, given_.mass, e);
      const double units = (is_whole(given_.mass) ? x : std::ldexp(x, -masses.exponent)) -
                           double(masses.lower != nullptr ? masses.lower[e] : 0);
      const double most = masses.most + 1;
      flow[e] = units >= 0 ? std::llrint(units < most ? units : most) : 0;
    });
    lanes_.each(g.nodes, [&](int32_t u) {
      const double y =
          given_.start_potential == nullptr ? 0 : read_real(given_.start_potential, out_.value, u);
      const double units = std::ldexp(-y, -costs_.exponent(false));
      price[u] = std::abs(units) < 0x1p58 ? std::llrint(units) : 0;  // 0 for NaN
    });
    lanes_.sync();
    if (!is_moderate(g, flow)) return {nullptr, nullptr};
    return {flow, price};
  }

  JAXMATCH_HOST_DEVICE const CostUnits& costs() const { return costs_; }
  JAXMATCH_HOST_DEVICE Lanes& lanes() { return lanes_; }

 private:
  JAXMATCH_HOST_DEVICE bool has_ends() const {
    bool found = true;
    lanes_.each(given_.edges, [&](int32_t e) {
      const int32_t u = given_.senders[e], v = given_.receivers[e];
      found &= u >= 0 && u < given_.nodes && v >= 0 && v < given_.nodes;
    });
    return !lanes_.any(!found);
  }

  // Whether a flow can be one of an earlier solve: most of what enters nodes leaves them, nodes are
  // more than edges between their bounds, and sums cannot overflow.
  JAXMATCH_HOST_DEVICE bool is_moderate(const Arcs<int64_t>& g, const int64_t* flow) {
    double* const through = lanes_.template take<double>(g.nodes);
    double* const excess = lanes_.template take<double>(g.nodes);
    bool moderate = true;
    int32_t between = 0;
    if (lanes_.leads()) {
      for (int32_t u = 0; u < g.nodes; ++u) {
        through[u] = std::abs(double(g.supply[u]));
        excess[u] = double(g.supply[u]);
      }
      for (int32_t e = 0; e < g.arcs; ++e) {
        const double x = double(flow[e]);
        through[g.tail[e]] += x;
        through[g.head[e]] += x;
        excess[g.tail[e]] -= x;
        excess[g.head[e]] += x;
        between += flow[e] > 0 && flow[e] < g.capacity[e];
      }
      double sum = 0, all = 0;
      for (int32_t u = 0; u < g.nodes; ++u) {
        moderate &= through[u] < 0x1p61;
        sum += std::abs(excess[u]);
        all += through[u];
      }
      moderate &= sum < 0x1p60 && sum <= all / 16 && between < g.nodes;
    }
    return lanes_.from_leader(moderate);
  }

  template <class P>
  JAXMATCH_HOST_DEVICE void prepare(const Arcs<P>& g, NetworkSimplex<P, Lanes>& engine,
                                    bool* is_low, int64_t* flow) {
    engine.write_flow(flow);
    lanes_.sync();
    level_prices(g, flow, engine.artificial(), engine.price_of_root(), engine.price(), is_low,
                 lanes_);
    lanes_.sync();
  }
  // Whether so many units could not leave only because float supplies do not sum to 0, in the whole
  // network or in parts of it that no edge connects.
  JAXMATCH_HOST_DEVICE bool is_forgiven(const MassUnits& masses, int64_t left) {
    if (left <= masses.forgiven) return true;
    if (left > masses.most_forgiven) return false;
    int32_t* const part = lanes_.template take<int32_t>(given_.nodes);
    int64_t* const sum = lanes_.template take<int64_t>(given_.nodes);
    int64_t* const supplies = lanes_.template take<int64_t>(given_.nodes);
    int64_t of_parts = 0;
    if (lanes_.leads()) {
      const auto find = [&](int32_t u) {
        while (part[u] != u) u = part[u] = part[part[u]];
        return u;
      };
      for (int32_t u = 0; u < given_.nodes; ++u) {
        part[u] = u;
        sum[u] = supplies[u] = 0;
      }
      for (int32_t e = 0; e < given_.edges; ++e) {
        if (!given_.can_carry(e)) continue;
        part[find(given_.senders[e])] = find(given_.receivers[e]);
      }
      for (int32_t u = 0; u < given_.nodes; ++u) {
        const int64_t b = masses.supply[u];
        sum[find(u)] += b;
        supplies[find(u)] += b < 0 ? -b : b;
      }
      for (int32_t u = 0; u < given_.nodes; ++u) {
        const int64_t rest = sum[u] < 0 ? -sum[u] : sum[u];
        const bool forgiven = double(rest) <= forgiven_ * double(supplies[u] / 2 + 1);
        if (forgiven && of_parts >= 0) {
          of_parts += rest;
        } else if (rest > masses.forgiven) {
          of_parts = -1;  // a part that lacks more
        }
      }
    }
    of_parts = lanes_.from_leader(of_parts);
    return of_parts >= 0 && left <= masses.forgiven + of_parts;
  }
  // Supplies are left in the low nodes: no more can leave these.
  JAXMATCH_HOST_DEVICE Next write_cut(const bool* is_low) {
    if (costs_.has_set_apart()) return Next::kWithAllCosts;
    write_failure(given_, kInfeasible, out_, lanes_);
    lanes_.each(given_.nodes, [&](int32_t u) { out_.source_side[u] = is_low[u]; });
    return Next::kDone;
  }

  // Solves the problem without costs. If it is feasible, returns kWithMoreLimits.
  JAXMATCH_HOST_DEVICE Next write_if_infeasible(const MassUnits& masses, bool* is_low,
                                                int64_t* flow) {
    int64_t* const cost = lanes_.template take<int64_t>(given_.edges);
    lanes_.each(given_.edges, [&](int32_t e) { cost[e] = 0; });
    lanes_.sync();
    const Arcs<int64_t> g{given_.nodes, given_.edges, given_.senders, given_.receivers,
                          cost,         masses.range, masses.supply};
    NetworkSimplex<int64_t, Lanes> engine(g, lanes_);
    engine.begin();
    engine.solve();
    prepare(g, engine, is_low, flow);
    return is_forgiven(masses, engine.left()) ? Next::kWithMoreLimits : write_cut(is_low);
  }

  template <class Engine>
  JAXMATCH_HOST_DEVICE Next attempt(const Engine& engine, double above, MassUnits& masses) {
    const Status status = MassReader<Lanes>(given_, above, forgiven_, lanes_).read(masses);
    lanes_.sync();
    if (status == kOptimal) {
      if (costs_.has_set_apart()) {
        lanes_.each(given_.edges, [&](int32_t e) {
          if (costs_.is_set_apart(given_, e)) masses.range[e] = 0;
        });
        lanes_.sync();
      }
      return engine(*this, masses);
    }
    write_failure(given_, status, out_, lanes_);
    if (status == kUnbalanced && lanes_.leads()) {
      if (is_whole(out_.value)) {
        const double most = double(greatest_whole(out_.value));
        const bool fits = masses.difference < most;
        write_whole(out_.gap, out_.value, 0,
                    fits ? int64_t(masses.difference) : greatest_whole(out_.value));
      } else {
        write_real(out_.gap, out_.value, 0, masses.difference);
      }
    }
    return Next::kDone;
  }

  const Given given_;
  const double forgiven_;
  Lanes& lanes_;
  const Results out_;
  CostUnits costs_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_SOLVE_H_
