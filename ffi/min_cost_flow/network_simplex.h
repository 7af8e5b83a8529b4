// The network simplex method for flows of least cost (Ahuja, Magnanti and Orlin, Network Flows,
// 1993, chapter 11), with the search for entering arcs in blocks that Király and Kovács found best
// (Acta Universitatis Sapientiae, Informatica 4, 2012).
#ifndef JAXMATCH_MIN_COST_FLOW_NETWORK_SIMPLEX_H_
#define JAXMATCH_MIN_COST_FLOW_NETWORK_SIMPLEX_H_

#include <cmath>
#include <cstdint>

#include "common/host_device.h"
#include "min_cost_flow/arcs.h"
#include "min_cost_flow/basis_tree.h"
#include "min_cost_flow/start_forest.h"

namespace jaxmatch::min_cost_flow {

// A basis is a spanning tree of the nodes and a root. Every node has an artificial arc to or from
// the root that costs more than any path. Arcs outside of the tree carry nothing or their capacity.
//
// The basis stays strongly feasible: each arc of the tree can carry more toward the root. So no
// sequence of pivots repeats.
//
// Lanes are the threads that solve the network together. They share the search for entering arcs;
// one of them changes the tree.
template <class P, class Lanes>
class NetworkSimplex {
 public:
  // Takes memory. Call one of the functions that begin, then solve().
  JAXMATCH_HOST_DEVICE NetworkSimplex(const Arcs<P>& g, Lanes& lanes)
      : g_(g),
        lanes_(lanes),
        tree_(g.nodes, lanes),
        price_(lanes.template take_hot<P>(int64_t(g.nodes) + 1)),
        arc_(lanes.template take_hot<Arc>(g.arcs)),
        place_(Lanes::kAlone ? lanes.template take<int32_t>(g.arcs) : nullptr) {
    mix();
    find_artificial();
  }

  // Begins with all flow on artificial arcs.
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE void begin() {
    int32_t *const first = take_nodes(), *const sibling = take_nodes();
    lanes_.each(g_.nodes, [&](int32_t u) {
      const int64_t b = g_.supply[u];
      const bool from = b >= 0;
      tree_[u] = {tree_.root(), g_.arcs + u, from ? kNoLimit : -b, from ? b : kNoLimit, 1};
      price_[u] = from ? -artificial_ : artificial_;
    });
    if (lanes_.leads()) {
      price_[tree_.root()] = 0;
      tree_.build(first, sibling);
      if constexpr (Lanes::kAlone) enter_early(first, sibling);
    }
    lanes_.sync();
  }

  // Begins with the basis of another solve of the same arcs, with other costs. Takes the tree over.
  template <class Q>
  JAXMATCH_HOST_DEVICE void begin_with(const NetworkSimplex<Q, Lanes>& earlier) {
    tree_ = earlier.tree_;
    lanes_.each(g_.arcs, [&](int32_t k) { arc_[k].state = State(int32_t(earlier.arc_[k].state)); });
    if (lanes_.leads()) reprice();
    lanes_.sync();
  }

  // Begins with a flow and prices, which need be neither feasible nor optimal.
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE void begin_at(const int64_t* flow, const P* price) {
    StartForest forest(g_.nodes, lanes_);
    int64_t* const excess = lanes_.template take<int64_t>(g_.nodes);
    int64_t* const x = lanes_.template take<int64_t>(g_.arcs);
    int32_t *const first = take_nodes(), *const sibling = take_nodes();
    if (lanes_.leads()) {
      grow(forest, flow, price, excess, x);
      forest.for_parents([&](int32_t u, int32_t parent, int32_t k) { hang(u, parent, k, x); });
      forest.for_children_first([&](int32_t u) { settle(u, x, excess); });
      tree_.build(first, sibling);
      reprice();
      // Arcs between their bounds that close cycles go to a bound, or enter the tree.
      for (int32_t k = 0; k < g_.arcs; ++k) {
        if (arc_[k].state != kBetween) continue;
        if (reduced(arc_[k]) >= 0 || !pivot(k, x[k], true)) pivot(k, x[k], false);
      }
    }
    lanes_.sync();
  }

  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE Outcome solve() {
    const int32_t root = int32_t(std::sqrt(double(g_.arcs)));
    const int32_t block = Lanes::kAlone ? larger(32, 2 * root) : larger(512, 4 * root);
    int64_t pivots = 0;
    for (int32_t e; (e = find_entering(block)) >= 0;) {
      if (++pivots % 64 == 0) lanes_.poll();
      bool moved = true;
      if (lanes_.leads()) moved = pivot(e);
      if (!lanes_.from_leader(moved)) {
        entering_ = e;
        return Outcome::kUnbounded;
      }
    }
    return left() > 0 ? Outcome::kInfeasible : Outcome::kOptimal;
  }

