// The network simplex method for flows of least cost (Ahuja, Magnanti and Orlin, Network Flows,
// 1993, chapter 11), with the search for entering arcs in blocks that Király and Kovács found best
// (Acta Universitatis Sapientiae, Informatica 4, 2012).
#ifndef JAXMATCH_MIN_COST_FLOW_CPU_NETWORK_SIMPLEX_H_
#define JAXMATCH_MIN_COST_FLOW_CPU_NETWORK_SIMPLEX_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "common/cpu/host_arena.h"
#include "common/cpu/poll.h"
#include "min_cost_flow/cpu/arcs.h"
#include "min_cost_flow/cpu/basis_tree.h"
#include "min_cost_flow/cpu/start_forest.h"

namespace jaxmatch::min_cost_flow {

// A basis is a spanning tree of the nodes and a root. Every node has an artificial arc to or from
// the root that costs more than any path. Arcs outside of the tree carry nothing or their capacity.
//
// The basis stays strongly feasible: each arc of the tree can carry more toward the root. So no
// sequence of pivots repeats.
template <class P>
class NetworkSimplex {
 public:
  NetworkSimplex(const Arcs<P>& g, HostArena& memory)
      : g_(g),
        tree_(g.nodes, memory),
        price_(memory.take<P>(int64_t(g.nodes) + 1, P(0))),
        arc_(memory.take<Arc>(g.arcs)),
        place_(memory.take<int32_t>(g.arcs)) {
    mix();
    find_artificial();
    begin(memory);
    begin_with_cheapest(memory);
  }

  // Goes on from the basis of another solve of the same arcs, with other costs. Takes the tree
  // over.
  template <class Q>
  NetworkSimplex(const Arcs<P>& g, const NetworkSimplex<Q>& earlier, HostArena& memory)
      : g_(g),
        tree_(earlier.tree_),
        price_(memory.take<P>(int64_t(g.nodes) + 1)),
        arc_(memory.take<Arc>(g.arcs)),
        place_(earlier.place_) {
    for (int32_t k = 0; k < g.arcs; ++k) {
      const auto& a = earlier.arc_[k];
      arc_[k] = {a.tail, a.head, g.cost[place_[k]], State(int32_t(a.state))};
    }
    find_artificial();
    reprice();
  }

  // Starts from a flow and prices, which need be neither feasible nor optimal.
  NetworkSimplex(const Arcs<P>& g, const int64_t* flow, const P* price, HostArena& memory)
      : g_(g),
        tree_(g.nodes, memory),
        price_(memory.take<P>(int64_t(g.nodes) + 1, P(0))),
        arc_(memory.take<Arc>(g.arcs)),
        place_(memory.take<int32_t>(g.arcs)) {
    mix();
    find_artificial();
    begin_at(flow, price, memory);
  }

  Outcome solve() {
    const int32_t block = std::max(32, int32_t(2 * std::sqrt(double(g_.arcs))));
    int64_t pivots = 0;
    for (int32_t e; (e = find_entering(block)) >= 0;) {
      if (++pivots % 64 == 0) poll_interrupt();
      if (!pivot(e)) {
        entering_ = e;
        return Outcome::kUnbounded;
      }
    }
    return left() > 0 ? Outcome::kInfeasible : Outcome::kOptimal;
  }

  // Lets the cheapest arc into each demand enter the tree, if it costs less than the tree. Most of
  // these arcs stay.
  void begin_with_cheapest(HostArena& memory) {
    int32_t* const cheapest = memory.take<int32_t>(g_.nodes, -1);
    for (int32_t k = 0; k < g_.arcs; ++k) {
      int32_t& least = cheapest[arc_[k].head];
      if (least < 0 || arc_[k].cost < arc_[least].cost) least = k;
    }
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const int32_t k = cheapest[u];
      if (g_.supply[u] < 0 && k >= 0 && reduced(arc_[k]) < 0) pivot(k);
    }
  }

