// Prices and a plan for many rows and few columns, by shortest augmenting paths between columns (as
// Tokuyama and Nakano, Efficient algorithms for the Hitchcock transportation problem, 1995). Moving
// a row from one column to another has an extra cost. The least extra cost of the rows that a
// column holds is the length of its arc to the other column. At first every row is in its cheapest
// column at the current prices. A path leads from a column with too much mass to one with too
// little, and mass moves along it.
//
// The first prices come from solving a sample of the problem, which itself starts from the prices
// of a smaller sample.
//
// All lengths are whole units in doubles, and exact while they stay below 2^53. The network simplex
// method finishes and proves the optimum, so the results of this file affect only the time.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

constexpr int32_t kMostFewColumns = 256;
constexpr int32_t kRowsPerFewColumn = 32;
// Greatest magnitude of the integer costs that ColumnPaths takes, so that lengths stay exact.
constexpr double kMostExactWhole = 0x1p50;

inline bool has_few_columns(int32_t rows, int32_t cols) {
  return cols <= kMostFewColumns && rows / kRowsPerFewColumn >= cols;
}

template <class C>
struct ColumnPaths {
  using L = typename C::Lanes;
  using Reg = typename L::Reg;
  static constexpr double kMagic = 0x1.8p52;  // adding and subtracting it rounds to whole numbers

  const C& c;
  PathMemory m;
  const int64_t *supply, *demand;
  int32_t made = 0, unused = kNone, blocks_made = 0, unused_block = kNone;
  int32_t hole_block = kNone, hole_slot = 0;
  int64_t paths = 0;
  Poll poll{};

  // --- Costs in whole units.

  static Reg whole(Reg x, Reg scale) {
    const Reg y = L::mul(x, scale);
    if constexpr (Format<typename C::Elem>::kInteger) return y;
    return L::sub(L::add(y, L::splat(kMagic)), L::splat(kMagic));
  }
  double whole_at(int32_t i, int32_t j) const {
    const double y = c.key(i, j);
    return Format<typename C::Elem>::kInteger ? y : y + kMagic - kMagic;
  }

  // The cheapest column of row i; kNone if all are forbidden. Among ties, prefers a column with
  // room.
  int32_t cheapest(int32_t i) const {
    const auto scale = L::splat(c.scale);
    auto least = L::splat(__builtin_inf());
    for_each_vector<L>(c.row(i), c.cols, [&](int64_t j, auto x) {
      least = L::min(least, L::sub(whole(x, scale), L::load(c.v + j)));
    });
    const double value = L::least(least);
    if (!(value < __builtin_inf())) return kNone;
    const auto target = L::splat(value);
    int32_t found = kNone;
    bool full = true;
    for_each_vector<L>(c.row(i), c.cols, [&](int64_t j, auto x) {
      if (!full) return;
      const auto y = L::sub(whole(x, scale), L::load(c.v + j));
      for_each_bit(L::bits(L::equal(y, target)), [&](int bit) {
        const int32_t col = int32_t(j) + bit;
        if (found != kNone && (!full || m.held[col] >= demand[col])) return;
        found = col;
        full = m.held[col] >= demand[col];
      });
    });
    return found;
  }

  // --- Blocks of parts. A part is the mass of one row that one column holds (parts.h).

  double* detours(int32_t b) const { return m.detours + int64_t(b) * m.stride; }
  double* lengths(int32_t j) const { return m.lengths + int64_t(j) * m.stride; }

  void compute_block(int32_t b) {
    const PartBlock& block = m.blocks[b];
    poll.after(int64_t(block.count) * (kMissNs + m.stride));
    const auto scale = L::splat(c.scale);
    decltype(c.row(0)) row[PartBlock::kSize];
    Reg own[PartBlock::kSize];
    for (int32_t s = 0; s < block.count; ++s) {
      const Part& part = m.parts[block.part[s]];
      row[s] = c.row(part.row);
      own[s] = L::splat(whole_at(part.row, part.col));
    }
    double* const out = detours(b);
    for (int32_t j = 0; j < c.cols; j += L::kWidth) {
      auto least = L::splat(__builtin_inf());
      for (int32_t s = 0; s < block.count; ++s) {
        const auto x = j + L::kWidth <= c.cols ? L::load_cost(row[s] + j)
                                               : L::load_cost(row[s] + j, int(c.cols - j));
        least = L::min(least, L::sub(whole(x, scale), own[s]));
      }
      L::store(out + j, least);
    }
  }

