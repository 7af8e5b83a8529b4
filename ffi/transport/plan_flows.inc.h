// The flows of a plan, computed again from the masses as they are given: units of one grid say
// nothing of masses that are far below the total.
//
// Included inside a namespace, after masses.inc.h: once per instruction set by the CPU's solver,
// which must not share inline functions, and by the CUDA kernels.

// The arcs of a basic plan form a forest. A node with one arc left sends along it what is left of
// its mass, and leaves the forest; the node of greatest mass stays until the end in each tree. What
// a node then has left, because the other end could not take it, leaves by a new arc.
//
// Nodes are rows, then columns.
struct PlanFlows {
  int32_t rows, nodes;
  double spare;    // what a node may take or lack, relative to its mass
  uint64_t* key;   // [2 nodes] arcs: row << 32 | column
  double* flow;    // [2 nodes] of arcs
  double* mass;    // [nodes]
  double* rest;    // [nodes] of the mass
  int32_t* arcs;   // [nodes] the number of arcs that are left
  int32_t* link;   // [nodes] the exclusive or of their indices
  int32_t* stays;  // [nodes] the node of greatest mass below this one; then kNone for those
  int32_t count = 0, used = 0;  // arcs, and those with flow
  double paid = 0;              // for what new arcs move, above the duals
  double lost = 0;              // by roundings of `rest`

  JAXMATCH_HOST_DEVICE bool is_row(int32_t x) const { return x < rows; }
  JAXMATCH_HOST_DEVICE int32_t row_of(int32_t k) const { return int32_t(key[k] >> 32); }
  JAXMATCH_HOST_DEVICE int32_t col_of(int32_t k) const { return rows + int32_t(uint32_t(key[k])); }
  JAXMATCH_HOST_DEVICE double room(int32_t x) const { return rest[x] + spare * mass[x]; }
  JAXMATCH_HOST_DEVICE bool has_left(int32_t x) const { return rest[x] > spare * mass[x]; }

  // By one thread: all but what leaves by new arcs.
  JAXMATCH_HOST_DEVICE void run(int32_t given) {
    count = given;
    for (int32_t x = 0; x < nodes; ++x) {
      stays[x] = x;
      rest[x] = 0;
    }
    peel([&](int32_t x, int32_t, int32_t y) {
      rest[x] = 1;  // has left
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
  // Moves mass between two nodes, by arc k or by a new one.
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

  // How far what the plan moves of a node may be from its mass, but for `lost`.
  JAXMATCH_HOST_DEVICE double off(int32_t x) const { return fabs(rest[x]) + 0x1p-51 * mass[x]; }

 private:
  JAXMATCH_HOST_DEVICE void move(int32_t x, int32_t y, int32_t k, double moved) {
    used += flow[k] == 0;
    flow[k] += moved;
    rest[x] = less(rest[x], moved);
    rest[y] = less(rest[y], moved);
  }
  // The difference. What it was rounded by (TwoSum, Knuth) is lost.
  JAXMATCH_HOST_DEVICE double less(double a, double b) {
    const double difference = a - b, part = difference - a;
    lost += fabs((a - (difference - part)) - (b + part));
    return difference;
  }

  // Calls f(x, arc, y) for each node that leaves the forest, its last arc and the other end of it.
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