  // The flow on artificial arcs: supplies that could not leave.
  int64_t left() const {
    int64_t sum = 0;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      if (tree_[u].arc >= g_.arcs && is_from(u)) sum += tree_[u].down;
    }
    return sum;
  }

  // After solve(). The reduced cost of an arc is its cost plus the price of its tail, less that of
  // its head.
  P* price() { return price_; }
  P price_of_root() const { return price_[tree_.root()]; }
  P artificial() const { return artificial_; }

  // The flow on arc e.
  void write_flow(int64_t* flow) const {
    for (int32_t k = 0; k < g_.arcs; ++k) {
      flow[place_[k]] = arc_[k].state == kFull ? g_.capacity[place_[k]] : 0;
    }
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const auto& at = tree_[u];
      if (at.arc < g_.arcs) flow[place_[at.arc]] = arc_[at.arc].tail == u ? at.down : at.up;
    }
  }

  // After kUnbounded: calls f(arc) for the arcs of a cycle of negative cost without limits.
  template <class F>
  void for_cycle(const F& f) const {
    const Arc& in = arc_[entering_];
    f(place_[entering_]);
    const int32_t meet = tree_.meet(in.tail, in.head);
    for (int32_t end : {in.tail, in.head}) {
      for (int32_t u = end; u != meet; u = tree_[u].parent) f(place_[tree_[u].arc]);
    }
  }

 private:
  using Whole = std::conditional_t<sizeof(P) == 8, uint64_t, unsigned __int128>;

  // Arcs are between their bounds only at the beginning.
  enum State : int32_t { kFull = -1, kInTree = 0, kEmpty = 1, kBetween = 2 };
  struct Arc {
    int32_t tail, head;
    P cost;
    State state;
  };

  // Neighbouring arcs often share a tail. Mixed, the arcs of a block differ more, and the best of
  // them is better.
  void mix() {
    const int32_t step = std::max(8, int32_t(std::sqrt(double(g_.arcs))));
    int32_t k = 0;
    for (int32_t first = 0; first < std::min(step, g_.arcs); ++first) {
      for (int64_t e = first; e < g_.arcs; e += step) {
        arc_[k] = {g_.tail[e], g_.head[e], g_.cost[e], kEmpty};
        place_[k++] = int32_t(e);
      }
    }
  }

  // Whether the arc of u, which is artificial, leads to the root. It has no limit.
  bool is_from(int32_t u) const { return !is_limited(tree_[u].up); }

  void find_artificial() {
    P most = 0;
    for (int32_t e = 0; e < g_.arcs; ++e) {
      most = std::max(most, g_.cost[e] < 0 ? -g_.cost[e] : g_.cost[e]);
    }
    artificial_ = (most + 1) * P(g_.nodes);
  }

  void begin(HostArena& memory) {
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const int64_t b = g_.supply[u];
      const bool from = b >= 0;
      tree_[u] = {tree_.root(), g_.arcs + u, from ? kNoLimit : -b, from ? b : kNoLimit, 1};
      price_[u] = from ? -artificial_ : artificial_;
    }
    tree_.build(memory);
  }

  // Sets all prices so that arcs of the tree have reduced costs of 0.
  void reprice() {
    price_[tree_.root()] = 0;
    for (int32_t u = tree_.after(tree_.root()); u != tree_.root(); u = tree_.after(u)) {
      const auto& at = tree_[u];
      const bool real = at.arc < g_.arcs;
      const P cost = real ? arc_[at.arc].cost : artificial_;
      price_[u] = price_[at.parent] + ((real ? arc_[at.arc].tail == u : is_from(u)) ? -cost : cost);
    }
  }

  // Builds a forest of arcs whose flow is between their bounds and then of arcs with a reduced cost
  // of 0. Hangs each tree from the root. What a node sends too much or too little moves up its tree
  // as far as there is room, and the rest over an artificial arc.
  void begin_at(const int64_t* flow, const P* price, HostArena& memory) {
    const int32_t n = g_.nodes;
    StartForest forest(n, memory);
    int64_t* const excess = memory.take<int64_t>(n);
    std::copy_n(g_.supply, n, excess);
    int64_t* const x = memory.take<int64_t>(g_.arcs);
    for (int32_t k = 0; k < g_.arcs; ++k) {
      Arc& a = arc_[k];
      const int64_t most = g_.capacity[place_[k]];
      x[k] = std::clamp(flow[place_[k]], int64_t{0}, is_limited(most) ? most : kMostFlow);
      excess[a.tail] -= x[k];
      excess[a.head] += x[k];
      if (x[k] == 0) continue;
      a.state = x[k] == most ? kFull : kBetween;
      if (a.state == kBetween && forest.join(a.tail, a.head, k)) a.state = kInTree;
    }
    for (int32_t k = 0; k < g_.arcs; ++k) {
      Arc& a = arc_[k];
      if (a.state == kInTree || a.state == kBetween) continue;
      if (a.cost + price[a.tail] - price[a.head] == 0 && forest.join(a.tail, a.head, k)) {
        a.state = kInTree;
      }
    }
    forest.for_parents([&](int32_t u, int32_t parent, int32_t k) { hang(u, parent, k, x); });
    forest.for_children_first([&](int32_t u) { settle(u, x, excess); });
    tree_.build(memory);
    reprice();
    // Arcs between their bounds that close cycles go to a bound, or enter the tree.
    for (int32_t k = 0; k < g_.arcs; ++k) {
      if (arc_[k].state != kBetween) continue;
      if (reduced(arc_[k]) >= 0 || !pivot(k, x[k], true)) pivot(k, x[k], false);
    }
  }

  // Gives node u the arc k to its parent; k is -1 for the root of a tree of the forest.
  void hang(int32_t u, int32_t parent, int32_t k, const int64_t* x) {
    if (k < 0) {
      tree_[u] = {tree_.root(), g_.arcs + u, 0, 0, 1};
      return;
    }
    const int64_t along = g_.capacity[place_[k]] - x[k], back = x[k];
    tree_[u] = arc_[k].tail == u ? BasisTree::Node{parent, k, along, back, 1}
                                 : BasisTree::Node{parent, k, back, along, 1};
  }

  // Moves the excess of u, whose subtree is settled, to its parent. If the arc cannot take all of
  // it or could then carry no more, it leaves the tree, and an artificial arc takes the rest.
  void settle(int32_t u, int64_t* x, int64_t* excess) {
    BasisTree::Node& at = tree_[u];
    if (at.arc < g_.arcs) {
      const int64_t move = std::clamp(excess[u], -at.down, at.up);
      at.up -= move;
      at.down += move;
      excess[u] -= move;
      excess[at.parent] += move;
      if (excess[u] == 0 && at.up > 0) return;
      Arc& a = arc_[at.arc];
      x[at.arc] = a.tail == u ? at.down : at.up;
      a.state = x[at.arc] == 0                             ? kEmpty
                : x[at.arc] == g_.capacity[place_[at.arc]] ? kFull
                                                           : kBetween;
    }
    const int64_t b = excess[u];
    at = {tree_.root(), g_.arcs + u, b >= 0 ? kNoLimit : -b, b >= 0 ? b : kNoLimit, 1};
  }

  // Only differences of prices matter. They may wrap around, because pivots can shift all prices.
  P reduced(const Arc& a) const {
    return P(Whole(a.cost) + Whole(price_[a.tail]) - Whole(price_[a.head]));
  }

  // Searches blocks of arcs in turn. Returns the best arc of the first block that has one, or -1.
  int32_t find_entering(int32_t block) {
    P best = 0;
    int32_t found = -1;
    for (int32_t seen = 0; seen < g_.arcs;) {
      const int32_t end = std::min(at_ + block, g_.arcs);
      for (int32_t k = at_; k < end; ++k) {
        const P x = reduced(arc_[k]) * int32_t(arc_[k].state);
        if (x < best) {
          best = x;
          found = k;
        }
      }
      seen += end - at_;
      at_ = end == g_.arcs ? 0 : end;
      if (found >= 0) break;
    }
    return found;
  }

  bool pivot(int32_t e) {
    const bool is_empty = arc_[e].state == kEmpty;
    return pivot(e, is_empty ? 0 : g_.capacity[place_[e]], is_empty);
  }

  // Lets arc e, which carries `flow`, enter the tree. More flow, or less, moves around the cycle
  // that it closes, until an arc can carry no more: that arc leaves. Returns false if there is no
  // limit.
  bool pivot(int32_t e, int64_t flow, bool forward) {
    Arc& in = arc_[e];
    const int32_t from = forward ? in.tail : in.head, to = forward ? in.head : in.tail;
    // Flow runs down to `from` from the first common ancestor `meet`, over the arc, and from `to`
    // up to `meet`. Of the arcs that limit it, the last one leaves. That keeps the basis strongly
    // feasible.
    const int64_t room = forward ? g_.capacity[place_[e]] - flow : flow;
    int64_t most = room, most_of_to = kNoLimit;
    int32_t top = -1, top_of_to = -1, u = from, v = to;
    while (u != v) {
      const BasisTree::Node &at = tree_[u], &of_to = tree_[v];
      if (at.size < of_to.size) {
        if (at.down < most) {
          most = at.down;
          top = u;
        }
        u = at.parent;
      } else {
        if (of_to.up <= most_of_to) {
          most_of_to = of_to.up;
          top_of_to = v;
        }
        v = of_to.parent;
      }
    }
    const int32_t meet = u;
    const bool below_from = most < most_of_to;
    if (!below_from) {
      most = most_of_to;
      top = top_of_to;
    }
    if (!is_limited(most)) return false;
    if (most > 0) {
      for (int32_t u = from; u != meet; u = tree_[u].parent) {
        tree_[u].down -= most;
        tree_[u].up += most;
      }
      for (int32_t u = to; u != meet; u = tree_[u].parent) {
        tree_[u].up -= most;
        tree_[u].down += most;
      }
    }
    if (top < 0) {
      in.state = forward ? kFull : kEmpty;
      return true;
    }
    const BasisTree::Node out = tree_[top];
    if (out.arc < g_.arcs) {
      // Empty if nothing more can leave the head.
      Arc& leaving = arc_[out.arc];
      const bool nothing_up = out.up == 0;
      leaving.state = nothing_up == (leaving.tail == top) ? kFull : kEmpty;
    }
    // Room of the arc along the direction of the flow, and against it.
    const int64_t along = room - most;
    const int64_t back = (forward ? flow : g_.capacity[place_[e]] - flow) + most;
    const P more = forward ? reduced(in) : -reduced(in);
    in.state = kInTree;
    if (below_from) {
      tree_.move(top, from, to, meet, {to, e, along, back, 0});
      shift(from, -more);
    } else {
      tree_.move(top, to, from, meet, {from, e, back, along, 0});
      shift(to, more);
    }
    return true;
  }

  // Adds `more` to the prices of the subtree of u, or subtracts it from all others.
  void shift(int32_t u, P more) {
    int32_t v = u, end = tree_.after(tree_.last(u));
    if (2 * tree_[u].size > g_.nodes) {
      std::swap(v, end);
      more = -more;
    }
    for (; v != end; v = tree_.after(v)) {
      price_[v] = P(Whole(price_[v]) + Whole(more));
    }
  }

  template <class>
  friend class NetworkSimplex;

  const Arcs<P>& g_;
  BasisTree tree_;
  P* const price_;
  Arc* const arc_;        // mixed
  int32_t* const place_;  // of the arcs in g_
  P artificial_ = 0;      // the cost of artificial arcs
  int32_t at_ = 0, entering_ = -1;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_CPU_NETWORK_SIMPLEX_H_