  void compute_lengths(int32_t j) {
    double* const out = lengths(j);
    for (int32_t k = 0; k < m.stride; k += L::kWidth) {
      auto least = L::splat(__builtin_inf());
      int64_t count = 0;
      for (int32_t b = m.first[j]; b != kNone; b = m.blocks[b].next, ++count) {
        least = L::min(least, L::load(detours(b) + k));
      }
      L::store(out + k, least);
      poll.after(count * kMissNs);
    }
  }

  // Appends part h to the blocks of its column.
  void append(int32_t h) {
    Part& part = m.parts[h];
    int32_t b = m.first[part.col];
    if (b == kNone || m.blocks[b].count == PartBlock::kSize) {
      const int32_t next = b;
      b = unused_block;
      if (b != kNone) {
        unused_block = m.blocks[b].next;
      } else {
        b = blocks_made++;
      }
      m.blocks[b].count = 0;
      m.blocks[b].next = next;
      m.first[part.col] = b;
    }
    put(h, b, m.blocks[b].count++);
  }
  void put(int32_t h, int32_t b, int32_t slot) {
    m.blocks[b].part[slot] = h;
    m.parts[h].block = b;
    m.parts[h].slot = slot;
  }

  // Moves the column's last part to the slot that take_off() has emptied in a block of column j.
  // Recomputes the detours of the changed blocks and the lengths of the arcs from column j.
  void close_hole(int32_t j) {
    if (hole_block == kNone) return;
    const int32_t first = m.first[j];
    PartBlock& block = m.blocks[first];
    const int32_t last = block.part[--block.count];
    if (first != hole_block || block.count != hole_slot) put(last, hole_block, hole_slot);
    if (first != hole_block) compute_block(hole_block);
    if (block.count == 0) {
      m.first[j] = block.next;
      block.next = unused_block;
      unused_block = first;
    } else {
      compute_block(first);
    }
    hole_block = kNone;
    compute_lengths(j);
  }

  // --- Parts.

  int32_t take_part(int32_t i, int32_t j, int64_t mass) {
    int32_t h = unused;
    if (h != kNone) {
      unused = m.parts[h].next;
    } else {
      h = made++;
    }
    m.parts[h] = {mass, i, j, m.of_row[i], kNone, 0};
    m.of_row[i] = h;
    return h;
  }

  void add(int32_t i, int32_t j, int64_t mass) {
    int32_t h = m.of_row[i];
    while (h != kNone && m.parts[h].col != j) h = m.parts[h].next;
    if (h != kNone) {
      m.parts[h].mass += mass;
      return close_hole(j);
    }
    h = take_part(i, j, mass);
    if (hole_block != kNone) {
      put(h, hole_block, hole_slot);
      compute_block(hole_block);
      hole_block = kNone;
      return compute_lengths(j);
    }
    append(h);
    compute_block(m.parts[h].block);
    compute_lengths(j);
  }

  // Takes mass from part h. If no mass remains, frees the part. Its slot is then a hole until add()
  // or close_hole() fills it.
  void take_off(int32_t h, int64_t mass) {
    Part& part = m.parts[h];
    part.mass -= mass;
    if (part.mass > 0) return;
    int32_t* link = &m.of_row[part.row];
    while (*link != h) link = &m.parts[*link].next;
    *link = part.next;
    hole_block = part.block;
    hole_slot = part.slot;
    part.row = kNone;
    part.next = unused;
    unused = h;
  }

  // The part of column j that is the cheapest to move to column k.
  int32_t part_to(int32_t j, int32_t k) {
    const double length = lengths(j)[k];
    for (int32_t b = m.first[j]; b != kNone; b = m.blocks[b].next) {
      poll.after(kMissNs);
      if (detours(b)[k] != length) continue;
      for (int32_t s = 0; s < m.blocks[b].count; ++s) {
        const int32_t h = m.blocks[b].part[s], i = m.parts[h].row;
        if (whole_at(i, k) - whole_at(i, j) == length) return h;
      }
    }
    return kNone;
  }

