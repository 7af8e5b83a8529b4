// Levels of costs (common/cost_levels.inc.h): a cost of a higher level, such as 1e9 for pairs to
// avoid, outweighs any exchange of lower costs. A problem is solved without its higher levels if it
// is feasible without them.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

// Applies `map` to a cost of any number format. Every format can hold the result: the cost itself,
// infinity, or a power of two below the cost.
template <class Elem>
Elem mapped_cost(const CostMap& map, Elem cost, bool maximize) {
  using F = Format<Elem>;
  const double x = maximize ? -widen(cost) : widen(cost), y = map.of(x);
  if (x == y) return cost;
  using Bits = typename F::Bits;
  Bits bits = F::kInfinityBits;
  if (y < __builtin_inf()) {  // a power of two, maybe a denormal number
    const int size = ilogb(y) - F::kLowest, exponent = size - (F::kDigits - 2);
    bits = exponent > 0 ? Bits(Bits(exponent) << (F::kDigits - 1)) : Bits(Bits(1) << size);
  }
  if (maximize) bits |= Bits(Bits(1) << (8 * sizeof(Bits) - 1));
  Elem out;
  memcpy(&out, &bits, sizeof out);
  return out;
}

// Calls f(i, j, x) for all finite costs x between rows and columns with mass. x is negated if the
// problem maximises.
template <class Given, class F>
void for_used_costs(const TransportProblem& p, const Given& given, const Masses& masses,
                    const F& f) {
  const double sign = p.maximize ? -1 : 1;
  Poll poll;
  for (int64_t i = 0; i < p.n; ++i) {
    if (masses.row[i] == 0) continue;
    poll.after(2 * p.m);
    const typename Given::Elem* const row = given.row(i);
    for (int64_t j = 0; j < p.m; ++j) {
      const double x = sign * double(widen(row[j]));
      if (masses.col[j] > 0 && x < __builtin_inf()) f(i, j, x);
    }
  }
}

// Whether there may be several levels. This quick test looks at some rows only. It spares most
// problems with a single level the search of all costs.
template <class Given>
bool may_have_levels(const TransportProblem& p, const Given& given, const CostSummary& found,
                     const Masses& masses) {
  constexpr int64_t kRows = 32;
  const int64_t step = p.n / kRows + 1;
  Exponents seen;
  for (int64_t i = 0; i < p.n; i += step) {
    while (i < p.n && masses.row[i] == 0) ++i;
    const typename Given::Elem* const row = i < p.n ? given.row(i) : nullptr;
    for (int64_t j = 0; row && j < p.m; ++j) {
      const double x = widen(row[j]);
      if (masses.col[j] > 0 && x != 0 && fabs(x) < __builtin_inf()) seen.add(exponent_of(x));
    }
  }
  return may_have_levels(seen, found.most, found.least);
}

// Returns the levels of the costs. Sets `needed` to the highest level that every plan needs: some
// row or column has no cost in a lower level. `outweighs`: see CostLevels::split(). `least`:
// scratch, [m].
template <class Given>
CostLevels find_levels(const TransportProblem& p, const Given& given, const Masses& masses,
                       double outweighs, double* least, int* needed) {
  Exponents all, wanted;
  for_used_costs(p, given, masses, [&](int64_t, int64_t, double x) {
    if (x == 0) return;
    all.add(exponent_of(x));
    if (x < 0) wanted.add(exponent_of(x));
  });
  CostLevels found;
  found.split(all, wanted.most(), outweighs);
  const double infinity = __builtin_inf();
  for (int64_t j = 0; j < p.m; ++j) least[j] = masses.col[j] > 0 ? infinity : -infinity;
  *needed = 0;
  int64_t row = -1;
  double of_row = -infinity;
  const auto need = [&](double x) {
    // A row or column that has only forbidden pairs needs no level: no level makes it feasible.
    const int at = x < infinity ? found.of(x) : 0;
    *needed = at > *needed ? at : *needed;
  };
  for_used_costs(p, given, masses, [&](int64_t i, int64_t j, double x) {
    found.level[found.of(x)].add(fabs(x));
    if (i != row) need(of_row);
    of_row = i == row && of_row < x ? of_row : x;
    row = i;
    least[j] = x < least[j] ? x : least[j];
  });
  need(of_row);
  for (int64_t j = 0; j < p.m; ++j) need(least[j]);
  return found;
}
