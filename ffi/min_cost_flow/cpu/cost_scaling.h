// Flows of nearly least cost by ε-scaling (Goldberg, Journal of Algorithms 22, 1997), from which
// the network simplex method goes on.
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_COST_SCALING_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_COST_SCALING_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/cpu/poll.h"
#include "min_cost_flow/arcs.h"

namespace jaxmatch::min_cost_flow {

// A flow is ε-optimal if no arc that can carry more has a reduced cost below -ε. Each phase divides
// ε and repairs the flow: it fills all arcs of negative reduced cost, and then pushes what nodes
// have too much over such arcs, while prices fall.
class CostScaling {
 public:
  CostScaling(const Arcs<int64_t>& g, HostArena& memory)
      : g_(g),
        begin_(memory.take<int32_t>(int64_t(g.nodes) + 1, 0)),
        next_(memory.take<int32_t>(g.nodes)),
        arc_(memory.take<Arc>(2 * int64_t(g.arcs))),
        place_(memory.take<int32_t>(g.arcs)),
        excess_(memory.take<int64_t>(g.nodes)),
        price_(memory.take<int64_t>(g.nodes, 0)),
        queue_(memory.take<int32_t>(int64_t(g.nodes) + 1)),
        rank_(memory.take<int32_t>(g.nodes)),
        bucket_next_(memory.take<int32_t>(g.nodes)),
        bucket_previous_(memory.take<int32_t>(g.nodes)),
        bucket_(memory.take<int32_t>(kBuckets)) {
    link();
  }

  // Returns false if it gives up: supplies cannot reach demands, or costs fall without limit. May
  // begin with a flow and prices (or null), which need be neither feasible nor optimal.
  bool solve(const int64_t* flow, const int64_t* price) {
    std::copy_n(g_.supply, g_.nodes, excess_);
    int64_t most = 0;
    for (int32_t e = 0; e < g_.arcs; ++e) {
      if (place_[e] < 0 && g_.cost[e] < 0 && !is_limited(g_.capacity[e])) return false;
      most = std::max(most, g_.cost[e] < 0 ? -g_.cost[e] : g_.cost[e]);
    }
    // With costs times more than nodes + 1, a flow is optimal at ε = 1. Prices need as much room.
    while ((int64_t{1} << shift_) < int64_t(g_.nodes) + 2) ++shift_;
    if (shift_ > 30) return false;
    while ((most >> lost_) >> (60 - 2 * shift_) != 0) ++lost_;
    for (int32_t k = 0; k < begin_[g_.nodes]; ++k) {
      arc_[k].cost = (arc_[k].cost >> lost_) * (int64_t{1} << shift_);
    }
    if (lost_ > 0) make_costs_opposite();
    const auto cost = [&](int32_t k) { return arc_[k].cost; };
    int64_t epsilon = (most >> lost_) << shift_;
    if (flow != nullptr) epsilon = begin_at(flow, price, epsilon);
    do {
      epsilon = std::max<int64_t>(epsilon / kFactor, 1);
      if (!refine(epsilon)) return false;
      // At ε = 1 the flow is optimal, so that the repair ends.
      const int64_t most_steps = epsilon == 1 ? INT64_MAX : 10 * int64_t(g_.nodes);
      if (epsilon <= int64_t{1} << shift_ && repair_prices(price_, cost, most_steps)) break;
    } while (epsilon > 1);
    for (int32_t u = 0; u < g_.nodes; ++u) price_[u] >>= shift_;
    begin_at_zero(price_);
    return true;
  }

