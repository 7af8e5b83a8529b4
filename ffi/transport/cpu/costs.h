// The costs of a problem in canonical form (canonical.h), as a minimisation in whole units. The
// unit is a power of two, to which float costs are rounded; integer costs have the unit 1.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

constexpr int32_t kNone = -1;  // no row, column or node

// Estimated time of a random memory access in nanoseconds, for Poll::after().
constexpr int64_t kMissNs = 10;

// Sums of costs along a path of the basis tree do not exceed this, in units.
constexpr double kMostOnPath = 0x1p61;
// Greatest magnitude of a price with which the simplex method starts.
constexpr double kMostFirstPrice = 0x1p59;

// The first basis is a forest. In each of its trees, all prices follow from the price of one node.
// This price is rounded to so coarse a grid that a price as large as the greatest cost has this
// many bits. Costs with few bits then get duals with few bits, which float32 can hold.
constexpr int kCoarseBits = 14;

// The given costs, [n, m].
template <class ElemType>
struct GivenCosts {
  using Elem = ElemType;

  const Elem* cost;
  int64_t n, m;

  void allocate(const TransportProblem& p, Stack*) {
    cost = static_cast<const Elem*>(p.cost);
    n = p.n;
    m = p.m;
  }
  void load() {}
  const Elem* row(int64_t i) const { return cost + i * m; }
  Elem at(int64_t i, int64_t j) const { return cost[i * m + j]; }
  // Calls f(i, cost) for each row i of column j.
  template <class F>
  void for_column(int64_t j, const F& f) const {
    for (int64_t i = 0; i < n; ++i) f(i, cost[i * m + j]);
  }
};

template <class LanesType, class ElemType>
struct Costs {
  using Lanes = LanesType;
  using Acc = double;
  using Elem = ElemType;
  using Given = GivenCosts<Elem>;
  static constexpr bool kComputed = false;

  // Memory for a copy of the costs, if take_costs() needs one.
  struct Storage {
    Elem* gathered = nullptr;

    template <class Form>
    void allocate(const Form& f, bool known, Stack* s) {
      gathered = known && f.gathered ? s->take<Elem>(int64_t(f.rows) * f.cols) : nullptr;
    }
  };

  template <class Form>
  static bool can_keep_rows(const Form&) {
    return true;
  }

  const Elem* cost;
  int64_t stride;
  const int32_t* row_id;  // [rows] for row i, its index in `cost`; null if that is i
  int32_t rows, cols;
  double scale = 1;  // factor from costs to units; negative to maximise
  // Cost of a forbidden pair, in units: more than the cost of any cycle of allowed pairs. 0 for
  // integer costs, which cannot forbid a pair.
  int64_t forbidden = 0;
  double coarse = 1;  // first prices are multiples of this many units, see Basis::grow_tree()
  CostMap map;        // changes the given costs (common/cost_levels.inc.h)
  double* v;          // [cols, padded to whole vectors] column prices; -infinity in the padding

  const Elem* row(int64_t i) const { return cost + (row_id ? row_id[i] : i) * stride; }
  Elem mapped(Elem x) const {
    if constexpr (!Format<Elem>::kInteger) {
      if (map.changes()) return mapped_cost(map, x, scale < 0);
    }
    return x;
  }
  double key_of(Elem x) const { return double(widen(x)) * scale; }
  double key(int64_t i, int64_t j) const { return key_of(row(i)[j]); }

  // The cost in whole units.
  int64_t units_of(Elem x) const {
    if constexpr (Format<Elem>::kInteger) {
      return scale < 0 ? -int64_t(x) : int64_t(x);
    } else {
      const double y = double(widen(x)) * scale;
      return y < __builtin_inf() ? as_integer(y) : forbidden;
    }
  }
  int64_t units(int64_t i, int64_t j) const { return units_of(row(i)[j]); }
};

// What summarize_costs() finds.
struct CostSummary {
  bool invalid = false;            // a cost is NaN, or infinite with the sign that does not forbid
  bool forbids = false;            // some pair is forbidden
  uint64_t most_whole = 0;         // greatest magnitude of integer costs
  double most = 0;                 // greatest magnitude of finite float costs
  double least = __builtin_inf();  // least magnitude of nonzero float costs
};

// Summarises all unmasked costs, including those of rows and columns without mass.
template <class Given>
CostSummary summarize_costs(const TransportProblem& p, const Given& given) {
  using Elem = typename Given::Elem;
  CostSummary found;
  Poll poll;
  const double sign = p.maximize ? -1 : 1;
  for (int64_t i = 0; i < p.n; ++i) {
    if (p.row_mask && !p.row_mask[i]) continue;
    poll.after(p.m + 1);
    const Elem* const cost = given.row(i);
    for (int64_t j = 0; j < p.m; ++j) {
      if (p.col_mask && !p.col_mask[j]) continue;
      if constexpr (Format<Elem>::kInteger) {
        const int64_t x = cost[j];
        const uint64_t size = x < 0 ? 0 - uint64_t(x) : uint64_t(x);
        found.most_whole = size > found.most_whole ? size : found.most_whole;
      } else {
        const double x = sign * widen(cost[j]), size = fabs(x);
        const bool finite = size < __builtin_inf();
        found.invalid |= !(x > -__builtin_inf());
        found.forbids |= !finite;
        found.most = finite && size > found.most ? size : found.most;
        found.least = size > 0 && size < found.least ? size : found.least;
      }
    }
  }
  return found;
}

// An upper bound on the number of arcs of a path or a cycle, plus a little room for rounding.
// `shorter`: the smaller of the number of rows and the number of columns.
inline double most_arcs(int64_t shorter) { return 2 * double(shorter) + 2; }

// Chooses the smallest unit for which a float cost has at most kMostFloatBits bits and sums along
// paths fit into 62 bits. Integer costs keep the unit 1; returns false if their sums do not fit.
template <class C>
bool choose_unit(C& c, const CostSummary& found, bool maximize, int64_t shorter) {
  const double arcs = most_arcs(shorter);
  const double sign = maximize ? -1 : 1;
  if constexpr (Format<typename C::Elem>::kInteger) {
    c.scale = sign;
    return double(found.most_whole) * arcs <= kMostOnPath;
  } else {
    // Every second arc of a path may be a forbidden pair, which costs more than any cycle of
    // allowed pairs.
    const double most_units = kMostOnPath / (found.forbids ? 2 * arcs * arcs : arcs);
    int bits = ilogb(most_units);
    bits = bits < kMostFloatBits ? bits : kMostFloatBits;
    const int most = found.most > 0 ? ilogb(found.most) + 1 : 0;
    const int exponent = bits - most;
    c.scale = sign * ldexp(1, exponent > 1000 ? 1000 : exponent);
    c.coarse = ldexp(1, bits > kCoarseBits ? bits - kCoarseBits : 0);
    c.forbidden = int64_t(ldexp(arcs, bits));
    return true;
  }
}
