// Capacities, lower bounds and supplies as whole numbers of a unit.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_MASS_UNITS_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_MASS_UNITS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "common/cpu/host_arena.h"
#include "common/status.h"
#include "min_cost_flow/cpu/arcs.h"
#include "min_cost_flow/cpu/numbers.h"

namespace jaxmatch::min_cost_flow {

// Lower bounds are taken out: an edge carries from 0 to range[e] more than its lower bound.
struct MassUnits {
  int64_t *range, *lower, *supply;  // `lower` is null if all are 0
  int exponent = 0;                 // the unit is 2^exponent; 1 for integers
  // Some minimum-cost flow, if there is one, carries at most this much above each lower bound. It
  // consists of paths, which carry the positive supplies, and of cycles of negative cost. Each such
  // cycle contains an edge with a limit and, unless an edge of negative cost has no limit, one of
  // negative cost with a limit.
  Wide most = 0;
  Wide difference = 0;         // between the sums of supplies and demands
  int64_t forgiven = 0;        // how many units may be left, because supplies were rounded
  bool has_set_apart = false;  // some limits are so large that they count as none
};

// Converts the masses. If `keep_all`, no limit counts as none.
template <class M, class C>
class MassReader {
 public:
  MassReader(const Given<M, C>& g, bool keep_all, double forgiven, HostArena& memory)
      : g_(g), keep_all_(keep_all), forgiven_(forgiven), memory_(memory) {}

  Status read(MassUnits& out) {
    if (!are_capacities_valid()) return kInvalidCapacity;
    if (!are_supplies_valid()) return kInvalidMass;
    out.supply = memory_.take<int64_t>(g_.nodes);
    out.range = memory_.take<int64_t>(g_.edges);
    out.lower = g_.lower != nullptr ? memory_.take<int64_t>(g_.edges) : nullptr;
    find_most(out);
    if (std::is_integral_v<M> && out.most >= Wide(kMostFlow)) return kOverflow;
    if (std::is_floating_point_v<M>) choose_unit(out);
    if (!balance(out)) return kUnbalanced;
    return convert(out);
  }

 private:
  static bool is_finite(M x) {
    return std::is_integral_v<M> || std::abs(x) <= std::numeric_limits<M>::max();
  }
  bool are_capacities_valid() const {
    bool valid = true;
    for (int32_t e = 0; e < g_.edges; ++e) {
      const M least = g_.least(e), most = g_.most(e);
      valid &= is_finite(least) && least <= most;  // false for NaN
    }
    return valid;
  }
  bool are_supplies_valid() const {
    bool valid = true;
    for (int32_t u = 0; u < g_.nodes; ++u) valid &= is_finite(g_.supply[u]);
    return valid;
  }
  Wide range(int32_t e) const { return Wide(g_.most(e)) - Wide(g_.least(e)); }

  // A limit above all that can flow is no limit. Sorted by size, limits often have a hole: those
  // above it ("as much as you like") count as none.
  void find_most(MassUnits& out) {
    Wide* const more = memory_.take<Wide>(g_.nodes, Wide(0));
    for (int32_t u = 0; u < g_.nodes; ++u) more[u] = Wide(g_.supply[u]);
    bool without_limit = false;  // whether an edge of negative cost has none
    for (int32_t e = 0; e < g_.edges; ++e) {
      more[g_.senders[e]] -= Wide(g_.least(e));
      more[g_.receivers[e]] += Wide(g_.least(e));
      without_limit |= g_.cost[e] < 0 && g_.is_unlimited(e);
    }
    Wide paths = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) paths += std::max(more[u], Wide(0));
    const Wide cycles = sum_of_limits(without_limit, std::numeric_limits<Wide>::infinity());
    out.most = paths + cycles;
    threshold_ = std::numeric_limits<Wide>::infinity();
    const Wide allowed = std::is_integral_v<M> ? Wide(kMostFlow) : paths * 0x1p20L;
    if (keep_all_ || out.most < allowed) return;
    constexpr int kLeast = -1100, kSizes = 2300;
    Wide* const sums = memory_.take<Wide>(kSizes, Wide(0));
    for (int32_t e = 0; e < g_.edges; ++e) {
      if (g_.is_unlimited(e) || range(e) == 0) continue;
      int size;
      std::frexp(range(e), &size);
      sums[size - kLeast] += range(e);
    }
    Wide below = paths;
    for (int size = 0; size < kSizes; ++size) {
      const Wide least = std::ldexp(Wide(1), size + kLeast - 1);
      if (sums[size] > 0 && below > 0 && least > below * 0x1p10L) {
        threshold_ = least;
        out.most = below;
        out.has_set_apart = true;
        return;
      }
      below += sums[size];
    }
  }
  Wide sum_of_limits(bool all, Wide below) const {
    Wide sum = 0;
    for (int32_t e = 0; e < g_.edges; ++e) {
      if (!g_.is_unlimited(e) && (all || g_.cost[e] < 0) && range(e) < below) sum += range(e);
    }
    return sum;
  }

