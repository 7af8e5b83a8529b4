// The basis of the network simplex method: a tree of rows and columns, with mass on its arcs.
//
// Nodes are rows, then columns, then a root. A node without a row or column above it hangs from the
// root by an artificial arc, on which no mass can move: all artificial arcs lead to the root, and
// supplies equal demands. Every arc without mass leads towards the root (Cunningham 1976: a
// strongly feasible basis, with which the method cannot cycle).
#ifndef JAXMATCH_CUDA_TRANSPORT_TREE_CUH_
#define JAXMATCH_CUDA_TRANSPORT_TREE_CUH_

#include "transport/cuda/costs.cuh"

namespace jaxmatch::transport {

template <class C>
struct Tree {
  const Block& b;
  const C& c;
  const Workspace& w;
  const int32_t rows, nodes;

  __device__ Tree(const Block& block, const C& costs, const Workspace& workspace)
      : b(block),
        c(costs),
        w(workspace),
        rows(int32_t(costs.p.n)),
        nodes(int32_t(costs.p.n + costs.p.m)) {}

  __device__ int32_t root() const { return nodes; }
  __device__ bool is_row(int32_t x) const { return x < rows; }
  // True if the arc of x leads to its parent: arcs lead from rows to columns.
  __device__ bool leads_up(int32_t x) const { return is_row(x) || w.above[x] == root(); }
  __device__ int64_t cost_between(int32_t x, int32_t y) const {
    return is_row(x) ? c.units(x, y - rows) : c.units(y, x - rows);
  }
  __device__ int64_t reduced(int32_t i, int32_t j) const {
    return c.units(i, j) - w.price[i] - w.price[rows + j];
  }

  // --- The forest of a plan, before it is a tree: above[x] is kNone for its roots. By one thread.

  __device__ void make_root(int32_t x) const {
    int32_t to = kNone;
    int64_t mass = 0;
    while (x != kNone) {
      const int32_t from = w.above[x];
      const int64_t own = w.flow[x];
      w.above[x] = to;
      w.flow[x] = mass;
      to = x;
      x = from;
      mass = own;
    }
  }

  // Adds mass from row i to column `col`. If there is a path between them, mass moves around the
  // cycle in the cheaper direction until an arc is empty: the plan becomes no dearer. `mark` is
  // another one for each call.
  __device__ void add(int32_t i, int32_t col, int64_t mass, int32_t mark) const {
    const int32_t j = rows + col;
    for (int32_t x = i; x != kNone; x = w.above[x]) w.mark[x] = mark;
    int32_t meet = j;
    while (w.mark[meet] != mark && w.above[meet] != kNone) meet = w.above[meet];
    if (w.mark[meet] != mark) return join(i, j, mass);
    if (w.above[i] == j || w.above[j] == i) {
      w.flow[w.above[i] == j ? i : j] += mass;
      return;
    }
    // More mass from i to j leaves less on every other arc of the path.
    int64_t dearer = c.units(i, col), least_less = INT64_MAX, least_more = mass;
    const auto for_path = [&](const auto& f) {
      for (int32_t x = i; x != meet; x = w.above[x]) f(x, is_row(x));
      for (int32_t x = j; x != meet; x = w.above[x]) f(x, !is_row(x));
    };
    for_path([&](int32_t x, bool loses) {
      const int64_t cost = cost_between(x, w.above[x]);
      dearer += loses ? -cost : cost;
      int64_t& least = loses ? least_less : least_more;
      least = w.flow[x] < least ? w.flow[x] : least;
    });
    const int64_t moved = dearer < 0 ? least_less : -least_more;
    for_path([&](int32_t x, bool loses) { w.flow[x] += loses ? -moved : moved; });
    const int32_t ends[2] = {i, j};
    for (const int32_t end : ends) {
      for (int32_t x = end; x != meet;) {
        const int32_t up = w.above[x];
        if (w.flow[x] == 0) w.above[x] = kNone;
        x = up;
      }
    }
    if (mass + moved > 0) join(i, j, mass + moved);
  }
  __device__ void join(int32_t i, int32_t j, int64_t mass) const {
    make_root(i);
    w.above[i] = j;
    w.flow[i] = mass;
  }

  // --- The tree.