  // Whether the flow is optimal and price() proves it.
  bool is_exact() const { return lost_ == 0; }
  // Converts prices to units that are 2^-finer of those of g, and repairs them for these costs.
  // Returns false if the flow may not be optimal.
  template <class P>
  bool prove(const Arcs<P>& g, int finer, P* price, HostArena& memory) {
    P* const cost = memory.take<P>(begin_[g_.nodes]);
    bool misses_loop = false;  // one whose cost was rounded to 0
    for (int32_t e = 0; e < g.arcs; ++e) {
      if (place_[e] < 0) {
        misses_loop |= g.cost[e] < 0 && g_.cost[e] >= 0 && g.capacity[e] > 0;
        continue;
      }
      cost[place_[e]] = g.cost[e];
      cost[arc_[place_[e]].opposite] = -g.cost[e];
    }
    for (int32_t u = 0; u < g.nodes; ++u) price[u] = P(price_[u]) * (P(1) << (finer + lost_));
    if (!repair_prices(price, [&](int32_t k) { return cost[k]; }, 10 * int64_t(g.nodes))) {
      return false;
    }
    begin_at_zero(price);
    return !misses_loop;
  }

  const int64_t* price() const { return price_; }
  void write_flow(int64_t* flow) const {
    for (int32_t e = 0; e < g_.arcs; ++e) {
      const int64_t of_loop = g_.cost[e] < 0 ? g_.capacity[e] : 0;
      flow[e] = place_[e] < 0 ? of_loop : arc_[arc_[place_[e]].opposite].room;
    }
  }

 private:
  static constexpr int64_t kFactor = 16;
  static constexpr int32_t kBuckets = 4096;
  // Prices that fall so low can only fall for ever.
  static constexpr int64_t kMostPrice = int64_t{1} << 61;

  struct Arc {
    int32_t head, opposite;
    int64_t cost, room;
  };

  // Each arc, and its opposite, in the order of their tails. Loops are left out.
  void link() {
    for (int32_t e = 0; e < g_.arcs; ++e) {
      if (g_.tail[e] == g_.head[e]) continue;
      ++begin_[g_.tail[e]];
      ++begin_[g_.head[e]];
    }
    int32_t sum = 0;
    for (int32_t u = 0; u <= g_.nodes; ++u) {
      const int32_t count = u < g_.nodes ? begin_[u] : 0;
      begin_[u] = sum;
      if (u < g_.nodes) next_[u] = sum;
      sum += count;
    }
    for (int32_t e = 0; e < g_.arcs; ++e) {
      const int32_t u = g_.tail[e], v = g_.head[e];
      place_[e] = -1;
      if (u == v) continue;
      const int32_t a = next_[u]++, b = next_[v]++;
      place_[e] = a;
      arc_[a] = {v, b, g_.cost[e], g_.capacity[e]};
      arc_[b] = {u, a, -g_.cost[e], 0};
    }
  }

  // Returns an ε of which the flow is ε-optimal, or at most the given one.
  int64_t begin_at(const int64_t* flow, const int64_t* price, int64_t epsilon) {
    const int64_t most = kMostPrice >> (shift_ + 2);
    for (int32_t u = 0; u < g_.nodes; ++u) {
      price_[u] = std::clamp(price[u] >> lost_, -most, most) * (int64_t{1} << shift_);
    }
    for (int32_t e = 0; e < g_.arcs; ++e) {
      if (place_[e] < 0) continue;
      Arc& a = arc_[place_[e]];
      push(g_.tail[e], a, std::min(flow[e], is_limited(a.room) ? a.room : kMostFlow));
    }
    int64_t worst = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      for (int32_t k = begin_[u]; k < begin_[u + 1]; ++k) {
        if (arc_[k].room > 0) worst = std::max(worst, -reduced(u, arc_[k]));
      }
    }
    return std::min(worst, epsilon);
  }

  int64_t reduced(int32_t u, const Arc& a) const { return a.cost + price_[u] - price_[a.head]; }

  void push(int32_t u, Arc& a, int64_t amount) {
    a.room -= amount;
    arc_[a.opposite].room += amount;
    excess_[u] -= amount;
    excess_[a.head] += amount;
  }

  // Shifts prices so that the first is 0, as those of the network simplex method.
  template <class P>
  void begin_at_zero(P* price) const {
    const P base = g_.nodes > 0 ? price[0] : P(0);
    for (int32_t u = 0; u < g_.nodes; ++u) price[u] -= base;
  }