  // --- Paths.

  // Puts all rows into their cheapest columns. Returns false if a row has no allowed column.
  bool begin() {
    made = blocks_made = 0;
    unused = unused_block = kNone;
    for (int32_t j = 0; j < c.cols; ++j) {
      m.held[j] = 0;
      m.first[j] = kNone;
    }
    for (int32_t i = 0; i < c.rows; ++i) m.of_row[i] = kNone;
    for (int32_t i = 0; i < c.rows; ++i) {
      poll.after(kMissNs + c.cols);
      if (supply[i] == 0) continue;
      const int32_t j = cheapest(i);
      if (j == kNone) return false;
      append(take_part(i, j, supply[i]));
      m.held[j] += supply[i];
    }
    return true;
  }

  int64_t excess() const {
    int64_t sum = 0;
    for (int32_t j = 0; j < c.cols; ++j) {
      sum += m.held[j] > demand[j] ? m.held[j] - demand[j] : 0;
    }
    return sum;
  }

  // Brings columns with too little mass this much nearer. Distances are whole numbers, so such a
  // column wins ties with others, and the path ends there.
  static constexpr double kEndFirst = 0.5;

  // Finds the nearest column with too little mass by Dijkstra's method. Returns kNone if none can
  // be reached. Stores the path in m.from, and changes the prices so that its arcs have reduced
  // length 0.
  int32_t nearest() {
    for (int32_t j = 0; j < m.stride; ++j) {
      const bool is_col = j < c.cols;
      m.near[j] = is_col && m.held[j] > demand[j] ? 0 : __builtin_inf();
      const bool is_end = is_col && m.held[j] < demand[j];
      m.open[j] = is_col ? c.v[j] + (is_end ? kEndFirst : 0) : -__builtin_inf();
      m.far[j] = -1;
      m.from[j] = kNone;
    }
    int32_t at = 0;
    while (at < c.cols && m.near[at] > 0) ++at;
    if (at == c.cols) return kNone;
    for (double distance = 0; distance < __builtin_inf();) {
      if (m.held[at] < demand[at]) {
        distance += kEndFirst;
        for (int32_t j = 0; j < c.cols; ++j) {
          if (m.far[j] >= 0) c.v[j] += m.far[j] - distance;
        }
        return at;
      }
      m.far[at] = distance;
      m.near[at] = __builtin_inf();
      m.open[at] = -__builtin_inf();  // the distance of `at` is final
      const auto start = L::splat(distance + c.v[at]), own = L::splat(at);
      const auto step = L::splat(L::kWidth);
      auto first = L::splat(__builtin_inf()), col = first, here = L::lane_numbers();
      const double* const length = lengths(at);
      for (int32_t j = 0; j < m.stride; j += L::kWidth) {
        const auto x = L::sub(L::add(start, L::load(length + j)), L::load(m.open + j));
        const auto known = L::load(m.near + j);
        const auto nearer = L::less(x, known);
        const auto now = L::min(x, known);
        L::store(m.near + j, now);
        L::store(m.from + j, L::select(nearer, own, L::load(m.from + j)));
        const auto better = L::less(now, first);
        first = L::min(first, now);
        col = L::select(better, here, col);
        here = L::add(here, step);
      }
      distance = L::least(first);
      const auto tied = L::equal(first, L::splat(distance));
      const double winner = L::least(L::select(tied, col, L::splat(__builtin_inf())));
      at = winner < __builtin_inf() ? int32_t(winner) : 0;
    }
    return kNone;
  }

  // Moves mass along the path to column `end`. Returns false if an arc of the path has no part of
  // its length.
  bool augment(int32_t end) {
    int64_t mass = demand[end] - m.held[end];
    int32_t path[kMostFewColumns], count = 0, k = end;
    while (m.from[k] >= 0) {
      const int32_t j = int32_t(m.from[k]), h = part_to(j, k);
      if (h == kNone) return false;
      mass = m.parts[h].mass < mass ? m.parts[h].mass : mass;
      path[count++] = h;
      k = j;
    }
    const int64_t over = m.held[k] - demand[k];
    mass = over < mass ? over : mass;
    m.held[k] -= mass;
    m.held[end] += mass;
    int32_t to = end;
    for (int32_t a = 0; a < count; ++a) {
      const int32_t h = path[a], i = m.parts[h].row, j = m.parts[h].col;
      add(i, to, mass);
      take_off(h, mass);
      to = j;
    }
    close_hole(to);
    return true;
  }

