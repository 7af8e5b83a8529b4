// Canonical form: the rows and columns that have mass, transposed if that gives more rows than
// columns. The costs are copied if the problem is transposed, if a column is left out, or if there
// are levels of costs (levels.h). Otherwise they are read in place.
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

struct CanonicalForm {
  explicit CanonicalForm(const TransportProblem& problem) : p(problem) {}

  void find_used(const Masses& masses) {
    int64_t used_rows = 0, used_cols = 0;
    for (int64_t i = 0; i < p.n; ++i) used_rows += masses.row[i] > 0;
    for (int64_t j = 0; j < p.m; ++j) used_cols += masses.col[j] > 0;
    transposed = used_rows < used_cols;
    gathered = transposed || used_cols < p.m;
    rows = int32_t(transposed ? used_cols : used_rows);
    cols = int32_t(transposed ? used_rows : used_cols);
    few_columns = has_few_columns(rows, cols);
  }

  // Lists the rows and columns that have mass, and their masses.
  template <class W>
  void list(W& w) {
    int32_t *rows_of = w.n_list, *cols_of = w.m_list;
    int64_t *row_mass = transposed ? w.demand : w.supply,
            *col_mass = transposed ? w.supply : w.demand;
    for (int32_t i = 0; i < p.n; ++i) {
      if (w.masses.row[i] == 0) continue;
      *rows_of++ = i;
      *row_mass++ = w.masses.row[i];
    }
    for (int32_t j = 0; j < p.m; ++j) {
      if (w.masses.col[j] == 0) continue;
      *cols_of++ = j;
      *col_mass++ = w.masses.col[j];
    }
    row_list = transposed ? w.m_list : w.n_list;
    col_list = transposed ? w.n_list : w.m_list;
  }

  const TransportProblem& p;
  bool transposed = false, gathered = false, few_columns = false, has_levels = false;
  int32_t rows = 0, cols = 0;
  const int32_t* row_list = nullptr;  // canonical row -> row of the problem (column, if transposed)
  const int32_t* col_list = nullptr;
};

// An arc of a plan.
struct Arc {
  int64_t mass;
  int32_t row, col;  // indices in the given problem
};

template <class C>
struct Workspace {
  Masses masses;
  double *u, *v;  // [n], [m] duals
  int32_t *n_list, *m_list;
  int64_t *supply, *demand;  // masses of the canonical form
  PathMemory paths;          // used if columns are few (few_columns.h)
  Holding* pool;             // used by the auction; empty if columns are few
  int32_t pool_size;
  int32_t *top, *of_row, *ring;
  int64_t *held, *rest;
  int32_t *order, *first;
  ComponentMass* component;
  PlanFlows flows;
  typename C::Given given;
  typename C::Storage storage;
  // Memory of the basis.
  int32_t *above, *child, *next, *previous, *size, *stack;
  int64_t *flow, *price;
  double* shadow;
  Arc* saved;  // [nodes] arcs of the plan that solve_levels() keeps for comparison

