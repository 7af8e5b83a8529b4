// The basis of the network simplex method: a tree of rows and columns, with mass on its arcs.
//
// Nodes are rows, then columns, then a root. Nodes that have no row or column as parent hang from
// the root by artificial arcs. These never carry mass: all of them lead to the root, which can keep
// none, because supplies equal demands. Every arc without mass leads towards the root. Such a basis
// is strongly feasible, and the method cannot cycle (Cunningham 1976).
//
// For each node, `tour` has the positions where an Euler tour of the tree enters and leaves its
// subtree. By comparing positions, a thread sees whether a node is in a subtree or on a cycle,
// without following a path arc by arc.
#ifndef JAXMATCH_CUDA_TRANSPORT_TREE_CUH_
#define JAXMATCH_CUDA_TRANSPORT_TREE_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

// Marks of a thread's nodes. Bit k is set if the k-th node that each_node() visits in this thread
// is marked. The last bit stands for all nodes from there on.
struct Marks {
  static constexpr int kBits = 32;
  uint32_t bits = 0, next = 1;

  __device__ void append(bool mark) {
    if (mark) bits |= next;
    if (next >> (kBits - 1) == 0) next *= 2;
  }
  // Calls f for the marked nodes. If the last bit is set, calls f for all nodes that it stands for.
  template <class F>
  __device__ void each(int32_t nodes, const F& f) const {
    for (uint32_t left = bits; left != 0; left &= left - 1) {
      const int32_t place = __ffs(int(left)) - 1;
      int32_t x = int32_t(threadIdx.x) + place * Team::block_threads();
      do {
        f(x);
        x += Team::block_threads();
      } while (place == kBits - 1 && x < nodes);
    }
  }
};

// All threads of one block call push() and move() together, after a barrier. push() and move() end
// with a barrier.
template <class C>
struct Tree {
  Team team;
  const C c;
  const Workspace& w;
  Visit* const tour;     // [nodes + 1]
  int32_t* const above;  // [nodes + 1] parents
  const int32_t rows, nodes;

  __device__ Tree(Team first_block, const C& costs, const Workspace& workspace, bool in_shared)
      : team(first_block),
        c(costs),
        w(workspace),
        tour(in_shared ? team.s.tour() : w.tour),
        above(in_shared ? reinterpret_cast<int32_t*>(tour + w.nodes + 1) : w.above),
        rows(int32_t(costs.p.n)),
        nodes(int32_t(w.nodes)) {}

  __device__ int32_t root() const { return nodes; }
  __device__ bool is_row(int32_t x) const { return x < rows; }
  // Whether the arc between x and its parent leads to the parent. Arcs lead from rows to columns,
  // and artificial arcs to the root.
  __device__ bool leads_up(int32_t x) const { return is_row(x) || above[x] == root(); }
  __device__ int64_t cost_between(int32_t x, int32_t y) const {
    return is_row(x) ? c.units(x, y - rows) : c.units(y, x - rows);
  }
  template <class F>
  __device__ void each_node(const F& f) const {
    for (int32_t x = int32_t(threadIdx.x); x < nodes; x += Team::block_threads()) f(x);
  }
  __device__ void set_price(int32_t x, int64_t price) const {
    w.price[x] = price;
    w.shadow[x] = float(double(price) / c.units_per_normal);
  }

