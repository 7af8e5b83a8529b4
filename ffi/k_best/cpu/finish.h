// Converts the results from the canonical form (k_best/cpu/units.h) to the form of the problem.
//
// Included once per instruction set, inside that set's namespace (k_best/cpu/solver.inc.h).

// Marks entries `first` and later of the list of assignments as empty.
void write_rest(const KBestProblem& p, int64_t first) {
  const double nan = __builtin_nan("");
  for (int64_t x = first; x < p.k; ++x) {
    for (int64_t i = 0; i < p.n; ++i) p.col4row[x * p.n + i] = kNone;
    for (int64_t j = 0; j < p.m; ++j) p.row4col[x * p.m + j] = kNone;
    write_real(p.value, p.result_dtype, x, nan);
  }
}

void write_failure(const KBestProblem& p, Status status) {
  const double nan = __builtin_nan("");
  write_rest(p, 0);
  for (int64_t i = 0; i < p.n; ++i) write_real(p.row_dual, p.result_dtype, i, nan);
  for (int64_t j = 0; j < p.m; ++j) write_real(p.col_dual, p.result_dtype, j, nan);
  write_real(p.gap, p.result_dtype, 0, nan);
  *p.found = 0;
  *p.status = status;
}

// Writes the duals of node 0, the best assignment.
void write_duals(const KBestProblem& p, const Form& f, const Matrix& c, const Tree& tree) {
  for (int64_t i = 0; i < p.n; ++i) write_real(p.row_dual, p.result_dtype, i, 0);
  for (int64_t j = 0; j < p.m; ++j) write_real(p.col_dual, p.result_dtype, j, 0);
  void* const row_dual = f.transposed ? p.col_dual : p.row_dual;
  void* const col_dual = f.transposed ? p.row_dual : p.col_dual;
  const auto real = [&](int64_t units) { return double(units) / c.scale + 0.0; };
  const int32_t* const col4row = tree.col4row_of(0);
  const int64_t* const v = tree.v_of(0);
  for (int32_t i = 0; i < c.rows; ++i) {
    const int64_t u = c.row(i)[col4row[i]] - v[col4row[i]];
    write_real(row_dual, p.result_dtype, f.row_list[i], real(u));
  }
  for (int32_t j = 0; j < c.cols; ++j) {
    write_real(col_dual, p.result_dtype, f.col_list[j], real(v[j]));
  }
}

// The cost of an assignment: the sum of the given costs, before they are rounded to units.
template <class Elem>
double sum_costs(const KBestProblem& p, const Form& f, const int32_t* col4row) {
  const Elem* const cost = static_cast<const Elem*>(p.cost);
  ExactSum sum;
  for (int32_t i = 0; i < f.rows; ++i) sum.add(double(widen(cost[f.place(p, i, col4row[i])])));
  return sum.value();
}

// Whether a pair of the best assignment costs at least `from`.
template <class Elem>
bool first_pays(const KBestProblem& p, const Form& f, const Matrix& c, const Tree& tree,
                double from) {
  const double sign = p.maximize ? -1 : 1;
  const Elem* const cost = static_cast<const Elem*>(p.cost);
  const int32_t* const col4row = tree.col4row_of(0);
  for (int32_t i = 0; i < c.rows; ++i) {
    if (sign * double(widen(cost[f.place(p, i, col4row[i])])) >= from) return true;
  }
  return false;
}

// An assignment of the list and its cost, which is negated if costs are maximised.
struct Ranked {
  double cost;
  int32_t node;
};

int compare(const void* a, const void* b) {
  const Ranked &x = *static_cast<const Ranked*>(a), &y = *static_cast<const Ranked*>(b);
  if (x.cost != y.cost) return x.cost < y.cost ? -1 : 1;
  return x.node < y.node ? -1 : x.node > y.node;
}

template <class Elem>
void write_solution(const KBestProblem& p, const Form& f, const Matrix& c, const Tree& tree,
                    Ranked* ranked) {
  const double sign = p.maximize ? -1 : 1;
  int64_t best = 0;
  for (int32_t i = 0; i < c.rows; ++i) best += c.row(i)[tree.col4row_of(0)[i]];
  for (int32_t x = 0; x < tree.size; ++x) {
    const double units = double(best + tree.node[x].cost);
    ranked[x] = {c.exact ? units / fabs(c.scale) : sign * sum_costs<Elem>(p, f, tree.col4row_of(x)),
                 x};
  }
  // Rounding costs to units may have changed the order of the assignments.
  if (!c.exact) qsort(ranked, size_t(tree.size), sizeof *ranked, compare);
  for (int64_t x = 0; x < tree.size; ++x) {
    int32_t *const col4row = p.col4row + x * p.n, *const row4col = p.row4col + x * p.m;
    for (int64_t i = 0; i < p.n; ++i) col4row[i] = kNone;
    for (int64_t j = 0; j < p.m; ++j) row4col[j] = kNone;
    const int32_t* const to = tree.col4row_of(ranked[x].node);
    for (int32_t i = 0; i < c.rows; ++i) {
      const int32_t row = f.row_list[i], col = f.col_list[to[i]];
      col4row[f.transposed ? col : row] = f.transposed ? row : col;
      row4col[f.transposed ? row : col] = f.transposed ? col : row;
    }
    write_real(p.value, p.result_dtype, x, sign * ranked[x].cost + 0.0);
  }
  write_rest(p, tree.size);
  write_duals(p, f, c, tree);
  // Rounding to units moved the cost of an assignment by at most half a unit for each row. A listed
  // assignment and the one that belongs in its place may both have moved. So `gap` is one unit for
  // each row.
  double gap = c.exact ? 0 : double(c.rows) / fabs(c.scale) * (1 + 0x1p-50);
  if (p.result_dtype == Dtype::kF32 && gap > double(float(gap))) {
    gap = nextafterf(float(gap), __builtin_inff());
  }
  write_real(p.gap, p.result_dtype, 0, gap);
  *p.found = tree.size;
  *p.status = kOptimal;
}