  // Rounding has moved each cost and that of the opposite arc apart.
  void make_costs_opposite() {
    for (int32_t e = 0; e < g_.arcs; ++e) {
      if (place_[e] >= 0) arc_[arc_[place_[e]].opposite].cost = -arc_[place_[e]].cost;
    }
  }

  // Lowers prices until no arc that has at least that much room has a negative reduced cost: if all
  // arcs with room count, the flow is optimal. Returns false if it takes more steps, or if a price
  // falls so low that only a negative cycle can have lowered it.
  template <class P, class Cost>
  bool repair_prices(P* price, const Cost& cost, int64_t most_steps, int64_t least_room = 1) {
    constexpr P kLowest = -(P(1) << (8 * sizeof(P) - 2));
    int32_t first = 0, count = 0;
    bool* const waits = reinterpret_cast<bool*>(bucket_next_);
    std::fill_n(waits, g_.nodes, false);
    const auto lower = [&](int32_t u) {
      for (int32_t k = begin_[u]; k < begin_[u + 1]; ++k) {
        const int32_t v = arc_[k].head;
        if (arc_[k].room < least_room || price[u] + cost(k) >= price[v]) continue;
        price[v] = price[u] + cost(k);
        if (price[v] < kLowest) return false;
        if (waits[v]) continue;
        waits[v] = true;
        const int32_t at = first + count++;
        queue_[at > g_.nodes ? at - g_.nodes - 1 : at] = v;
      }
      return true;
    };
    for (int32_t u = 0; u < g_.nodes; ++u) {
      if (!lower(u)) return false;
    }
    for (int64_t left = most_steps; count > 0; --left) {
      if (left == 0) return false;
      if (left % 1024 == 0) poll_interrupt();
      const int32_t u = queue_[first];
      first = first == g_.nodes ? 0 : first + 1;
      --count;
      waits[u] = false;
      if (!lower(u)) return false;
    }
    return true;
  }