  // The flow on artificial arcs: supplies that could not leave.
  JAXMATCH_HOST_DEVICE int64_t left() const {
    int64_t sum = 0;
    lanes_.each(g_.nodes, [&](int32_t u) {
      if (tree_[u].arc >= g_.arcs && is_from(u)) sum += tree_[u].down;
    });
    return lanes_.sum(sum);
  }

  // After solve(). The reduced cost of an arc is its cost plus the price of its tail, less that of
  // its head.
  JAXMATCH_HOST_DEVICE P* price() { return price_; }
  JAXMATCH_HOST_DEVICE P price_of_root() const { return price_[tree_.root()]; }
  JAXMATCH_HOST_DEVICE P artificial() const { return artificial_; }

  JAXMATCH_HOST_DEVICE void write_flow(int64_t* flow) const {
    lanes_.each(g_.arcs, [&](int32_t k) {
      flow[place(k)] = arc_[k].state == kFull ? g_.capacity[place(k)] : 0;
    });
    lanes_.each(g_.nodes, [&](int32_t u) {
      const BasisTree::Node& at = tree_[u];
      if (at.arc < g_.arcs) flow[place(at.arc)] = arc_[at.arc].tail == u ? at.down : at.up;
    });
  }

  // After kUnbounded: calls f(arc) for the arcs of a cycle of negative cost without limits.
  template <class F>
  JAXMATCH_HOST_DEVICE void for_cycle(const F& f) const {
    const Arc& in = arc_[entering_];
    f(place(entering_));
    const int32_t meet = tree_.meet(in.tail, in.head);
    for (int32_t u = in.tail; u != meet; u = tree_[u].parent) f(place(tree_[u].arc));
    for (int32_t u = in.head; u != meet; u = tree_[u].parent) f(place(tree_[u].arc));
  }

 private:
  using Whole = typename UnsignedOf<P>::Type;

  // Arcs are between their bounds only at the beginning.
  enum State : int32_t { kFull = -1, kInTree = 0, kEmpty = 1, kBetween = 2 };
  struct Arc {
    int32_t tail, head;
    P cost;
    State state;
  };

  JAXMATCH_HOST_DEVICE int32_t* take_nodes() {
    return lanes_.template take<int32_t>(int64_t(g_.nodes) + 1);
  }

  // Neighbouring arcs often share a tail. Mixed, the arcs of a block differ more, and the best of
  // them is better. Several lanes search so many arcs that this does not matter.
  JAXMATCH_HOST_DEVICE void mix() {
    if constexpr (Lanes::kAlone) {
      const int32_t step = larger(8, int32_t(std::sqrt(double(g_.arcs))));
      int32_t k = 0;
      for (int32_t first = 0; first < step && first < g_.arcs; ++first) {
        for (int64_t e = first; e < g_.arcs; e += step) {
          arc_[k] = {g_.tail[e], g_.head[e], g_.cost[e], kEmpty};
          place_[k++] = int32_t(e);
        }
      }
    } else {
      lanes_.each(g_.arcs,
                  [&](int32_t e) { arc_[e] = {g_.tail[e], g_.head[e], g_.cost[e], kEmpty}; });
    }
  }
  // The number in g_ of arc k.
  JAXMATCH_HOST_DEVICE int32_t place(int32_t k) const { return Lanes::kAlone ? place_[k] : k; }
  JAXMATCH_HOST_DEVICE int64_t capacity(int32_t k) const { return g_.capacity[place(k)]; }

  // Whether the arc of u, which is artificial, leads to the root. It has no limit.
  JAXMATCH_HOST_DEVICE bool is_from(int32_t u) const { return !is_limited(tree_[u].up); }

  JAXMATCH_HOST_DEVICE void find_artificial() {
    P most = 0;
    lanes_.each(g_.arcs, [&](int32_t e) {
      const P size = g_.cost[e] < 0 ? -g_.cost[e] : g_.cost[e];
      most = size > most ? size : most;
    });
    artificial_ = (lanes_.max(most) + 1) * P(g_.nodes);
  }

