// Translates results from canonical form to the given problem, and writes them.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

void write_mass(const TransportProblem& p, int64_t at, int64_t units, double unit) {
  if (p.mass_dtype == Dtype::kS32) {
    static_cast<int32_t*>(p.mass)[at] = int32_t(units);
  } else if (p.mass_dtype == Dtype::kS64) {
    static_cast<int64_t*>(p.mass)[at] = units;
  } else {
    write_real(p.mass, p.mass_dtype, at, double(units) * unit);
  }
}

void write_mass(const TransportProblem& p, int64_t at, double mass, double) {
  write_real(p.mass, p.mass_dtype, at, mass);
}

void move_mass(const TransportProblem& p, int64_t from, int64_t to) {
  const int64_t bytes = size_of(p.mass_dtype);
  memcpy(static_cast<char*>(p.mass) + to * bytes, static_cast<char*>(p.mass) + from * bytes, bytes);
}

// Marks the entries of the plan from `first` on as unused.
void write_plan_end(const TransportProblem& p, int64_t first) {
  for (int64_t k = first; k < p.n + p.m - 1; ++k) {
    p.rows[k] = p.cols[k] = kNone;
    write_mass(p, k, int64_t{0}, 0);
  }
}

// Writes the results of a problem without a solution. `gap`: the mass that one side lacks, if the
// status is kUnbalanced.
void write_failure(const TransportProblem& p, Status status, double gap = __builtin_nan("")) {
  const double nan = __builtin_nan("");
  write_plan_end(p, 0);
  for (int64_t i = 0; i < p.n; ++i) write_real(p.row_dual, p.result_dtype, i, nan);
  for (int64_t j = 0; j < p.m; ++j) write_real(p.col_dual, p.result_dtype, j, nan);
  write_real(p.value, p.result_dtype, 0, nan);
  write_real(p.gap, p.result_dtype, 0, gap);
  *p.status = status;
}

// Takes forbidden pairs without mass out of the tree. Such a pair gives the nodes below it prices
// of about c.forbidden, which no allowed pair needs. So the subtree is hung from the root instead,
// and its prices are shifted to bring the price of its top closer to 0. `finite`: some pairs are
// forbidden only by a CostMap. Their true cost is at least c.forbidden, and they limit the shift as
// allowed pairs do.
template <class C>
void release_forbidden(Basis<C>& b, const C& c, bool finite, int32_t* in_part) {
  for (int32_t x = 0; x < b.nodes; ++x) {
    b.poll.after(kMissNs);
    const int32_t parent = b.above[x];
    if (parent == b.root() || b.flow[x] > 0 || b.cost_between(x, parent) < c.forbidden) continue;
    const int32_t moved = b.size[x];
    for (int32_t y = parent; y != b.root(); y = b.above[y]) b.size[y] -= moved;
    b.unlink(x);
    b.link(x, b.root());
    for (int32_t y = 0; y < b.nodes; ++y) in_part[y] = 0;
    b.for_subtree(x, [&](int32_t y) { in_part[y] = 1; });
    // The least reduced cost between a row outside the subtree and a column in it. A greater shift
    // would make this reduced cost negative.
    int64_t most = INT64_MAX;
    for (int32_t i = 0; i < c.rows; ++i) {
      b.poll.after(c.cols);
      if (in_part[i]) continue;
      const auto* const row = c.row(i);
      for (int32_t j = 0; j < c.cols; ++j) {
        if (!in_part[c.rows + j]) continue;
        const int64_t cost = c.units_of(row[j]);
        if (cost == c.forbidden && !finite) continue;
        const int64_t slack = cost - b.price[i] - b.price[c.rows + j];
        most = slack < most ? slack : most;
      }
    }
    const int64_t wanted = b.is_row(x) ? b.price[x] : -b.price[x];
    const int64_t less = wanted < 0 ? 0 : wanted < most ? wanted : most;
    b.for_subtree(x, [&](int32_t y) { b.set_price(y, b.price[y] + (b.is_row(y) ? -less : less)); });
  }
}

template <class C>
bool uses_forbidden(Basis<C>& b, const C& c) {
  if (c.forbidden == 0) return false;
  for (int32_t x = 0; x < b.nodes; ++x) {
    b.poll.after(kMissNs);
    if (b.flow[x] > 0 && b.cost_between(x, b.above[x]) >= c.forbidden) return true;
  }
  return false;
}

// Sets the entries of u, [n], and v, [m], that are NaN: the duals of rows and columns without mass.
// Each becomes the greatest dual that the duals of the other side allow, at the costs as changed by
// `map`. Duals are in terms of the given costs, not in whole units.
template <class Given>
void extend_duals(const TransportProblem& p, const Given& given, const CostMap& map, double* u,
                  double* v) {
  using Elem = typename Given::Elem;
  const double sign = p.maximize ? -1 : 1, infinity = __builtin_inf();
  const auto is_new = [](double x) { return x != x; };
  Poll poll;
  for (int64_t j = 0; j < p.m; ++j) {
    if (!is_new(v[j])) continue;
    poll.after(kMissNs * p.n);
    double least = infinity;
    if (!p.col_mask || p.col_mask[j]) {
      given.for_column(j, [&](int64_t i, Elem cost) {
        if (is_new(u[i]) || (p.row_mask && !p.row_mask[i])) return;
        const double x = difference_below(map.of(sign * double(widen(cost))), u[i]);
        least = x < least ? x : least;
      });
    }
    v[j] = least < infinity ? dual_below(p, least) : 0;
  }
  for (int64_t i = 0; i < p.n; ++i) {
    if (!is_new(u[i])) continue;
    poll.after(p.m);
    double least = infinity;
    const bool exists = !p.row_mask || p.row_mask[i];
    const Elem* const row = exists ? given.row(i) : nullptr;
    for (int64_t j = 0; exists && j < p.m; ++j) {
      if (p.col_mask && !p.col_mask[j]) continue;
      const double x = difference_below(map.of(sign * double(widen(row[j]))), v[j]);
      least = x < least ? x : least;
    }
    u[i] = least < infinity ? dual_below(p, least) : 0;
  }
}
