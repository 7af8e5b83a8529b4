// Results of a solved problem: duals, the plan of the basis or recomputed flows, cost and gap.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Writes all duals, and sets u, [n], and v, [m], to the duals of the minimisation. Returns the
// greatest magnitude of a dual.
template <class C>
double write_duals(const TransportProblem& p, const CanonicalForm& f, const C& c, const Basis<C>& b,
                   const typename C::Given& given, double* u, double* v) {
  const double nan = __builtin_nan(""), per_unit = 1 / fabs(c.scale), sign = p.maximize ? -1 : 1;
  for (int64_t i = 0; i < p.n; ++i) u[i] = nan;
  for (int64_t j = 0; j < p.m; ++j) v[j] = nan;
  double* const of_rows = f.transposed ? v : u;
  double* const of_cols = f.transposed ? u : v;
  for (int32_t i = 0; i < c.rows; ++i) of_rows[f.row_list[i]] = double(b.price[i]) * per_unit;
  for (int32_t j = 0; j < c.cols; ++j) {
    of_cols[f.col_list[j]] = double(b.price[c.rows + j]) * per_unit;
  }
  extend_duals(p, given, c.map, u, v);
  double most = 0;
  for (int64_t i = 0; i < p.n; ++i) {
    most = fmax(most, fabs(u[i]));
    write_real(p.row_dual, p.result_dtype, i, sign * u[i] + 0.0);
  }
  for (int64_t j = 0; j < p.m; ++j) {
    most = fmax(most, fabs(v[j]));
    write_real(p.col_dual, p.result_dtype, j, sign * v[j] + 0.0);
  }
  return most;
}

// Calls g(row, column, mass) for all arcs with mass. Row and column are indices of the given
// problem.
template <class C, class G>
void for_arcs(const CanonicalForm& f, const C& c, Basis<C>& b, const G& g) {
  for (int32_t x = 0; x < b.nodes; ++x) {
    b.poll.after(kMissNs);
    if (b.flow[x] == 0) continue;
    const int32_t y = b.above[x], row = b.is_row(x) ? x : y, col = (b.is_row(x) ? y : x) - c.rows;
    const int32_t i = f.row_list[row], j = f.col_list[col];
    if (f.transposed) {
      g(j, i, b.flow[x]);
    } else {
      g(i, j, b.flow[x]);
    }
  }
}

// The cost of a plan whose masses are in units or floats.
template <class Elem>
struct CostOfPlan {
  __int128 whole = 0;
  PlanCost sum{};

  void add(Elem cost, int64_t units) {
    if constexpr (Format<Elem>::kInteger) {
      whole += __int128(cost) * units;
    } else {
      sum.add(double(widen(cost)), units);
    }
  }
  void add(Elem cost, double mass) {
    const double high = double(widen(cost));
    sum.add(high, mass);
    if constexpr (Format<Elem>::kInteger) sum.add(double(int64_t(cost) - int64_t(high)), mass);
  }
  double value(double unit) const { return double(whole) * unit + sum.value(unit); }
};

// Writes the plan that `for_arcs` lists, sorted by row, then by column. Returns its cost. `at` and
// `first` are scratch.
template <class Given, class ForArcs>
double write_plan(const TransportProblem& p, const Given& given, const ForArcs& for_arcs,
                  double unit, int32_t* first, int32_t* at) {
  for (int64_t i = 0; i <= p.n; ++i) first[i] = 0;
  for_arcs([&](int32_t i, int32_t, auto) { ++first[i + 1]; });
  for (int64_t i = 0; i < p.n; ++i) first[i + 1] += first[i];
  for (int64_t i = 0; i < p.n; ++i) at[i] = first[i];
  write_plan_end(p, first[p.n]);
  CostOfPlan<typename Given::Elem> cost;
  for_arcs([&](int32_t i, int32_t j, auto mass) {
    int64_t to = at[i]++;
    p.rows[to] = i;
    for (; to > first[i] && p.cols[to - 1] > j; --to) {
      p.cols[to] = p.cols[to - 1];
      move_mass(p, to - 1, to);
    }
    p.cols[to] = j;
    write_mass(p, to, mass, unit);
    cost.add(given.at(i, j), mass);
  });
  return cost.value(unit);
}

// Recomputes the flows from the given masses, on the arcs of the basis and on new arcs. Returns
// false if some mass cannot move. u and v are the duals, [n] and [m].
template <class Given, class ForArcs>
bool recompute_flows(const TransportProblem& p, const Given& given, const ForArcs& for_arcs,
                     const double* u, const double* v, PlanFlows& flows) {
  int32_t count = 0;
  for_arcs([&](int32_t i, int32_t j, int64_t) {
    flows.key[count++] = flows.key_of(i, int32_t(p.n) + j);
  });
  flows.run(count);
  const double sign = p.maximize ? -1 : 1;
  return send_rest(flows, [&](int32_t x, int32_t y) {
    const int64_t i = x < p.n ? x : y, j = (x < p.n ? y : x) - p.n;
    return sign * double(widen(given.at(i, j))) - u[i] - v[j];
  });
}

