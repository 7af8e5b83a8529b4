// Children of a node: their order and lower bounds of their costs.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

struct Partition {
  const Matrix& c;
  Tree& tree;
  int64_t* open;   // [stride] v, kGone for columns of forced rows
  int64_t* avoid;  // [stride] 0, or kFar for columns that the row at hand may not use
  int64_t* into;   // [stride] least reduced costs of columns, over the rows looked at
  int64_t* bound;  // [rows] of rows

  // The least reduced cost of row i over the columns that it may use. Adds the row to those
  // looked at, but not for its own column.
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

  // Looks at the spare row alone.
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

  // A path leaves its row, and enters the column that the row had. Rows with great bounds come
  // first, after the one that has forbidden pairs already, so that those with good children keep
  // few other rows.
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

  // From the last row on, as child t has only the rows after t left.
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

  // Children that cost at least `limit` are not needed.
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