  // The greatest power of two that divides all masses, if no flow then exceeds 2^59 units.
  // Otherwise the smallest for which none does.
  void choose_unit(MassUnits& out) const {
    int least_bit = std::numeric_limits<int>::max();
    const auto see = [&](M x) {
      if (x != 0 && is_finite(x)) least_bit = std::min(least_bit, lowest_bit(double(x)));
    };
    for (int32_t u = 0; u < g_.nodes; ++u) see(g_.supply[u]);
    Wide most = out.most;
    for (int32_t e = 0; e < g_.edges; ++e) {
      see(g_.least(e));
      most = std::max(most, std::abs(Wide(g_.least(e))));
      if (!g_.is_unlimited(e) && range(e) < threshold_) see(g_.most(e));
    }
    int size = 0;
    if (most > 0) std::frexp(most, &size);
    out.exponent =
        least_bit == std::numeric_limits<int>::max() ? 0 : std::max(size - 59, least_bit);
  }

  int64_t units(Wide x, const MassUnits& out) const {
    return std::is_integral_v<M> ? int64_t(x) : llrintl(std::ldexp(x, -out.exponent));
  }

  bool balance(MassUnits& out) const {
    Wide more = 0, less = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const Wide b = g_.supply[u];
      (b > 0 ? more : less) += std::abs(b);
    }
    // Long doubles may round sums of integers above 2^64; units decide there.
    out.difference = std::abs(more - less);
    out.forgiven = std::is_integral_v<M>
                       ? 0
                       : int64_t(std::ldexp(forgiven_ * std::max(more, less), -out.exponent));
    return out.difference <= forgiven_ * std::max(more, less) ||
           (std::is_integral_v<M> && out.difference == 0);
  }

  Status convert(MassUnits& out) const {
    using Sum = __int128;
    const auto fits = [](Sum x) { return x < Sum(kMostFlow) && x > -Sum(kMostFlow); };
    Sum rest = 0;
    int32_t largest = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      out.supply[u] = units(Wide(g_.supply[u]), out);
      rest += out.supply[u];
      if (std::abs(out.supply[u]) > std::abs(out.supply[largest])) largest = u;
    }
    if (rest != 0) {  // of rounding
      if (std::is_integral_v<M>) return kUnbalanced;
      out.supply[largest] -= int64_t(rest);
    }
    const int64_t most = units(out.most, out) + g_.nodes + 1;
    for (int32_t e = 0; e < g_.edges; ++e) {
      const int64_t lower = units(Wide(g_.least(e)), out);
      if (out.lower != nullptr) {
        out.lower[e] = lower;
        // Sums of integers may wrap around; `find_most` has bounded them unless they cancel.
        out.supply[g_.senders[e]] = int64_t(uint64_t(out.supply[g_.senders[e]]) - uint64_t(lower));
        out.supply[g_.receivers[e]] =
            int64_t(uint64_t(out.supply[g_.receivers[e]]) + uint64_t(lower));
      }
      const Wide range = this->range(e);
      if (g_.is_unlimited(e) || range >= threshold_ || range > Wide(out.most) * 2 + 2) {
        out.range[e] = kNoLimit;
      } else {
        const int64_t limit =
            std::is_integral_v<M> ? int64_t(range) : units(Wide(g_.most(e)), out) - lower;
        out.range[e] = limit > most ? kNoLimit : limit;
      }
    }
    for (int32_t u = 0; u < g_.nodes; ++u) {
      if (!fits(out.supply[u])) return kOverflow;
    }
    return kOptimal;
  }

  const Given<M, C>& g_;
  const bool keep_all_;
  const double forgiven_;
  HostArena& memory_;
  Wide threshold_ = 0;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_MASS_UNITS_H_