// Returns a function that lists the recomputed flows, for the argument `for_arcs` of write_plan().
inline auto flows_of(const TransportProblem& p, const PlanFlows& flows) {
  return [&](const auto& g) {
    for (int32_t k = 0; k < flows.count; ++k) {
      const double flow = flows.flow[k];
      const bool used = p.mass_dtype == Dtype::kF32 ? float(flow) > 0 : flow > 0;
      if (used) g(flows.row_of(k), flows.col_of(k) - flows.rows, flow);
    }
  };
}

// How far the cost of recomputed flows may be from the optimum. `most`: the greatest magnitude of a
// dual.
inline double loss(const PlanFlows& flows, double most) {
  double off = flows.lost;
  for (int32_t x = 0; x < flows.nodes; ++x) off += flows.off(x);
  return flows.paid + off * most;
}

// The cost of the plan of the basis minus the cost of the saved plan, whose arcs are the first
// `count` of w.saved.
template <class C>
double excess_over_saved(const TransportProblem& p, const CanonicalForm& f, const C& c, Basis<C>& b,
                         const Workspace<C>& w, int32_t count) {
  const double sign = p.maximize ? -1 : 1;
  PlanCost sum;
  for_arcs(f, c, b, [&](int32_t i, int32_t j, int64_t mass) {
    sum.add(sign * double(widen(w.given.at(i, j))), mass);
  });
  for (int32_t k = 0; k < count; ++k) {
    sum.add(-sign * double(widen(w.given.at(w.saved[k].row, w.saved[k].col))), w.saved[k].mass);
  }
  return sum.value(w.masses.unit);
}

// Writes the results. `whole`: all costs are whole numbers of units. `saved`: the number of arcs of
// another plan in w.saved, which is written instead if it costs less; 0 if there is none.
template <class C>
void write_solution(const TransportProblem& p, const CanonicalForm& f, const C& c, Basis<C>& b,
                    Workspace<C>& w, bool whole, int32_t saved) {
  const Masses& masses = w.masses;
  const double most = write_duals(p, f, c, b, w.given, w.u, w.v);
  // Flows are recomputed only for the plan of the basis, so the saved plan is then ignored.
  const double excess = saved > 0 && !masses.coarse ? excess_over_saved(p, f, c, b, w, saved) : 0;
  const auto arcs = [&](const auto& g) {
    if (!(excess > 0)) return for_arcs(f, c, b, g);
    for (int32_t k = 0; k < saved; ++k) g(w.saved[k].row, w.saved[k].col, w.saved[k].mass);
  };
  double value, gap = 0;
  if (masses.coarse) {
    if (!recompute_flows(p, w.given, arcs, w.u, w.v, w.flows)) return write_failure(p, kInfeasible);
    value = write_plan(p, w.given, flows_of(p, w.flows), 1, w.first, w.order);
    gap += loss(w.flows, most);
  } else {
    value = write_plan(p, w.given, arcs, masses.unit, w.first, w.order);
  }
  write_real(p.value, p.result_dtype, 0, value);
  // What rounding may add to the gap: each cost is off by up to half a unit, and each mass by one
  // unit. Balancing changes each demand by up to two more units.
  if (!whole) gap += double(masses.total) * masses.unit / fabs(c.scale);
  if (masses.rounded) gap += double(p.n + 3 * p.m) * masses.unit * most;
  if (excess > 0) gap = fmax(gap - excess, 0);
  gap *= 1 + 0x1p-50;
  if (!whole || masses.rounded) gap += 0x1p-1074;  // covers products that underflowed
  if (p.result_dtype == Dtype::kF32 && gap > double(float(gap))) {
    gap = nextafterf(float(gap), __builtin_inff());
  }
  write_real(p.gap, p.result_dtype, 0, gap);
  *p.status = kOptimal;
}

// Writes the results of a problem without mass.
template <class Given>
void write_empty(const TransportProblem& p, const Given& given, double* u, double* v) {
  const double nan = __builtin_nan(""), sign = p.maximize ? -1 : 1;
  for (int64_t i = 0; i < p.n; ++i) u[i] = nan;
  for (int64_t j = 0; j < p.m; ++j) v[j] = 0;
  extend_duals(p, given, CostMap{}, u, v);
  for (int64_t i = 0; i < p.n; ++i) write_real(p.row_dual, p.result_dtype, i, sign * u[i] + 0.0);
  for (int64_t j = 0; j < p.m; ++j) write_real(p.col_dual, p.result_dtype, j, 0);
  write_plan_end(p, 0);
  write_real(p.value, p.result_dtype, 0, 0);
  write_real(p.gap, p.result_dtype, 0, 0);
  *p.status = kOptimal;
}