  bool refine(int64_t epsilon) {
    epsilon_ = epsilon;
    // Arcs without a limit cannot be filled. Flow could run around cycles of them for ever.
    const auto cost = [&](int32_t k) { return arc_[k].cost; };
    if (!repair_prices(price_, cost, 20 * int64_t(g_.nodes) + 1000, kNoLimit / 2)) return false;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      for (int32_t k = begin_[u]; k < begin_[u + 1]; ++k) {
        Arc& a = arc_[k];
        if (a.room > 0 && is_limited(a.room) && reduced(u, a) < 0) push(u, a, a.room);
      }
    }
    if (!update_prices()) return false;
    int32_t first = 0, count = 0;
    const auto append = [&](int32_t u) {
      int32_t at = first + count++;
      if (at > g_.nodes) at -= g_.nodes + 1;
      queue_[at] = u;
    };
    for (int32_t u = 0; u < g_.nodes; ++u) {
      next_[u] = begin_[u];
      if (excess_[u] > 0) append(u);
    }
    int64_t relabels = 0, since = 0;
    while (count > 0) {
      const int32_t u = queue_[first];
      first = first == g_.nodes ? 0 : first + 1;
      --count;
      if (excess_[u] <= 0) continue;
      // Discharges u.
      while (excess_[u] > 0) {
        if (next_[u] == begin_[u + 1]) {
          if (!relabel(u) || relabels > most_relabels()) return false;
          ++since;
          if (++relabels % 1024 == 0) poll_interrupt();
          continue;
        }
        Arc& a = arc_[next_[u]];
        if (a.room > 0 && reduced(u, a) < 0) {
          const int32_t v = a.head;
          if (excess_[v] >= 0 && !has_way(v)) {
            if (!relabel(v)) return false;
            ++since;
            ++relabels;
            if (reduced(u, a) >= 0) {
              ++next_[u];
              continue;
            }
          }
          const bool was_idle = excess_[v] <= 0;
          push(u, a, std::min(excess_[u], a.room));
          if (was_idle && excess_[v] > 0) append(v);
          if (excess_[u] == 0) break;
        }
        ++next_[u];
      }
      if (since > g_.nodes / 2) {
        since = 0;
        if (!update_prices()) return false;
        for (int32_t v = 0; v < g_.nodes; ++v) next_[v] = begin_[v];
      }
      if (relabels > most_relabels()) return false;
    }
    return true;
  }
  int64_t most_relabels() const { return 40 * int64_t(g_.nodes) + 10000; }

  // Whether flow can leave v over an arc of negative reduced cost.
  bool has_way(int32_t v) {
    for (int32_t& k = next_[v]; k < begin_[v + 1]; ++k) {
      if (arc_[k].room > 0 && reduced(v, arc_[k]) < 0) return true;
    }
    return false;
  }

  // Lowers the price of u until an arc has a reduced cost of -ε. Returns false if none has room.
  bool relabel(int32_t u) {
    bool found = false;
    int64_t most = 0;
    for (int32_t k = begin_[u]; k < begin_[u + 1]; ++k) {
      const Arc& a = arc_[k];
      if (a.room == 0) continue;
      const int64_t to = price_[a.head] - a.cost;
      if (!found || to > most) {
        most = to;
        next_[u] = k;
        found = true;
      }
    }
    price_[u] = std::min(price_[u], most - epsilon_);
    return found && price_[u] > -kMostPrice;
  }

  // Lowers prices by the distance to the nearest node that lacks flow, in units of ε, so that paths
  // of negative reduced costs lead there. Returns false if a node with excess reaches none.
  bool update_prices() {
    std::fill_n(bucket_, kBuckets, -1);
    int64_t waiting = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      rank_[u] = kBuckets;
      if (excess_[u] < 0) insert(u, 0);
      waiting += excess_[u] > 0;
    }
    int32_t rank = 0;
    bool is_far = false;
    for (; rank < kBuckets && waiting > 0; ++rank) {
      while (bucket_[rank] >= 0 && waiting > 0) {
        const int32_t v = bucket_[rank];
        remove(v);
        rank_[v] = -1 - rank;  // done
        if (excess_[v] > 0) --waiting;
        for (int32_t k = begin_[v]; k < begin_[v + 1]; ++k) {
          const Arc& back = arc_[k];
          const int32_t u = back.head;
          if (rank_[u] <= rank || arc_[back.opposite].room == 0) continue;
          // The arc from u to v has minus the reduced cost of its opposite.
          const int64_t steps = (epsilon_ - reduced(v, back)) / epsilon_;
          const int64_t to = rank + std::max<int64_t>(steps, 0);
          if (to >= kBuckets) {
            is_far = true;
          } else if (to < rank_[u]) {
            if (rank_[u] < kBuckets) remove(u);
            insert(u, int32_t(to));
          }
        }
      }
      if (waiting == 0) break;
    }
    if (waiting > 0 && !is_far) return false;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const int64_t by = rank_[u] < 0 ? -1 - rank_[u] : rank;
      if (by > (price_[u] + kMostPrice) / epsilon_) return false;
      price_[u] -= by * epsilon_;
    }
    return true;
  }
  void insert(int32_t u, int32_t rank) {
    rank_[u] = rank;
    const int32_t next = bucket_[rank];
    bucket_previous_[u] = -1;
    bucket_next_[u] = next;
    if (next >= 0) bucket_previous_[next] = u;
    bucket_[rank] = u;
  }
  void remove(int32_t u) {
    const int32_t next = bucket_next_[u], previous = bucket_previous_[u];
    if (next >= 0) bucket_previous_[next] = previous;
    if (previous >= 0) {
      bucket_next_[previous] = next;
    } else {
      bucket_[rank_[u]] = next;
    }
  }

  const Arcs<int64_t>& g_;
  int32_t *const begin_, *const next_;
  Arc* const arc_;
  int32_t* const place_;  // of the arcs of g_; -1 for loops
  int64_t *const excess_, *const price_;
  int32_t *const queue_, *const rank_, *const bucket_next_, *const bucket_previous_, *const bucket_;
  int64_t epsilon_ = 0;
  // Costs of arcs are those of g, rounded down to 2^lost_, times 2^(shift_ - lost_).
  int shift_ = 0, lost_ = 0;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_COST_SCALING_H_
