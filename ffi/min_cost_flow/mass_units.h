// Capacities, lower bounds and supplies as whole numbers of a unit.
#ifndef JAXMATCH_MIN_COST_FLOW_MASS_UNITS_H_
#define JAXMATCH_MIN_COST_FLOW_MASS_UNITS_H_

#include <climits>
#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "common/status.h"
#include "min_cost_flow/arcs.h"
#include "min_cost_flow/given.h"

namespace jaxmatch::min_cost_flow {

// Lower bounds are taken out: an edge carries from 0 to range[e] more than its lower bound.
struct MassUnits {
  int64_t *range, *lower, *supply;  // `lower` is null if all are 0
  // For floats the unit is 2^exponent.
  int exponent = 0;
  // Some minimum-cost flow, if there is one, carries at most this much above each lower bound, in
  // units. It consists of paths, which carry the positive supplies, and of cycles of negative cost.
  // Each such cycle contains an edge with a limit and, unless an edge of negative cost has no
  // limit, one of negative cost with a limit.
  double most = 0;
  double most_of_all = 0;  // the same of costs that were rounded: all limits, in the caller's unit
  double difference = 0;   // between the sums of supplies and demands, in the caller's unit
  // Supplies of floats that do not sum to 0: that of the node `reduced` is smaller by `rest` units.
  int32_t reduced = 0;
  int64_t rest = 0;
  // How many units may be left over because supplies do not sum to 0: `forgiven` in any network,
  // and more, up to `most_forgiven`, if those of a part of the network do not.
  int64_t forgiven = 0, most_forgiven = 0;
  // Limits above this count as none, because nothing that flows without them exceeds it: +inf if
  // none do. If that frees a cycle of negative cost, a higher threshold decides.
  double threshold = INFINITY;  // in the caller's unit

  JAXMATCH_HOST_DEVICE bool has_set_apart() const { return threshold < INFINITY; }
};

// Converts masses. `above`: a threshold that was too low, or 0.
template <class Lanes>
class MassReader {
 public:
  JAXMATCH_HOST_DEVICE MassReader(const Given& g, double above, double forgiven, Lanes& lanes)
      : g_(g), above_(above), forgiven_(forgiven), lanes_(lanes), whole_(is_whole(g.mass)) {}

  JAXMATCH_HOST_DEVICE Status read(MassUnits& out) {
    if (lanes_.any(has_invalid_capacity())) return kInvalidCapacity;
    if (lanes_.any(has_invalid_supply())) return kInvalidMass;
    out.supply = lanes_.template take<int64_t>(g_.nodes);
    out.range = lanes_.template take<int64_t>(g_.edges);
    out.lower = g_.lower != nullptr ? lanes_.template take<int64_t>(g_.edges) : nullptr;
    more_ = lanes_.template take<double>(g_.nodes);
    if (!whole_) choose_scale();
    if (!balance(out)) return kUnbalanced;
    find_more(out);
    find_most(out);
    if (!is_finite(out.most) || (whole_ && out.most >= double(kMostFlow))) return kOverflow;
    if (!whole_) choose_unit(out);
    return convert(out);
  }

 private:
  JAXMATCH_HOST_DEVICE bool has_invalid_capacity() const {
    bool valid = true;
    lanes_.each(g_.edges, [&](int32_t e) { valid &= g_.has_valid_limits(e); });
    return !valid;
  }
  JAXMATCH_HOST_DEVICE bool has_invalid_supply() const {
    bool valid = true;
    if (whole_) return false;
    lanes_.each(g_.nodes, [&](int32_t u) { valid &= is_finite(read_real(g_.supply, g_.mass, u)); });
    return !valid;
  }

  // Floats are divided by about the greatest supply, so that sums neither overflow nor vanish; if
  // limits decide, by the least one that does.
  JAXMATCH_HOST_DEVICE void choose_scale() {
    constexpr int kNone = -10000;
    int bits = kNone;
    const auto see = [&](double x) {
      if (x == 0 || !is_finite(x)) return;
      const int size = bits_above(x);
      bits = size > bits ? size : bits;
    };
    lanes_.each(g_.nodes, [&](int32_t u) { see(read_real(g_.supply, g_.mass, u)); });
    if (g_.lower != nullptr) lanes_.each(g_.edges, [&](int32_t e) { see(g_.least(e)); });
    if (above_ > 0) {
      see(least_limit(above_));
    } else if (lanes_.max(bits) == kNone) {
      lanes_.each(g_.edges, [&](int32_t e) { see(g_.most(e)); });
    }
    bits = lanes_.max(bits);
    scale_ = bits == kNone ? 0 : bits;
  }
  JAXMATCH_HOST_DEVICE double scaled(double x) const { return whole_ ? x : std::ldexp(x, -scale_); }
  JAXMATCH_HOST_DEVICE double range(int32_t e) const {
    return scaled(g_.most(e)) - scaled(g_.least(e));
  }

