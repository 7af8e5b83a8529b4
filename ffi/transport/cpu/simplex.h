// The network simplex method on a strongly feasible basis (Ahuja, Magnanti and Orlin, Network
// Flows, 1993, chapter 11). Prices are exact, in whole units.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

template <class C>
struct Simplex {
  Basis<C>& b;
  const C& c;
  int64_t pivots = 0;
  Poll poll{};

  int64_t reduced(int32_t i, int32_t col) const {
    return c.units(i, col) - b.price[i] - b.price[c.rows + col];
  }

  // Lets the arc from row i to column `col`, whose reduced cost is `gain` < 0, enter the basis.
  // Mass moves around the cycle that the arc closes, until an arc of the cycle is empty. This arc
  // leaves the basis. If several arcs become empty together, the last of them leaves, counted in
  // the direction of the movement from the cycle's node nearest to the root.
  void pivot(int32_t i, int32_t col, int64_t gain) {
    ++pivots;
    const int32_t j = c.rows + col;
    int32_t x = i, y = j;
    while (x != y) {
      if (b.size[x] <= b.size[y]) {
        x = b.above[x];
      } else {
        y = b.above[y];
      }
    }
    const int32_t meet = x;
    poll.after(c.cols);  // the cycle has at most 2 * c.cols arcs
    // Mass moves down from `meet` to i, and up from j to `meet`.
    int64_t mass = INT64_MAX;
    int32_t leaves = kNone;
    bool below_row = false;
    for (x = i; x != meet; x = b.above[x]) {
      if (!b.leads_up(x) || b.flow[x] >= mass) continue;
      mass = b.flow[x];
      leaves = x;
      below_row = true;
    }
    for (x = j; x != meet; x = b.above[x]) {
      if (b.leads_up(x) || b.flow[x] > mass) continue;
      mass = b.flow[x];
      leaves = x;
      below_row = false;
    }
    if (mass > 0) {
      for (x = i; x != meet; x = b.above[x]) b.flow[x] += b.leads_up(x) ? -mass : mass;
      for (x = j; x != meet; x = b.above[x]) b.flow[x] += b.leads_up(x) ? mass : -mass;
    }
    move_subtree(below_row ? i : j, below_row ? j : i, leaves, meet, mass);
    // Makes the reduced cost of the entering arc 0.
    shift_prices(below_row ? i : j, below_row ? gain : -gain);
  }

  // Cuts the subtree of `leaves` off its parent, and hangs it from the node `out` by its own node
  // `in`. The arc between `in` and `out` gets `mass`. `meet`: the lowest common ancestor of `in`
  // and `out`.
  void move_subtree(int32_t in, int32_t out, int32_t leaves, int32_t meet, int64_t mass) {
    const int32_t moved = b.size[leaves];
    for (int32_t x = b.above[leaves]; x != meet; x = b.above[x]) b.size[x] -= moved;
    for (int32_t x = out; x != meet; x = b.above[x]) b.size[x] += moved;
    int32_t x = in, parent = out, below = 0;
    int64_t flow = mass;
    for (;;) {
      const int32_t up = b.above[x], size = b.size[x];
      const int64_t own = b.flow[x];
      b.unlink(x);
      b.link(x, parent);
      b.flow[x] = flow;
      b.size[x] = moved - below;
      if (x == leaves) return;
      below = size;
      flow = own;
      parent = x;
      x = up;
    }
  }

  // Raises u and lowers v by `more` in the subtree of x. If the rest of the tree is smaller, lowers
  // u and raises v there instead, which gives the same reduced costs.
  void shift_prices(int32_t x, int64_t more) {
    const auto shift = [&](int32_t y, int64_t by) {
      b.set_price(y, b.price[y] + (b.is_row(y) ? by : -by));
    };
    if (2 * b.size[x] <= b.nodes) {
      b.for_subtree(x, [&](int32_t y) { shift(y, more); });
      return;
    }
    int32_t count = 0;
    b.stack[count++] = b.root();
    while (count > 0) {
      const int32_t y = b.stack[--count];
      poll.after(kMissNs);
      if (y != b.root()) shift(y, -more);
      for (int32_t z = b.child[y]; z != kNone; z = b.next[z]) {
        if (z != x) b.stack[count++] = z;
      }
    }
  }

  struct Entering {
    int32_t row = kNone, col = 0;
    int64_t gain = 0;

    void offer(int32_t i, int32_t j, int64_t more) {
      if (more >= gain) return;
      *this = {i, j, more};
    }
  };

  // Pivots until no reduced cost is negative. For one row after another, in cyclic order, calls
  // `price(i, entering)`, which offers the best arc of row i. After every few rows, pivots on the
  // best arc offered.
  template <class Price>
  void run_rounds(const Price& price) {
    constexpr int32_t kRowsAtOnce = 4;
    for (int32_t i = 0, clean = 0; clean < c.rows;) {
      Entering entering;
      for (int32_t k = 0; clean < c.rows && (k < kRowsAtOnce || entering.row == kNone); ++k) {
        poll.after(c.cols);
        price(i, entering);
        i = i + 1 == c.rows ? 0 : i + 1;
        ++clean;
      }
      if (entering.row == kNone) return;
      clean = 0;
      pivot(entering.row, entering.col, entering.gain);
    }
  }

  // Pivots to the optimum. Returns whether every cost is a whole number of units.
  bool run() {
    run_rounds([&](int32_t i, Entering& entering) {
      const double least = least_of_row(c, i);
      if (!(least < b.shadow[i] + double(entering.gain))) return;
      const int32_t j = find_column(c, i, least);
      entering.offer(i, j, reduced(i, j));
    });
    // The first run rounded prices to doubles. The second run computes reduced costs exactly, in
    // integers.
    bool whole = true;
    run_rounds([&](int32_t i, Entering& entering) {
      const ExactScan found = scan_exactly(c, b.price + c.rows, i);
      whole &= found.whole;
      entering.offer(i, found.col, found.least - b.price[i]);
    });
    return whole;
  }
};
