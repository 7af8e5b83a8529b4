// The basis of the network simplex method: a tree of rows and columns, with mass on its arcs.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Nodes are rows, then columns, then a root. Nodes that have no row or column as parent hang from
// the root by artificial arcs. These never carry mass: all of them lead to the root, which can keep
// none, because supplies equal demands. Every arc without mass leads towards the root. Such a basis
// is strongly feasible, and the method cannot cycle (Cunningham 1976).
template <class C>
struct Basis {
  const C& c;
  int32_t nodes;                     // number of nodes without the root
  int32_t* above;                    // [nodes + 1] parents
  int64_t* flow;                     // [nodes] mass on the arc to the parent
  int32_t *child, *next, *previous;  // linked lists of children
  int32_t* size;                     // [nodes + 1] numbers of nodes in subtrees
  int64_t* price;                    // u of rows, v of columns, in whole units
  double* shadow;                    // prices as doubles; the part for columns is c.v
  int32_t* stack;                    // [nodes + 1] scratch
  Poll poll{};

  int32_t root() const { return nodes; }
  bool is_row(int32_t x) const { return x < c.rows; }
  // Whether the arc between x and its parent leads to the parent. Arcs lead from rows to columns,
  // and artificial arcs to the root.
  bool leads_up(int32_t x) const { return is_row(x) || above[x] == root(); }
  int64_t cost_between(int32_t x, int32_t y) const {
    return is_row(x) ? c.units(x, y - c.rows) : c.units(y, x - c.rows);
  }

  // --- The forest of a plan, before grow_tree() makes it a tree. above[x] is kNone for the roots
  // of its trees.

  void clear() {
    for (int32_t x = 0; x < nodes; ++x) above[x] = size[x] = kNone;
  }

  void make_root(int32_t x) {
    int32_t to = kNone;
    int64_t mass = 0;
    while (x != kNone) {
      poll.after(kMissNs);
      const int32_t from = above[x];
      const int64_t own = flow[x];
      above[x] = to;
      flow[x] = mass;
      to = x;
      x = from;
      mass = own;
    }
  }

  // Adds mass from row i to column `col`. If the forest already has a path between them, the new
  // arc closes a cycle. Then mass moves around the cycle, in the direction that does not raise the
  // cost of the plan, until an arc is empty and can be removed. `mark` must differ in each call.
  // Before grow_tree(), `size` holds the last mark of each node.
  void add(int32_t i, int32_t col, int64_t mass, int32_t mark) {
    const int32_t j = c.rows + col;
    for (int32_t x = i; x != kNone; x = above[x]) {
      size[x] = mark;
      poll.after(kMissNs);
    }
    int32_t meet = j;
    while (size[meet] != mark && above[meet] != kNone) meet = above[meet];
    if (size[meet] != mark) {
      make_root(i);
      above[i] = j;
      flow[i] = mass;
      return;
    }
    if (above[i] == j || above[j] == i) {
      flow[above[i] == j ? i : j] += mass;
      return;
    }
    // More mass on the new arc means less mass on the arcs of the cycle for which `loses` is true,
    // and more on its other arcs.
    int64_t dearer = c.units(i, col), least_less = INT64_MAX, least_more = mass;
    const auto for_path = [&](const auto& f) {
      for (int32_t x = i; x != meet; x = above[x]) f(x, is_row(x));
      for (int32_t x = j; x != meet; x = above[x]) f(x, !is_row(x));
    };
    for_path([&](int32_t x, bool loses) {
      const int64_t cost = cost_between(x, above[x]);
      dearer += loses ? -cost : cost;
      int64_t& least = loses ? least_less : least_more;
      least = flow[x] < least ? flow[x] : least;
    });
    const int64_t moved = dearer < 0 ? least_less : -least_more;
    for_path([&](int32_t x, bool loses) { flow[x] += loses ? -moved : moved; });
    const int32_t ends[2] = {i, j};
    for (const int32_t end : ends) {
      for (int32_t x = end; x != meet;) {
        const int32_t up = above[x];
        if (flow[x] == 0) above[x] = kNone;
        x = up;
      }
    }
    if (mass + moved == 0) return;
    make_root(i);
    above[i] = j;
    flow[i] = mass + moved;
  }

  // --- The tree.

  void link(int32_t x, int32_t parent) {
    above[x] = parent;
    previous[x] = kNone;
    next[x] = child[parent];
    if (child[parent] != kNone) previous[child[parent]] = x;
    child[parent] = x;
  }
  void unlink(int32_t x) {
    if (previous[x] != kNone) {
      next[previous[x]] = next[x];
    } else {
      child[above[x]] = next[x];
    }
    if (next[x] != kNone) previous[next[x]] = previous[x];
  }
  void set_price(int32_t x, int64_t y) {
    price[x] = y;
    shadow[x] = double(y);
  }

  // Calls f for x and all nodes below it, parents first.
  template <class F>
  void for_subtree(int32_t x, const F& f) {
    int32_t count = 0;
    stack[count++] = x;
    while (count > 0) {
      const int32_t y = stack[--count];
      poll.after(kMissNs);
      f(y);
      for (int32_t z = child[y]; z != kNone; z = next[z]) stack[count++] = z;
    }
  }

  // Turns the forest into a tree. In each tree of the forest, the price of one column is c.v,
  // rounded to a multiple of c.coarse. All other prices follow from it, because the arcs have
  // reduced cost 0.
  void grow_tree(int32_t* order) {
    for (int32_t x = 0; x <= nodes; ++x) {
      child[x] = kNone;
      size[x] = 1;
    }
    above[root()] = kNone;
    for (int32_t x = 0; x < nodes; ++x) {
      poll.after(kMissNs);
      if (above[x] == kNone) flow[x] = 0;
      link(x, above[x] == kNone ? root() : above[x]);
    }
    int32_t count = 0;
    for_subtree(root(), [&](int32_t x) { order[count++] = x; });
    for (int32_t k = count - 1; k > 0; --k) {
      poll.after(kMissNs);
      size[above[order[k]]] += size[order[k]];
    }
    for (int32_t k = 1; k < count; ++k) {
      poll.after(kMissNs);
      const int32_t x = order[k], parent = above[x];
      if (parent != root()) {
        set_price(x, cost_between(x, parent) - price[parent]);
      } else {
        // If the top of a tree of the forest is a row, its price follows from that of a column
        // below it.
        const int32_t col = is_row(x) ? child[x] : x;
        // Any price is a start, but those of an auction may be beyond all sums along paths.
        const double given = rint(c.v[col - c.rows] / c.coarse) * c.coarse;
        const int64_t v = llrint(fmin(fmax(given, -kMostFirstPrice), kMostFirstPrice));
        set_price(x, is_row(x) ? cost_between(x, col) - v : v);
      }
    }
  }
};