  // Lets arcs enter the tree early that will probably stay, if they cost less than the tree.
  JAXMATCH_HOST_DEVICE void enter_early(int32_t* memory, int32_t* queue) {
    int32_t sources = 0, sinks = 0, sink = -1;
    for (int32_t u = 0; u < g_.nodes; ++u) {
      sources += g_.supply[u] > 0;
      sinks += g_.supply[u] < 0;
      if (g_.supply[u] < 0) sink = u;
    }
    if (sources == 1 && sinks == 1) {
      enter_paths_to(sink, memory, queue);
    } else {
      enter_cheapest(memory);
    }
  }
  // The cheapest arc into each demand.
  JAXMATCH_HOST_DEVICE void enter_cheapest(int32_t* cheapest) {
    for (int32_t u = 0; u < g_.nodes; ++u) cheapest[u] = -1;
    for (int32_t k = 0; k < g_.arcs; ++k) {
      int32_t& least = cheapest[arc_[k].head];
      if (least < 0 || arc_[k].cost < arc_[least].cost) least = k;
    }
    for (int32_t u = 0; u < g_.nodes; ++u) {
      const int32_t k = cheapest[u];
      if (g_.supply[u] < 0) enter_if_cheaper(k);
    }
  }
  // Arcs of a tree of shortest paths to the only sink, of arcs that can carry the whole supply.
  JAXMATCH_HOST_DEVICE void enter_paths_to(int32_t sink, int32_t* first, int32_t* queue) {
    const int64_t total = -g_.supply[sink];
    int32_t* const next = lanes_.template take<int32_t>(g_.arcs);
    for (int32_t u = 0; u < g_.nodes; ++u) first[u] = -1;
    for (int32_t k = 0; k < g_.arcs; ++k) {
      next[k] = first[arc_[k].head];
      first[arc_[k].head] = k;
    }
    bool* const seen = lanes_.template take<bool>(g_.nodes);
    for (int32_t u = 0; u < g_.nodes; ++u) seen[u] = u == sink;
    int32_t found = 0;
    queue[found++] = sink;
    for (int32_t i = 0; i < found; ++i) {
      for (int32_t k = first[queue[i]]; k >= 0; k = next[k]) {
        const int32_t u = arc_[k].tail;
        if (seen[u] || capacity(k) < total) continue;
        seen[u] = true;
        queue[found++] = u;
        enter_if_cheaper(k);
      }
    }
  }
  JAXMATCH_HOST_DEVICE void enter_if_cheaper(int32_t k) {
    if (k >= 0 && arc_[k].state == kEmpty && reduced(arc_[k]) < 0) pivot(k);
  }

