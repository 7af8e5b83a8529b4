// Lists the assignments in the order of their costs.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

struct Enumeration {
  const Matrix& c;
  int64_t k;
  Tree& tree;
  Search search;
  Partition partition;
  Queue queue;
  KnownCosts known;

  // Searches for the best assignment of child `at` of node x. Returns how much more it costs than
  // the best assignment of the problem, or kFar if that is not below `limit`. Sets `end` to the
  // result of the search.
  int64_t find_child(int32_t x, int32_t at, int64_t limit, Least* end) {
    const Node& node = tree.node[x];
    const int32_t* const order = tree.order_of(x);
    const int32_t row = order[at];
    load_node(x, at);
    // The row leaves its column `own`, whose dual rises until another pair of the column is tight.
    const int32_t own = search.now.col4row[row];
    const int64_t u = c.row(row)[own] - search.now.v[own], rise = tree.rises_of(x)[at];
    search.now.v[own] += rise;
    search.now.row4col[own] = kNone;
    const auto close = [&] {
      tree.for_forbidden(x, at, [&](int32_t j) { search.open[j] = kGone; });
    };
    const auto reopen = [&] {
      tree.for_forbidden(x, at, [&](int32_t j) { search.open[j] = search.now.v[j]; });
    };
    const int64_t most = limit == kFar ? kFar : limit - node.cost - rise;
    *end = search.find(row, u, own, most, close, reopen);
    return end->at == kNone ? kFar : node.cost + rise + end->value;
  }

  void load_node(int32_t x, int32_t at) {
    const int64_t* const v = tree.v_of(x);
    for (int64_t j = 0; j < c.stride; j += kLanes) {
      const Vector y = load(v + j);
      store(search.now.v + j, y);
      store(search.open + j, y);
    }
    const int32_t* const col4row = tree.col4row_of(x);
    const int32_t* const order = tree.order_of(x);
    memcpy(search.now.col4row, col4row, size_t(c.all_rows()) * sizeof(int32_t));
    if (c.has_spare()) {
      for (int32_t j = 0; j < c.cols; ++j) search.now.row4col[j] = c.rows;
    }
    for (int32_t i = 0; i < c.rows; ++i) search.now.row4col[col4row[i]] = i;
    for (int32_t t = 0; t < at; ++t) search.open[col4row[order[t]]] = kGone;
  }

  void add_node(int64_t cost, int32_t parent, int32_t at) {
    const int32_t x = tree.size++;
    const int32_t rows = c.rows;
    tree.node[x] = {cost, parent, at, {kNoKey, 0}};
    memcpy(tree.col4row_of(x), search.now.col4row, size_t(c.all_rows()) * sizeof(int32_t));
    memcpy(tree.v_of(x), search.now.v, size_t(c.stride) * sizeof(int64_t));
    int32_t* const order = tree.order_of(x);
    if (parent == kNone) {
      for (int32_t i = 0; i < rows; ++i) order[i] = i;
    } else {
      memcpy(order, tree.order_of(parent), size_t(rows) * sizeof(int32_t));
    }
    if (tree.size == k) return;
    partition.run(x, known.limit());
    tree.renew(x);
    queue.push(x);
  }

  void advance(int32_t x) {
    tree.renew(x);
    queue.sink();
  }

  // Lists the assignments. Returns false if there is none.
  bool run() {
    if (!find_best(search)) return false;
    known.add(0);
    add_node(0, kNone, 0);
    while (tree.size < k && queue.size > 0) {
      const int32_t x = queue.node[0];
      const auto [key, place] = tree.node[x].next;
      if (key == kNoKey) break;
      const int32_t at = int32_t(place);
      Key* const entry = tree.keys_of(x) + at;
      Least end;
      if (is_bound(key)) {
        const int64_t cost = find_child(x, at, known.limit(), &end);
        *entry = cost < kFar ? exact_key(cost) : kNoKey;
        if (cost < kFar) known.add(cost);
        advance(x);
      } else {
        find_child(x, at, kFar, &end);
        search.augment(tree.order_of(x)[at], end);
        *entry = kNoKey;
        advance(x);
        add_node(cost_of(key), x, at);
      }
    }
    return true;
  }
};