  // Adds the arcs of a sorted plan, and hangs what is not connected from the root. Each part keeps
  // the price that the auction has for one of its columns.
  __device__ void grow(int32_t count) const {
    b.each(nodes + 1, [&](int64_t x) {
      w.above[x] = w.mark[x] = kNone;
      w.size[x] = 1;
      if (x < nodes) w.flow[x] = 0;
    });
    b.sync();
    b.one([&] {
      for (int32_t k = 0; k < count; ++k) {
        add(int32_t(w.key[k] >> 32), int32_t(w.key[k]), w.mass[k], k);
      }
    });
    b.sync();
    b.each(nodes, [&](int64_t x) {
      if (w.above[x] == kNone) {
        w.above[x] = root();
        w.flow[x] = 0;
      }
    });
    b.sync();
    b.each(nodes, [&](int64_t x) {
      const int32_t parent = w.above[x];
      w.arc_cost[x] = parent == root() ? 0 : cost_between(int32_t(x), parent);
      // A column below each part that a row leads, of all the first.
      w.mark[x] = INT32_MAX;
    });
    b.sync();
    b.each(nodes, [&](int64_t x) {
      const int32_t parent = w.above[x];
      if (parent != root() && is_row(parent)) atomicMin(&w.mark[parent], int32_t(x));
    });
    b.sync();
    b.each(nodes, [&](int64_t x) {
      // The price is +-(the cost of the path so far) +- that at the end of it.
      int64_t sum = 0, sign = 1;
      int32_t y = int32_t(x);
      for (; w.above[y] != root(); y = w.above[y]) {
        sum += sign * w.arc_cost[y];
        sign = -sign;
        atomicAdd(&w.size[w.above[y]], 1);
      }
      atomicAdd(&w.size[root()], 1);
      set_price(int32_t(x), sum + sign * price_of_top(y));
    });
    b.sync();
  }

  __device__ int64_t price_of_top(int32_t x) const {
    const auto of_col = [&](int32_t y) {
      const double v = double(w.v[y - rows]) * c.units_per_normal;
      return fabs(v) < 0x1p60 ? int64_t(rint(v)) : int64_t{0};
    };
    if (!is_row(x)) return of_col(x);
    const int32_t col = w.mark[x];
    return col == INT32_MAX ? 0 : w.arc_cost[col] - of_col(col);
  }

  __device__ void set_price(int32_t x, int64_t price) const {
    w.price[x] = price;
    w.shadow[x] = float(double(price) / c.units_per_normal);
  }

  // Whether x is in the subtree of y: sizes grow towards the root.
  __device__ bool is_below(int32_t x, int32_t y) const {
    const int32_t size = w.size[y];
    while (x != y && w.size[x] < size) x = w.above[x];
    return x == y;
  }

  // Raises u by `more` in the subtree of x, and lowers v; or does the opposite elsewhere, if that
  // is smaller.
  __device__ void shift_prices(int32_t x, int64_t more) const {
    const bool below = 2 * w.size[x] <= nodes;
    b.each(nodes, [&](int64_t y) {
      if (is_below(int32_t(y), x) != below) return;
      set_price(int32_t(y), w.price[y] + (is_row(int32_t(y)) == below ? more : -more));
    });
  }

  // Cuts the subtree at `leaves` off, and hangs it by its node `in` from `out`, with `mass` on the
  // new arc. By one thread.
  __device__ void move_subtree(int32_t in, int32_t out, int32_t leaves, int32_t meet,
                               int64_t mass) const {
    const int32_t moved = w.size[leaves];
    for (int32_t x = w.above[leaves]; x != meet; x = w.above[x]) w.size[x] -= moved;
    for (int32_t x = out; x != meet; x = w.above[x]) w.size[x] += moved;
    int32_t x = in, parent = out, below = 0;
    int64_t flow = mass;
    for (;;) {
      const int32_t up = w.above[x], size = w.size[x];
      const int64_t own = w.flow[x];
      w.above[x] = parent;
      w.flow[x] = flow;
      w.size[x] = moved - below;
      if (x == leaves) return;
      below = size;
      flow = own;
      parent = x;
      x = up;
    }
  }
};

}  // namespace jaxmatch::transport

#endif  // JAXMATCH_CUDA_TRANSPORT_TREE_CUH_