  // Builds a forest of arcs whose flow is between their bounds and then of arcs with a reduced cost
  // of 0. Sets x to the flow, and excess to what each node sends too little.
  JAXMATCH_HOST_DEVICE void grow(StartForest& forest, const int64_t* flow, const P* price,
                                 int64_t* excess, int64_t* x) {
    forest.begin();
    for (int32_t u = 0; u < g_.nodes; ++u) excess[u] = g_.supply[u];
    for (int32_t k = 0; k < g_.arcs; ++k) {
      Arc& a = arc_[k];
      const int64_t given = flow[place(k)], most = capacity(k);
      x[k] = given < 0 ? 0 : (given < most ? given : is_limited(most) ? most : 0);
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
  }

  // Gives node u the arc k to its parent; k is -1 for the root of a tree of the forest.
  JAXMATCH_HOST_DEVICE void hang(int32_t u, int32_t parent, int32_t k, const int64_t* x) {
    if (k < 0) {
      tree_[u] = {tree_.root(), g_.arcs + u, 0, 0, 1};
      return;
    }
    const int64_t along = capacity(k) - x[k], back = x[k];
    if (arc_[k].tail == u) {
      tree_[u] = {parent, k, along, back, 1};
    } else {
      tree_[u] = {parent, k, back, along, 1};
    }
  }

  // Moves the excess of u, whose subtree is settled, to its parent. If the arc cannot take all of
  // it or could then carry no more, it leaves the tree, and an artificial arc takes the rest.
  JAXMATCH_HOST_DEVICE void settle(int32_t u, int64_t* x, int64_t* excess) {
    BasisTree::Node& at = tree_[u];
    if (at.arc < g_.arcs) {
      const int64_t b = excess[u];
      const int64_t move = b > at.up ? at.up : (b < -at.down ? -at.down : b);
      at.up -= move;
      at.down += move;
      excess[u] -= move;
      excess[at.parent] += move;
      if (excess[u] == 0 && at.up > 0) return;
      const bool leads_up = arc_[at.arc].tail == u;
      x[at.arc] = leads_up ? at.down : at.up;
      const int64_t room = leads_up ? at.up : at.down;
      arc_[at.arc].state = x[at.arc] == 0 ? kEmpty : (room == 0 ? kFull : kBetween);
    }
    const int64_t b = excess[u];
    at = {tree_.root(), g_.arcs + u, b >= 0 ? kNoLimit : -b, b >= 0 ? b : kNoLimit, 1};
  }

  // Sets all prices so that arcs of the tree have reduced costs of 0.
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE void reprice() {
    price_[tree_.root()] = 0;
    for (int32_t u = tree_.after(tree_.root()); u != tree_.root(); u = tree_.after(u)) {
      const BasisTree::Node& at = tree_[u];
      const bool real = at.arc < g_.arcs;
      const P cost = real ? arc_[at.arc].cost : artificial_;
      const bool leads_up = real ? arc_[at.arc].tail == u : is_from(u);
      price_[u] = price_[at.parent] + (leads_up ? -cost : cost);
    }
  }

  // Only differences of prices matter. They may wrap around, because pivots can shift all prices.
  JAXMATCH_HOST_DEVICE P reduced(const Arc& a) const {
    return P(Whole(a.cost) + Whole(price_[a.tail]) - Whole(price_[a.head]));
  }

  // Searches blocks of arcs in turn. Returns the best arc of the first block that has one, or -1.
  JAXMATCH_HOST_DEVICE int32_t find_entering(int32_t block) {
    for (int32_t seen = 0; seen < g_.arcs;) {
      const int32_t first = at_, rest = g_.arcs - at_;
      const int32_t count = rest < block ? rest : block;
      P best = 0;
      int32_t found = -1;
      lanes_.each(count, [&](int32_t i) {
        const Arc& a = arc_[first + i];
        const P x = reduced(a) * int32_t(a.state);
        if (x < best) {
          best = x;
          found = first + i;
        }
      });
      seen += count;
      at_ = first + count == g_.arcs ? 0 : first + count;
      found = lanes_.best(best, found);
      if (found >= 0) return found;
    }
    return -1;
  }

  JAXMATCH_HOST_DEVICE bool pivot(int32_t e) {
    const bool is_empty = arc_[e].state == kEmpty;
    return pivot(e, is_empty ? 0 : capacity(e), is_empty);
  }

  // Lets arc e, which carries `flow`, enter the tree. More flow, or less, moves around the cycle
  // that it closes, until an arc can carry no more: that arc leaves. Returns false if there is no
  // limit.
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE bool pivot(int32_t e, int64_t flow, bool forward) {
    Arc& in = arc_[e];
    const int32_t from = forward ? in.tail : in.head, to = forward ? in.head : in.tail;
    // Flow runs down to `from` from the first common ancestor `meet`, over the arc, and from `to`
    // up to `meet`. Of the arcs that limit it, the last one leaves. That keeps the basis strongly
    // feasible.
    const int64_t room = forward ? capacity(e) - flow : flow;
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
      for (u = from; u != meet; u = tree_[u].parent) {
        tree_[u].down -= most;
        tree_[u].up += most;
      }
      for (u = to; u != meet; u = tree_[u].parent) {
        tree_[u].up -= most;
        tree_[u].down += most;
      }
    }
    if (top < 0) {
      in.state = forward ? kFull : kEmpty;
      return true;
    }
    const int32_t out = tree_[top].arc;
    if (out < g_.arcs) {
      // Empty if nothing more can leave the head.
      const bool nothing_up = tree_[top].up == 0;
      arc_[out].state = nothing_up == (arc_[out].tail == top) ? kFull : kEmpty;
    }
    // Room of the arc along the direction of the flow, and against it.
    const int64_t along = room - most, back = (forward ? flow : capacity(e) - flow) + most;
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
  JAXMATCH_HOST_DEVICE void shift(int32_t u, P more) {
    int32_t v = u, end = tree_.after(tree_.last(u));
    if (2 * tree_[u].size > g_.nodes) {
      v = end;
      end = u;
      more = -more;
    }
    for (; v != end; v = tree_.after(v)) price_[v] = P(Whole(price_[v]) + Whole(more));
  }

  template <class, class>
  friend class NetworkSimplex;

  const Arcs<P>& g_;
  Lanes& lanes_;
  BasisTree tree_;
  P* const price_;
  Arc* const arc_;        // mixed
  int32_t* const place_;  // of the arcs in g_
  P artificial_ = 0;      // the cost of artificial arcs
  int32_t at_ = 0, entering_ = -1;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_NETWORK_SIMPLEX_H_
