// Recomputes the flows of a plan from the given float masses. The solver rounds masses to multiples
// of one unit, which is too coarse for masses far below the total.
//
// Included inside a namespace, after masses.inc.h: by the CUDA kernels, and by the CPU solver once
// per instruction set. The solvers of different instruction sets must not share inline functions
// (see assignment/cpu/problem.h).

// The arcs of a basic plan form a forest. run() removes its leaves one by one: a leaf sends its
// mass along its only arc. The node of greatest mass in each tree is never removed. If the other
// end of the arc cannot take all the mass of the leaf, the rest stays at the leaf until send()
// moves it, by a new arc if necessary.
//
// Nodes are rows, then columns.
struct PlanFlows {
  int32_t rows, nodes;
  double spare;   // allowed error of the total flow of a node, relative to its mass
  uint64_t* key;  // [2 nodes] arcs: row << 32 | column
  double* flow;   // [2 nodes] flow of each arc
  double* mass;   // [nodes] given masses
  double* rest;   // [nodes] mass that has not been sent or received yet
  int32_t* arcs;  // [nodes] number of remaining arcs
  int32_t* link;  // [nodes] exclusive or of the indices of the remaining arcs
  // [nodes] at first the node of greatest mass in the subtree of the node; then kNone for nodes
  // that are never removed
  int32_t* stays;
  int32_t count = 0, used = 0;  // number of arcs; number of arcs with flow
  double paid = 0;              // sum over all send() of mass times reduced cost
  double lost = 0;              // sum of the sizes of the rounding errors of `rest`

  JAXMATCH_HOST_DEVICE bool is_row(int32_t x) const { return x < rows; }
  JAXMATCH_HOST_DEVICE int32_t row_of(int32_t k) const { return int32_t(key[k] >> 32); }
  JAXMATCH_HOST_DEVICE int32_t col_of(int32_t k) const { return rows + int32_t(uint32_t(key[k])); }
  JAXMATCH_HOST_DEVICE double room(int32_t x) const { return rest[x] + spare * mass[x]; }
  JAXMATCH_HOST_DEVICE bool has_left(int32_t x) const { return rest[x] > spare * mass[x]; }

  // Computes the flows of the first `given` arcs, and adds no arcs. One thread calls it.
  JAXMATCH_HOST_DEVICE void run(int32_t given) {
    count = given;
    for (int32_t x = 0; x < nodes; ++x) {
      stays[x] = x;
      rest[x] = 0;
    }
    peel([&](int32_t x, int32_t, int32_t y) {
      rest[x] = 1;  // x was removed
      if (mass[stays[x]] > mass[stays[y]]) stays[y] = stays[x];
    });
    for (int32_t x = 0; x < nodes; ++x) link[x] = 0;
    for (int32_t x = 0; x < nodes; ++x) {
      if (rest[x] == 0) link[stays[x]] = 1;
    }
    for (int32_t x = 0; x < nodes; ++x) {
      stays[x] = link[x] == 1 ? kNone : x;
      rest[x] = mass[x];
    }
    peel([&](int32_t x, int32_t k, int32_t y) {
      const double most = room(y), wanted = rest[x] < most ? rest[x] : most;
      flow[k] = 0;
      if (wanted > 0) move(x, y, k, wanted);
    });
  }

  JAXMATCH_HOST_DEVICE uint64_t key_of(int32_t x, int32_t y) const {
    const int32_t row = is_row(x) ? x : y;
    return uint64_t(uint32_t(row)) << 32 | uint32_t(x + y - row - rows);
  }
  // Moves mass between nodes x and y: along arc k or, if k is kNone, along a new arc. `slack` is
  // the reduced cost of the pair.
  JAXMATCH_HOST_DEVICE void send(int32_t x, int32_t y, int32_t k, double moved, double slack) {
    if (k == kNone) {
      k = count++;
      key[k] = key_of(x, y);
      flow[k] = 0;
    }
    paid += moved * (slack > 0 ? slack : 0);
    move(x, y, k, moved);
  }
  JAXMATCH_HOST_DEVICE bool is_full() const { return used >= nodes - 1 || count >= 2 * nodes; }

  // Bounds the difference between the mass of node x and its total flow, apart from the rounding
  // errors in `lost`.
  JAXMATCH_HOST_DEVICE double off(int32_t x) const { return fabs(rest[x]) + 0x1p-51 * mass[x]; }

 private:
  JAXMATCH_HOST_DEVICE void move(int32_t x, int32_t y, int32_t k, double moved) {
    used += flow[k] == 0;
    flow[k] += moved;
    rest[x] = less(rest[x], moved);
    rest[y] = less(rest[y], moved);
  }
  // a - b. Adds the rounding error (TwoSum, Knuth) to `lost`.
  JAXMATCH_HOST_DEVICE double less(double a, double b) {
    const double difference = a - b, part = difference - a;
    lost += fabs((a - (difference - part)) - (b + part));
    return difference;
  }

  // Removes leaves until the only leaves left are nodes that are never removed. Calls f(x, arc, y)
  // for each removed leaf x, with its last arc and the other end y of this arc.
  template <class F>
  JAXMATCH_HOST_DEVICE void peel(const F& f) {
    for (int32_t x = 0; x < nodes; ++x) arcs[x] = link[x] = 0;
    for (int32_t k = 0; k < count; ++k) {
      const int32_t ends[2] = {row_of(k), col_of(k)};
      for (const int32_t x : ends) {
        ++arcs[x];
        link[x] ^= k;
      }
    }
    for (int32_t from = 0; from < nodes; ++from) {
      for (int32_t x = from; arcs[x] == 1 && stays[x] != kNone;) {
        const int32_t k = link[x], y = row_of(k) + col_of(k) - x;
        arcs[x] = 0;
        --arcs[y];
        link[y] ^= k;
        f(x, k, y);
        x = y;
      }
    }
  }
};