  // Solves for the masses in `supply` and `demand`. Returns false if a row has no allowed column,
  // or if the number of paths or parts reaches a limit.
  bool solve() {
    if (!begin()) return false;
    return improve();
  }
  bool improve() {
    for (int32_t b = 0; b < blocks_made; ++b) compute_block(b);
    for (int32_t j = 0; j < c.cols; ++j) compute_lengths(j);
    const int64_t most = paths + 16 * int64_t(c.rows) + 1024;
    for (int64_t left = excess(); left > 0; ++paths) {
      poll.after(int64_t(c.cols) * c.cols);
      const int32_t end = nearest();
      if (end == kNone || paths == most || made + c.cols > m.most_parts) return false;
      if (!augment(end)) return false;
      left = excess();
    }
    return true;
  }

  // Sets m.supply and m.demand to a sample of about `units` units. Imagine the masses of all rows
  // laid end to end in scattered order, and points at equal distances along this line. A row gets
  // one unit for each point in its mass. Columns get their units in the same way.
  void sample(const int64_t* all_supply, const int64_t* all_demand, int64_t total, int64_t units) {
    const int64_t step = total / units;
    const auto gcd = [](int64_t a, int64_t b) {
      while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
      }
      return a;
    };
    int64_t stride = int64_t(0.6180339887 * double(c.rows));
    while (gcd(stride, c.rows) != 1) ++stride;
    const int64_t whole_steps = total / step * step;  // mass beyond this is not sampled
    const auto count = [&](int64_t sum) { return (sum < whole_steps ? sum : whole_steps) / step; };
    int64_t sum = 0, known = 0;
    for (int64_t k = 0, i = 0; k < c.rows; ++k) {
      poll.after(kMissNs);
      sum += all_supply[i];
      const int64_t now = count(sum);
      m.supply[i] = now - known;
      known = now;
      i += stride;
      if (i >= c.rows) i -= c.rows;
    }
    sum = known = 0;
    for (int32_t j = 0; j < c.cols; ++j) {
      sum += all_demand[j];
      const int64_t now = count(sum);
      m.demand[j] = now - known;
      known = now;
    }
  }

  // Finds prices and a plan. `warm`: begins at the prices in c.v.
  bool run(bool warm) {
    constexpr int32_t kFirstUnits = 4, kFactor = 4, kFarPart = 8;
    const int64_t *all_supply = supply, *all_demand = demand;
    if (!warm) {
      for (int32_t j = 0; j < c.cols; ++j) c.v[j] = 0;
    }
    int64_t total = 0;
    for (int32_t j = 0; j < c.cols; ++j) total += demand[j];
    if (!begin()) return false;
    if (excess() <= total / kFarPart) return improve();
    for (int64_t units = kFirstUnits * int64_t(c.cols); units <= total / 2 && units <= c.rows;
         units *= kFactor) {
      sample(all_supply, all_demand, total, units);
      supply = m.supply;
      demand = m.demand;
      const bool found = solve();
      supply = all_supply;
      demand = all_demand;
      if (!found) break;
    }
    return solve();
  }

  // Calls put_mass(row, col, mass) for the plan. Mass above the demand of a column is not part of
  // the plan: it is added to the row's entry of `rest`.
  template <class Put>
  void give_plan(int64_t* rest, const Put& put_mass) {
    for (int32_t i = 0; i < c.rows; ++i) rest[i] = m.of_row[i] == kNone ? supply[i] : 0;
    for (int32_t h = 0; h < made; ++h) {
      poll.after(kMissNs);
      const Part& part = m.parts[h];
      if (part.row == kNone) continue;
      const int64_t over = m.held[part.col] - demand[part.col];
      const int64_t less = over < 0 ? 0 : over < part.mass ? over : part.mass;
      m.held[part.col] -= less;
      rest[part.row] += less;
      if (part.mass > less) put_mass(part.row, part.col, part.mass - less);
    }
  }
};