  // Adds the arc from row i to column `col`, which is not in the tree, with its mass. `gain` is the
  // reduced cost of the arc. Mass moves around the cycle that the arc closes, in the direction that
  // does not raise the cost, until an arc of the cycle is empty. This arc, which may be the new
  // one, leaves the tree. If several arcs are empty, the last of them leaves, counted in the
  // direction of the movement from the cycle's node nearest to the root.
  __device__ void push(int32_t i, int32_t col, int64_t mass, int64_t gain) const {
    const int32_t j = rows + col;
    // Mass moves from the root side down the tree to `from`, over the new arc, and from `to` up the
    // tree.
    const bool more = gain <= 0;
    const int32_t from = more ? i : j, to = more ? j : i;
    const int32_t at_from = tour[from].first, at_to = tour[to].first;
    enum : uint64_t { kOfTo, kOfArc, kOfFrom };
    const auto rank = [](uint64_t where, int64_t order, int64_t x) {
      return where << 62 | uint64_t(order) << 31 | uint64_t(x);
    };
    uint64_t least = ~uint64_t(0), last = ~uint64_t(0);
    Marks on_cycle;
    each_node([&](int32_t x) {
      const Visit own = tour[x];
      const bool of_from = own.holds(at_from), on = of_from != own.holds(at_to);
      on_cycle.append(on);
      if (!on || leads_up(x) != of_from) return;
      const uint64_t flow = uint64_t(w.flow[x]);
      const uint64_t here =
          of_from ? rank(kOfFrom, own.size(), x) : rank(kOfTo, nodes + 1 - own.size(), x);
      if (flow > least || (flow == least && here > last)) return;
      least = flow;
      last = here;
    });
    if (!more && team.thread() == 0) {
      const uint64_t here = rank(kOfArc, 0, 0);
      if (uint64_t(mass) < least || (uint64_t(mass) == least && here < last)) {
        least = uint64_t(mass);
        last = here;
      }
    }
    team.least(least, last);
    const int64_t moved = int64_t(least);
    if (moved > 0) {
      on_cycle.each(nodes, [&](int32_t x) {
        const bool of_from = tour[x].holds(at_from);
        if (of_from == tour[x].holds(at_to)) return;
        w.flow[x] += leads_up(x) == of_from ? -moved : moved;
      });
    }
    if (last >> 62 == kOfArc) return team.sync();
    const int32_t in = last >> 62 == kOfFrom ? from : to;
    move(in, in == from ? to : from, int32_t(last & 0x7fffffff), more ? mass + moved : mass - moved,
         is_row(in) ? gain : -gain);
  }

  // Cuts the subtree of `leaves` off its parent, and hangs it from the node `out` by its own node
  // `in`. The arc between `in` and `out` gets `mass`. Raises u and lowers v by `raise` in the
  // subtree, and rotates its part of the tour to begin at `in`. Each arc on the path from `in` to
  // `leaves` is reversed: its old parent is then the child, where its mass is stored.
  __device__ void move(int32_t in, int32_t out, int32_t leaves, int64_t mass, int64_t raise) const {
    const Visit cut = tour[leaves];
    const int32_t at_in = tour[in].first, at_out = tour[out].first;
    const int32_t length = 2 * cut.size(), inside = length - 2, skipped = at_in - cut.first;
    const bool forward = at_out > cut.last;
    const int32_t begin = at_out + 1 - (forward ? length : 0);
    const auto rotated = [&](int32_t at) {
      const int32_t place = at - cut.first - 1 - skipped;
      return begin + 1 + (place < 0 ? place + inside : place);
    };
    const auto shifted = [&](int32_t at) {
      if (forward) return at > cut.last && at <= at_out ? at - length : at;
      return at < cut.first && at > at_out ? at + length : at;
    };
    int32_t& stem = w.control->stem;
    team.sync();
    each_node([&](int32_t x) {
      const Visit own = tour[x];
      if (!cut.holds(own.first)) {
        tour[x] = {shifted(own.first), shifted(own.last)};
        return;
      }
      set_price(x, w.price[x] + (is_row(x) ? raise : -raise));
      if (!own.holds(at_in)) {
        tour[x] = {rotated(own.first), rotated(own.last)};
      } else if (x != leaves) {
        w.turned[atomicAdd(&stem, 1)] = {above[x], x, rotated(own.last), rotated(own.first),
                                         w.flow[x]};
      }
    });
    team.sync();
    team.each(stem, [&](int64_t k) {
      const Turned own = w.turned[k];
      above[own.node] = own.parent;
      tour[own.node] = {own.first, own.last};
      w.flow[own.node] = own.flow;
    });
    team.one([&] {
      above[in] = out;
      tour[in] = {begin, begin + length - 1};
      w.flow[in] = mass;
    });
    team.sync();
    team.one([&] { stem = 0; });
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_TREE_CUH_
