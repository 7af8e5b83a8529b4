// Partitions a node into its children (k_best/cpu/tree.h): their order, and lower bounds on their
// costs.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

struct Partition {
  const Matrix& c;
  Tree& tree;
  int64_t* open;   // [stride] dual of each column; kGone if a forced row has the column
  int64_t* avoid;  // [stride] kFar for columns that the current row must not use, else 0
  int64_t* into;   // [stride] least reduced cost of each column over the rows scanned so far
  int64_t* bound;  // [rows] lower bound on the extra cost if a row gives up its pair

  // Returns the least reduced cost of row i, whose dual is `u`, over the columns that it may use.
  // Also lowers `into` to the reduced costs of the row, except in the row's own column `own`.
  int64_t look_at(int32_t i, int32_t own, int64_t u) {
    const int64_t* const cost = c.row(i);
    const int64_t kept = into[own];
    const Vector offset = splat(u);
    Vector least = splat(kFar);
    for (int64_t j = 0; j < c.stride; j += kLanes) {
      const Vector x = load(cost + j) - load(open + j) - offset;
      least = lesser(least, x + load(avoid + j));
      store(into + j, lesser(x, load(into + j)));
    }
    into[own] = kept;
    return least_of(least);
  }

  // Resets `into` to the spare row alone (see Matrix in k_best/cpu/units.h).
  void begin(const int32_t* col4row) {
    for (int64_t j = 0; j < c.stride; ++j) into[j] = kFar;
    if (!c.has_spare()) return;
    const int32_t own = col4row[c.rows];
    look_at(c.rows, own, -open[own]);
  }

  int64_t dual_of(int32_t x, int32_t i) const {
    const int32_t j = tree.col4row_of(x)[i];
    return c.row(i)[j] - tree.v_of(x)[j];
  }

  // Sorts the rows of node x that are not forced. If a row gives up its pair, the shortest path
  // leaves the row by another pair, and enters the column of the given-up pair from another row. So
  // the least reduced cost of the row plus that of the column is a lower bound on the length of the
  // path. The row in front stays there, because it may already have forbidden pairs. The other rows
  // follow in order of decreasing bound. So the children that are probably cheap, and thus
  // partitioned further, come late in the order. There they have more forced rows, and so fewer
  // children.
  void sort_rows(int32_t x) {
    const int32_t* const col4row = tree.col4row_of(x);
    int32_t* const order = tree.order_of(x);
    const int32_t first = tree.node[x].forced;
    begin(col4row);
    for (int32_t t = first; t < c.rows; ++t) {
      const int32_t i = order[t];
      avoid[col4row[i]] = kFar;
      bound[i] = look_at(i, col4row[i], dual_of(x, i));
      avoid[col4row[i]] = 0;
    }
    for (int32_t t = first; t < c.rows; ++t) bound[order[t]] += into[col4row[order[t]]];
    for (int32_t t = first + 2; t < c.rows; ++t) {
      const int32_t i = order[t];
      int32_t at = t;
      for (; at > first + 1 && bound[order[at - 1]] < bound[i]; --at) order[at] = order[at - 1];
      order[at] = i;
    }
  }

  // Sets lower bounds on the costs of the children of node x. Visits the rows backwards: in child t
  // only row t and the rows after it are not forced, so `into` must cover only these rows.
  void bound_children(int32_t x, int64_t limit) {
    const int32_t *const col4row = tree.col4row_of(x), *const order = tree.order_of(x);
    const Node& node = tree.node[x];
    begin(col4row);
    for (int32_t t = node.forced; t < c.rows; ++t) avoid[col4row[order[t]]] = kFar;
    for (int32_t t = c.rows - 1; t >= node.forced; --t) {
      const int32_t i = order[t], own = col4row[i];
      const int64_t enters = into[own];
      tree.for_forbidden(x, i, t == node.forced, [&](int32_t j) { avoid[j] = kFar; });
      const int64_t leaves = look_at(i, own, dual_of(x, i));
      avoid[own] = 0;
      if (leaves >= kFar || enters >= kFar) continue;
      const int64_t least = node.cost + leaves + enters;
      if (least >= limit) continue;
      tree.keys_of(x)[t] = bound_key(least);
      tree.rises_of(x)[t] = enters;
    }
  }

  // Partitions node x. Children whose bound is at least `limit` get no key, since they are not
  // needed.
  void run(int32_t x, int64_t limit) {
    const int32_t *const col4row = tree.col4row_of(x), *const order = tree.order_of(x);
    const int64_t* const v = tree.v_of(x);
    for (int64_t j = 0; j < c.stride; j += kLanes) {
      store(open + j, load(v + j));
      store(avoid + j, splat(0));
    }
    for (int32_t t = 0; t < tree.node[x].forced; ++t) open[col4row[order[t]]] = kGone;
    for (int64_t t = 0; t < tree.keys; ++t) tree.keys_of(x)[t] = kNoKey;
    sort_rows(x);
    bound_children(x, limit);
  }
};
