// Balances float masses, see transport/balance.inc.h.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Finds the connected components of the graph of allowed pairs between rows and columns with mass.
// Returns their number. Stops as soon as only one component is left.
template <class Given>
int64_t join_components(const TransportProblem& p, const Given& given, const Masses& masses,
                        int32_t* parent) {
  using Elem = typename Given::Elem;
  const double sign = p.maximize ? -1 : 1;
  Poll poll;
  int64_t count = 0;
  for (int32_t x = 0; x < p.n + p.m; ++x) {
    const bool used = masses.real[x] > 0;
    parent[x] = used ? x : kNone;
    count += used;
  }
  for (int32_t i = 0; i < p.n && count > 1; ++i) {
    if (parent[i] == kNone) continue;
    poll.after(p.m);
    const Elem* const row = given.row(i);
    for (int32_t j = 0; j < p.m; ++j) {
      if (parent[p.n + j] == kNone || !(sign * double(widen(row[j])) < __builtin_inf())) continue;
      const int32_t x = find_component(parent, i), y = find_component(parent, int32_t(p.n) + j);
      count -= x != y;
      parent[y] = x;
    }
  }
  return count;
}

// Balances float masses, for problems without `moved`. `mass` and `parent` are scratch.
template <class Given>
Status balance_masses(const TransportProblem& p, const Given& given, bool forbids,
                      ComponentMass* mass, int32_t* parent, Masses* out) {
  const bool one = !forbids || join_components(p, given, *out, parent) <= 1;
  const Balance balance{p.n, p.m, out->row, out->col, out->real, one ? nullptr : parent, mass};
  balance.sum();
  if (!balance.agrees(tolerance(p.coarsest, p.n + p.m))) return kInfeasible;
  // If the unit is the least positive double, all masses of one side may round to 0 units.
  if (one && (mass->total == 0) != (mass->total + mass->more == 0)) {
    out->lacking = fabs(mass->supply.value() - mass->demand.value());
    return kUnbalanced;
  }
  out->rounded |= balance.spread();
  return kOptimal;
}

// Whether rounding to units changed some mass by more than half of the allowed error (spare()).
inline bool are_coarse(const TransportProblem& p, const Masses& masses) {
  const double near = spare(p.mass_dtype) / 2;
  bool coarse = false;
  for (int64_t i = 0; i < p.n; ++i) {
    coarse |= fabs(double(masses.row[i]) * masses.unit - masses.real[i]) > near * masses.real[i];
  }
  for (int64_t j = 0; j < p.m; ++j) {
    const double real = masses.real[p.n + j];
    coarse |= fabs(double(masses.col[j]) * masses.unit - real) > near * real;
  }
  return coarse;
}