  // Sets `more_`, and for integers also the supplies, without lower bounds. Sums of integers may
  // wrap around in between.
  JAXMATCH_HOST_DEVICE void find_more(MassUnits& out) {
    lanes_.each(g_.nodes, [&](int32_t u) {
      more_[u] = scaled(read_real(g_.supply, g_.mass, u));
      if (whole_) out.supply[u] = read_whole(g_.supply, g_.mass, u);
    });
    bool fits = true;
    if (g_.lower != nullptr && lanes_.leads()) {
      for (int32_t e = 0; e < g_.edges; ++e) {
        const double x = scaled(g_.least(e));
        more_[g_.senders[e]] -= x;
        more_[g_.receivers[e]] += x;
        if (whole_) take_out(out.supply, e, g_.whole_least(e));
      }
    }
    lanes_.sync();
    if (!whole_) return;
    lanes_.each(g_.nodes, [&](int32_t u) {
      fits &= std::abs(more_[u]) < 0x1p62;
      more_[u] = fits ? double(out.supply[u]) : INFINITY;  // an overflow
    });
    lanes_.sync();
  }
  JAXMATCH_HOST_DEVICE void take_out(int64_t* supply, int32_t e, int64_t lower) const {
    int64_t &from = supply[g_.senders[e]], &to = supply[g_.receivers[e]];
    from = int64_t(uint64_t(from) - uint64_t(lower));
    to = int64_t(uint64_t(to) + uint64_t(lower));
  }

  // A limit above all that can flow is no limit ("as much as you like").
  JAXMATCH_HOST_DEVICE void find_most(MassUnits& out) {
    double paths = 0;
    lanes_.each(g_.nodes, [&](int32_t u) { paths += more_[u] > 0 ? more_[u] : 0; });
    paths = lanes_.sum(paths);
    double given = 0;
    lanes_.each(g_.edges, [&](int32_t e) { given += std::abs(scaled(g_.least(e))); });
    given = std::fmax(paths, lanes_.sum(given));
    bool without_limit = false;  // whether an edge of negative cost has none
    double all = 0, negative = 0;
    lanes_.each(g_.edges, [&](int32_t e) {
      const bool falls = g_.cost_of(e) < 0;
      if (g_.is_unlimited(e)) {
        without_limit |= falls;
      } else {
        const double x = range(e);
        all += x;
        negative += falls ? x : 0;
      }
    });
    all = lanes_.sum(all);
    negative = lanes_.sum(negative);
    // Sums may have been rounded down.
    up_ = 1 + (double(g_.nodes) + g_.edges + 4) * 0x1p-52;
    out.most_of_all = std::ldexp((paths + all) * up_, scale_);
    out.most = (paths + (lanes_.any(without_limit) ? all : negative)) * up_;
    if (out.most < (whole_ ? double(kMostFlow) : given * 0x1p6)) return;
    const double threshold = closed_sum(paths, given);
    const double least = (paths + sum_of_limits(threshold)) * up_;
    const double in_given = std::ldexp(threshold, whole_ ? 0 : scale_);
    // Each attempt needs a higher threshold than the one before.
    if (least >= out.most || !(in_given > above_) || in_given > kGreatest) return;
    out.most = least;
    out.threshold = in_given;
    threshold_ = threshold;
  }
  // The least number from `given` and from the next limit on that is the sum of `paths` and of all
  // limits up to it, or exceeds that.
  JAXMATCH_HOST_DEVICE double closed_sum(double paths, double given) const {
    const double above = scaled(above_);
    double below = given;
    if (!(below > above)) below = least_limit(above);
    for (;;) {
      const double sum = (paths + sum_of_limits(below)) * up_;
      if (!(sum > below)) return below;
      below = sum;
    }
  }
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE double sum_of_limits(double below) const {
    double sum = 0;
    lanes_.each(g_.edges, [&](int32_t e) {
      if (g_.is_unlimited(e)) return;
      const double x = range(e);
      if (x <= below) sum += x;
    });
    return lanes_.sum(sum);
  }
  // In the unit of scale_, as `above`.
  JAXMATCH_HOST_DEVICE double least_limit(double above) const {
    double negated = -INFINITY;
    lanes_.each(g_.edges, [&](int32_t e) {
      const double x = range(e);
      if (x > above && -x > negated) negated = -x;
    });
    return -lanes_.max(negated);
  }

