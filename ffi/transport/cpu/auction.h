// An auction with epsilon scaling for masses (Bertsekas and Castanon, The auction algorithm for the
// transportation problem, 1989). It finds prices and most of a plan. Free mass is mass of a row
// that no column holds. A row bids all its free mass for the column of least reduced cost. A column
// holds the mass of the best bids, up to its demand. A scale (the bids with one epsilon) ends once
// few rows have free mass. The network simplex method then makes the plan optimal, so the auction
// affects only the time.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// The mass of one row that one column holds. It becomes free when the column's price falls below
// `level`.
struct Holding {
  int64_t mass;
  // The key gives the order in the column's heap. It may exceed the level, because a level may fall
  // while the holding is in the heap.
  double level, key;
  int32_t row, col;     // row: kNone if the holding is unused
  int32_t left, right;  // children in a skew heap; of an unused holding, right: the next unused one
  int32_t next;         // the next holding of the same row
};

template <class C>
struct Auction {
  const C& c;
  const int64_t *supply, *demand;
  double epsilon;
  Holding* pool;  // [size] all holdings
  int32_t size, made, unused;
  int32_t* top;     // [cols] root of the column's heap: the holding with the greatest key
  int32_t* of_row;  // [rows] the row's first holding
  int64_t* held;    // [cols] mass that the column holds
  int64_t* rest;    // [rows] free mass
  int32_t* ring;    // [rows] circular queue of the rows with free mass
  int32_t first, free_rows;
  int64_t bids, free_mass;
  bool warm;  // begins at the prices in c.v
  // The last row is a dummy, which may have most of the mass. So a scale may go on although few
  // rows have free mass, as long as this mass is large.
  bool has_dummies;
  Poll poll{};

  int32_t merge(int32_t a, int32_t b) {
    int32_t root = kNone, *at = &root;
    while (a != kNone && b != kNone) {
      if (pool[a].key < pool[b].key) {
        const int32_t lower = a;
        a = b;
        b = lower;
      }
      *at = a;
      const int32_t next = pool[a].right;
      pool[a].right = pool[a].left;
      at = &pool[a].left;
      a = next;
    }
    *at = a != kNone ? a : b;
    return root;
  }
  void give_back(int32_t i, int64_t mass) {
    if (rest[i] == 0) {
      const int32_t last = first + free_rows++;
      ring[last < c.rows ? last : last - c.rows] = i;
    }
    rest[i] += mass;
    free_mass += mass;
  }
  void drop(int32_t h) {
    int32_t* link = &of_row[pool[h].row];
    while (*link != h) link = &pool[*link].next;
    *link = pool[h].next;
    pool[h].row = kNone;
    pool[h].right = unused;
    unused = h;
  }

  void clear() {
    made = first = free_rows = 0;
    bids = free_mass = 0;
    unused = kNone;
    for (int32_t j = 0; j < c.cols; ++j) {
      top[j] = kNone;
      held[j] = 0;
      if (!warm) c.v[j] = 0;
    }
    for (int32_t i = 0; i < c.rows; ++i) {
      rest[i] = 0;
      of_row[i] = kNone;
      give_back(i, supply[i]);
    }
  }

  // Begins a scale: frees each holding whose reduced cost exceeds the least reduced cost of its row
  // by more than epsilon.
  void begin(double* least) {
    for (int32_t i = 0; i < c.rows; ++i) {
      if (rest[i] == supply[i]) continue;
      poll.after(c.cols);
      least[i] = least_of_row(c, i);
    }
    for (int32_t j = 0; j < c.cols; ++j) {
      top[j] = kNone;
      held[j] = 0;
    }
    for (int32_t h = 0; h < made; ++h) {
      Holding& own = pool[h];
      poll.after(kMissNs);
      if (own.row == kNone) continue;
      if (c.key(own.row, own.col) - c.v[own.col] > least[own.row] + epsilon) {
        give_back(own.row, own.mass);
        drop(h);
        continue;
      }
      own.left = own.right = kNone;
      own.key = own.level;
      top[own.col] = merge(top[own.col], h);
      held[own.col] += own.mass;
    }
  }

  // The holding of row i in column j; kNone if there is none.
  int32_t find(int32_t i, int32_t j) const {
    int32_t h = of_row[i];
    while (h != kNone && pool[h].col != j) h = pool[h].next;
    return h;
  }
  void hold(int32_t i, int32_t j, double level) {
    const int32_t known = find(i, j);
    held[j] += rest[i];
    free_mass -= rest[i];
    if (known != kNone) {
      pool[known].mass += rest[i];
      if (level < pool[known].level) pool[known].level = level;
    } else {
      int32_t h = unused;
      if (h != kNone) {
        unused = pool[h].right;
      } else {
        h = made++;
      }
      pool[h] = {rest[i], level, level, i, j, kNone, kNone, of_row[i]};
      of_row[i] = h;
      top[j] = merge(top[j], h);
    }
    rest[i] = 0;
  }
  // The holding of column j with the greatest level.
  int32_t weakest(int32_t j) {
    for (;;) {
      Holding& own = pool[top[j]];
      if (own.key == own.level) return top[j];
      const int32_t h = top[j], others = merge(own.left, own.right);
      own.key = own.level;
      own.left = own.right = kNone;
      top[j] = merge(others, h);
    }
  }

  // The next row in the queue bids. Returns false if the row has no allowed column, or if the pool
  // of holdings is full.
  bool bid() {
    const int32_t i = ring[first];
    poll.after(c.cols);
    const auto two = two_least(c, i);
    if (!(two.first < __builtin_inf()) || (unused == kNone && made == size)) return false;
    first = first + 1 == c.rows ? 0 : first + 1;
    --free_rows;
    ++bids;
    const int32_t j = two.col;
    const double gain = two.second < __builtin_inf() ? two.second - two.first : 0;
    hold(i, j, c.v[j] - gain - epsilon);
    while (held[j] > demand[j]) {
      poll.after(kMissNs);
      const int32_t h = weakest(j);
      Holding& own = pool[h];
      const int64_t over = held[j] - demand[j], mass = over < own.mass ? over : own.mass;
      own.mass -= mass;
      held[j] -= mass;
      give_back(own.row, mass);
      if (own.mass > 0) continue;
      top[j] = merge(own.left, own.right);
      drop(h);
    }
    if (held[j] < demand[j]) return true;
    const double level = pool[weakest(j)].level;
    if (level < c.v[j]) c.v[j] = level;
    return true;
  }

  void run(double* least) {
    // kFirst and kLast are epsilons relative to `spread`. Epsilon is multiplied by kFactor after
    // each scale.
    constexpr double kFirst = 1.0 / 32, kFactor = 1.0 / 5, kLast = 1e-2;
    constexpr int32_t kStopPart = 256, kFewest = 4, kMostBidsPerRow = 64, kLittlePart = 64;
    const int32_t few = c.rows / kStopPart > kFewest ? c.rows / kStopPart : kFewest;
    clear();
    const int64_t little = free_mass / kLittlePart;
    const double spread = spread_of_costs(c);
    epsilon = spread * (warm ? kLast : kFirst);
    for (; spread > 0; epsilon *= kFactor) {
      begin(least);
      const int64_t most = bids + int64_t(kMostBidsPerRow) * c.rows;
      int64_t patience = has_dummies ? c.rows : 0;
      const auto goes_on = [&] {
        return free_rows > few || (free_rows > 0 && free_mass > little && patience-- > 0);
      };
      while (bids < most && goes_on()) {
        if (!bid()) return;
      }
      if (bids == most || epsilon <= spread * kLast) return;
    }
  }
};