  // `known`: find_used() has found the canonical form. Before that, sizes are large enough for the
  // problem and for its transpose.
  void allocate(const TransportProblem& p, const CanonicalForm& f, bool known, Stack* s) {
    const int64_t nodes = p.n + p.m, longer = p.n > p.m ? p.n : p.m;
    masses.row = s->take<int64_t>(p.n);
    masses.col = s->take<int64_t>(p.m);
    masses.real = s->take<double>(nodes);
    component = s->take<ComponentMass>(nodes + 1);
    u = s->take<double>(nodes);
    v = s->take<double>(p.m);
    n_list = s->take<int32_t>(p.n);
    m_list = s->take<int32_t>(p.m);
    supply = s->take<int64_t>(longer);
    demand = s->take<int64_t>(longer);
    const bool few = known && f.few_columns;
    if (few) paths.allocate(f.rows, f.cols, DoubleLanes::kWidth, s);
    const int64_t holdings = few ? 0 : 4 * nodes + 64;
    pool_size = int32_t(holdings < INT32_MAX ? holdings : INT32_MAX);
    pool = s->take<Holding>(pool_size);
    top = s->take<int32_t>(longer);
    of_row = s->take<int32_t>(longer);
    ring = s->take<int32_t>(longer);
    held = s->take<int64_t>(longer);
    rest = s->take<int64_t>(longer);
    order = s->take<int32_t>(nodes + 1);
    first = s->take<int32_t>(p.n + 1);
    above = s->take<int32_t>(nodes + 1);
    child = s->take<int32_t>(nodes + 1);
    next = s->take<int32_t>(nodes + 1);
    previous = s->take<int32_t>(nodes + 1);
    size = s->take<int32_t>(nodes + 1);
    stack = s->take<int32_t>(nodes + 1);
    flow = s->take<int64_t>(nodes + 1);
    price = s->take<int64_t>(nodes + 1);
    shadow = s->take<double>(nodes + DoubleLanes::kWidth);
    saved = s->take<Arc>(known && f.has_levels ? nodes : 0);
    allocate_flows(&flows, p, masses.real, s);
    given.allocate(p, s);
    storage.allocate(f, known, s);
  }

  Basis<C> basis(const C& c) const {
    return {c, c.rows + c.cols, above, flow, child, next, previous, size, price, shadow, stack};
  }
};

// Sets the costs, after copying them if necessary, and the pointer to the column prices.
template <class Lanes, class Elem>
void take_costs(Costs<Lanes, Elem>* c, const CanonicalForm& f,
                const Workspace<Costs<Lanes, Elem>>& w) {
  Elem* const gathered = w.storage.gathered;
  const Elem* const cost = static_cast<const Elem*>(f.p.cost);
  c->rows = f.rows;
  c->cols = f.cols;
  c->v = w.shadow + f.rows;
  for (int32_t j = f.cols; j % DoubleLanes::kWidth != 0; ++j) c->v[j] = -__builtin_inf();
  if (!f.gathered) {
    c->cost = cost;
    c->stride = f.p.m;
    c->row_id = f.rows < f.p.n ? f.row_list : nullptr;
    return;
  }
  c->cost = gathered;
  c->stride = f.cols;
  c->row_id = nullptr;
  constexpr int32_t kRowsAtOnce = 1024;
  Poll poll;
  if (f.transposed && f.rows == f.p.m && f.cols == f.p.n) {
    for (int32_t i = 0; i < f.rows; i += kRowsAtOnce) {
      const int32_t rows = f.rows - i < kRowsAtOnce ? f.rows - i : kRowsAtOnce;
      poll.after(int64_t(rows) * f.cols);
      transpose(cost + i, f.p.m, rows, f.cols, gathered + int64_t(i) * f.cols, f.cols);
    }
    return;
  }
  const int64_t row_step = f.transposed ? 1 : f.p.m, col_step = f.transposed ? f.p.m : 1;
  for (int32_t i = 0; i < f.rows; ++i) {
    poll.after(2 * f.cols);
    const Elem* const row = cost + f.row_list[i] * row_step;
    Elem* const out = gathered + int64_t(i) * f.cols;
    for (int32_t j = 0; j < f.cols; ++j) out[j] = row[f.col_list[j] * col_step];
  }
}

template <class Lanes, class Elem>
void set_costs(Costs<Lanes, Elem>* c, const CanonicalForm& f,
               const Workspace<Costs<Lanes, Elem>>& w) {
  take_costs(c, f, w);
  Poll poll;
  for (int32_t i = 0; c->map.changes() && i < f.rows; ++i) {
    poll.after(2 * f.cols);
    Elem* const row = w.storage.gathered + int64_t(i) * f.cols;
    for (int32_t j = 0; j < f.cols; ++j) row[j] = c->mapped(row[j]);
  }
}