  // The greatest power of two that divides all masses, if no flow then exceeds 2^59 units.
  // Otherwise the smallest for which none does.
  JAXMATCH_HOST_DEVICE void choose_unit(MassUnits& out) {
    constexpr int kNone = -10000;
    int least_bit = kNone;  // negated
    double most = out.most;
    const auto see = [&](double x) {
      if (x == 0 || !is_finite(x)) return;
      const int lowest = -lowest_bit(x);
      least_bit = lowest > least_bit ? lowest : least_bit;
    };
    double sum = 0;
    lanes_.each(g_.nodes, [&](int32_t u) {
      const double b = scaled(read_real(g_.supply, g_.mass, u));
      see(b);
      sum += std::abs(b);
    });
    sum = lanes_.sum(sum);
    most = sum / 2 > most ? sum / 2 : most;
    lanes_.each(g_.edges, [&](int32_t e) {
      const double least = scaled(g_.least(e));
      see(least);
      most = std::abs(least) > most ? std::abs(least) : most;
      if (!g_.is_unlimited(e) && range(e) <= out.most) see(scaled(g_.most(e)));
    });
    most = lanes_.max(most);
    least_bit = lanes_.max(least_bit);
    const int coarse = (most > 0 ? bits_above(most) : 0) - 59;
    unit_ = least_bit == kNone ? 0 : (-least_bit > coarse ? -least_bit : coarse);
    out.exponent = unit_ + scale_;
    out.most = std::ldexp(out.most, -unit_);
    const double eps = g_.mass == Dtype::kF32 ? 0x1p-23 : 0x1p-52;
    out.forgiven = units_below(imbalance_ + eps * g_.nodes * sum);
    out.most_forgiven = units_below(allowed_);
  }
  JAXMATCH_HOST_DEVICE int64_t units(double scaled) const {
    return std::llrint(std::ldexp(scaled, -unit_));
  }
  // Limits are rounded so that nothing which fits is lost.
  JAXMATCH_HOST_DEVICE int64_t units_below(double scaled) const {
    return int64_t(std::floor(std::ldexp(scaled, -unit_)));
  }
  JAXMATCH_HOST_DEVICE int64_t units_above(double scaled) const {
    return int64_t(std::ceil(std::ldexp(scaled, -unit_)));
  }

  JAXMATCH_HOST_DEVICE bool balance(MassUnits& out) {
    if (whole_) {
      __int128 sum = 0;
      lanes_.each(g_.nodes, [&](int32_t u) { sum += read_whole(g_.supply, g_.mass, u); });
      sum = lanes_.sum(sum);
      out.difference = std::abs(double(sum));
      return sum == 0;
    }
    double more = 0, less = 0;
    lanes_.each(g_.nodes, [&](int32_t u) {
      const double b = scaled(read_real(g_.supply, g_.mass, u));
      (b > 0 ? more : less) += std::abs(b);
    });
    more = lanes_.sum(more);
    less = lanes_.sum(less);
    imbalance_ = std::abs(more - less);
    allowed_ = forgiven_ * (more > less ? more : less);
    out.difference = std::ldexp(imbalance_, scale_);
    return imbalance_ <= allowed_;
  }

  JAXMATCH_HOST_DEVICE Status convert(MassUnits& out) {
    if (!whole_) {
      lanes_.each(g_.nodes, [&](int32_t u) {
        out.supply[u] = units(scaled(read_real(g_.supply, g_.mass, u)));
      });
      if (lanes_.leads()) take_out_rest(out);
      out.reduced = lanes_.from_leader(out.reduced);
      out.rest = lanes_.from_leader(out.rest);
    }
    const double most = out.most + g_.nodes + 1;
    lanes_.each(g_.edges, [&](int32_t e) {
      const int64_t lower = whole_ ? g_.whole_least(e) : units_below(scaled(g_.least(e)));
      if (out.lower != nullptr) out.lower[e] = lower;
      const double range = this->range(e);
      const double in_units = whole_ ? range : std::ldexp(range, -unit_);
      if (g_.is_unlimited(e) || range > threshold_ || in_units > most) {
        out.range[e] = kNoLimit;
      } else {
        out.range[e] = (whole_ ? g_.whole_most(e) : units_above(scaled(g_.most(e)))) - lower;
      }
    });
    if (!whole_ && lanes_.leads() && out.lower != nullptr) {
      for (int32_t e = 0; e < g_.edges; ++e) take_out(out.supply, e, out.lower[e]);
    }
    lanes_.sync();
    bool fits = true;
    lanes_.each(g_.nodes, [&](int32_t u) {
      fits &= out.supply[u] < kMostFlow && out.supply[u] > -kMostFlow;
    });
    return lanes_.any(!fits) ? kOverflow : kOptimal;
  }
  // Supplies may not sum to 0. The largest number of the side that exceeds is reduced by the rest.
  JAXMATCH_HOST_DEVICE void take_out_rest(MassUnits& out) const {
    int64_t rest = 0;
    int32_t most = 0, least = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      rest += out.supply[u];
      if (out.supply[u] > out.supply[most]) most = u;
      if (out.supply[u] < out.supply[least]) least = u;
    }
    if (rest == 0) return;
    out.reduced = rest > 0 ? most : least;
    out.rest = rest;
    out.supply[out.reduced] -= rest;
  }

  const Given& g_;
  const double above_, forgiven_;
  Lanes& lanes_;
  const bool whole_;
  double* more_ = nullptr;  // what leaves each node beyond lower bounds
  double threshold_ = INFINITY, up_ = 1, allowed_ = 0, imbalance_ = 0;
  int scale_ = 0, unit_ = 0;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_MASS_UNITS_H_
