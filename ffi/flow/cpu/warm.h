// Warm starts: an earlier flow, repaired until it is a preflow within the capacities.
#ifndef JAXMATCH_FLOW_CPU_WARM_H_
#define JAXMATCH_FLOW_CPU_WARM_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "common/cpu/poll.h"
#include "flow/cpu/fixed_point.h"
#include "flow/cpu/setup.h"
#include "flow/operands.h"

namespace jaxmatch::flow {

// Begins a problem that set_up_flow() has built without terminals with a given flow, one number for
// each edge, which may be any. The flow is clipped to the capacities. Then nodes that send more
// than they receive, from the source and from others, take back what is too much, which may leave
// the receivers with too little. All excess of the rest has come from the source, so it is a
// preflow: a search may go on from it.
//
// After kMostScans scans per arc the start is given up: the problem is then as it was.
template <class T>
class WarmStart {
 public:
  WarmStart(const FlowProblem<T>& problem, HostArena& memory)
      : p_(problem), g_(problem.residual), memory_(memory) {}

  template <class C>
  void begin_with(const C* given, const C* capacity, const FixedPoint<C>& units) {
    if (p_.keeps_terminals) return;
    int64_t* const balance = memory_.take<int64_t>(g_.n, 0);  // what arrives minus what leaves
    set_flow(given, capacity, units, balance);
    if (!repair(balance)) return forget();
    for (int32_t v = 0; v < g_.n; ++v) {
      // All balances are positive, and their sum is that of all supplies, so they fit.
      g_.excess[v] += T(balance[v] - int64_t(p_.supply[v]));
    }
  }

 private:
  static constexpr int64_t kMostScans = 8;

  // Arcs from and to terminals are closed: flow on them is in supplies and excess.
  bool is_terminal(int32_t v) const { return v == p_.source || v == p_.sink; }
  T net(int32_t a) const { return p_.capacity[a] - g_.arcs[a].out; }

  // Sets the flow, and the balance of each node.
  template <class C>
  void set_flow(const C* given, const C* capacity, const FixedPoint<C>& units, int64_t* balance) {
    const FlowNetworkCsr& g = p_.network;
    const auto flow_of = [&](int32_t a) {
      int64_t sum = 0;
      for (int32_t k = g.edge_ptr[a]; k < g.edge_ptr[a + 1]; ++k) {
        const C x = given[g.arc_edge[k]];
        if (!(x > 0)) continue;
        sum = std::min(sum + std::min(units.units(x), units.units(capacity[g.arc_edge[k]])),
                       int64_t(p_.capacity[a]));
      }
      return sum;
    };
    for (int32_t v = 0; v < g_.n; ++v) {
      balance[v] += int64_t(p_.supply[v]);
      for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
        FlowArc<T>& arc = g_.arcs[a];
        if (arc.head <= v || is_terminal(arc.head)) continue;
        const T amount = T(flow_of(a) - flow_of(arc.reverse));
        g_.push(arc, amount);
        balance[v] -= int64_t(amount);
        balance[arc.head] += int64_t(amount);
      }
    }
  }
  // Returns false if this takes too long.
  bool repair(int64_t* balance) {
    int32_t* const stack = memory_.take<int32_t>(g_.n);
    bool* const is_listed = memory_.take<bool>(g_.n, false);
    int32_t size = 0;
    const auto look_at = [&](int32_t v) {
      if (balance[v] >= 0 || is_listed[v]) return;
      is_listed[v] = true;
      stack[size++] = v;
    };
    for (int32_t v = 0; v < g_.n; ++v) look_at(v);
    int64_t scans = kMostScans * (g_.num_arcs + 1);
    while (size > 0) {
      const int32_t v = stack[--size];
      is_listed[v] = false;
      scans -= g_.end[v] - g_.begin[v];
      poll_.after(4 * (g_.end[v] - g_.begin[v]));
      if (scans < 0) return false;
      for (int32_t a = g_.begin[v]; a < g_.end[v] && balance[v] < 0; ++a) {
        const int32_t head = g_.arcs[a].head;
        const int64_t back = std::min<int64_t>(net(a), -balance[v]);
        if (is_terminal(head) || back <= 0) continue;
        g_.push(g_.arcs[a], T(-back));
        balance[v] += back;
        balance[head] -= back;
        look_at(head);
      }
    }
    return true;
  }
  void forget() {
    for (int32_t v = 0; v < g_.n; ++v) {
      for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
        if (!is_terminal(g_.arcs[a].head)) g_.push(g_.arcs[a], -net(a));
      }
    }
  }

  const FlowProblem<T>& p_;
  const Residual<T>& g_;
  HostArena& memory_;
  Poll poll_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_WARM_H_
