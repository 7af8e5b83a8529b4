// Brings a problem into canonical form: applies masks, chooses the orientation, copies the costs if
// necessary.
//
// Included once per instruction set, inside that set's namespace (assignment/cpu/solver.inc.h).

// The rows or the columns that a mask includes.
struct Used {
  int64_t count, first;
  bool contiguous;
};

Used used_part(const uint8_t* mask, int64_t size) {
  if (!mask) return {size, 0, true};
  Used used{0, 0, true};
  int64_t last = -1;
  for (int64_t k = 0; k < size; ++k) {
    if (!mask[k]) continue;
    if (used.count++ == 0) used.first = k;
    last = k;
  }
  used.contiguous = used.count == 0 || last - used.first + 1 == used.count;
  return used;
}

void list_used(const uint8_t* mask, int64_t size, int32_t* list) {
  for (int64_t k = 0; k < size; ++k) {
    if (!mask || mask[k]) *list++ = int32_t(k);
  }
}

// Canonical form: at least as many columns as rows, unless rows may stay unmatched at a cost. The
// costs are copied if the problem is transposed, if the unmasked columns are not contiguous, or if
// the copy will differ from the original, because big-M costs are forbidden in it (`differs`).
// Otherwise the costs are read in place.
struct CanonicalForm {
  CanonicalForm(const AssignmentProblem& problem, bool copy_differs)
      : p(problem),
        n(used_part(p.row_mask, p.n)),
        m(used_part(p.col_mask, p.m)),
        differs(copy_differs) {
    transposed = !p.unmatched_cost && n.count > m.count;
    gathered = !p.points && (transposed || !m.contiguous || differs);
    rows = transposed ? m.count : n.count;
    cols = transposed ? n.count : m.count;
  }

  void allocate_lists(Stack* stack) {
    int32_t* n_list = stack->take<int32_t>(n.count);
    int32_t* m_list = stack->take<int32_t>(m.count);
    if (!stack->base) return;
    list_used(p.row_mask, p.n, n_list);
    list_used(p.col_mask, p.m, m_list);
    row_list = transposed ? m_list : n_list;
    col_list = transposed ? n_list : m_list;
  }

  const AssignmentProblem& p;
  Used n, m;
  int64_t rows, cols;
  bool differs, transposed, gathered;
  const int32_t* row_list =
      nullptr;  // [rows] index in the caller's problem; of a column, if transposed
  const int32_t* col_list = nullptr;  // [cols] likewise for columns
};

// Copies the unmasked costs in their own dtype. A transposition reads kBlock rows of the problem at
// a time, so that these rows stay in cache.
template <class Elem>
void copy_costs(const CanonicalForm& f, const Elem* cost, Elem* out) {
  constexpr int64_t kBlock = 16;
  const int64_t stride = f.p.m;
  if (!f.transposed) {
    for (int64_t i = 0; i < f.rows; ++i) {
      const Elem* row = cost + f.row_list[i] * stride;
      for (int64_t j = 0; j < f.cols; ++j) out[i * f.cols + j] = row[f.col_list[j]];
    }
    return;
  }
  if (f.n.contiguous && f.m.contiguous) {
    return transpose(cost + f.n.first * stride + f.m.first, stride, f.rows, f.cols, out, f.cols);
  }
  for (int64_t first = 0; first < f.cols; first += kBlock) {
    const int64_t end = first + kBlock < f.cols ? first + kBlock : f.cols;
    for (int64_t i = 0; i < f.rows; ++i) {
      const Elem* column = cost + f.row_list[i];
      for (int64_t j = first; j < end; ++j) out[i * f.cols + j] = column[f.col_list[j] * stride];
    }
  }
}

// Allocates the copy of the costs, if one is needed.
template <class Lanes, class Elem>
void allocate_costs(State<Lanes, Elem>* s, const CanonicalForm& f, Stack* stack) {
  s->gathered = f.gathered ? stack->take<Elem>(f.rows * f.cols) : nullptr;
}

// Copies the costs if necessary, and points s->cost to the costs in canonical form.
template <class Lanes, class Elem>
void gather_costs(State<Lanes, Elem>* s, const CanonicalForm& f) {
  const Elem* cost = static_cast<const Elem*>(f.p.cost);
  if (f.gathered) {
    copy_costs(f, cost, s->gathered);
    s->cost = s->gathered;
    s->stride = f.cols;
    s->row_id = nullptr;
  } else {
    s->cost = cost + f.m.first;
    s->stride = f.p.m;
    s->row_id = f.p.row_mask ? f.row_list : nullptr;
  }
}

void write_failure(const AssignmentProblem& p, Status status) {
  const double nan = __builtin_nan("");
  for (int64_t i = 0; i < p.n; ++i) {
    p.col4row[i] = kNone;
    write_real(p.row_dual, p.result_dtype, i, nan);
  }
  for (int64_t j = 0; j < p.m; ++j) {
    p.row4col[j] = kNone;
    write_real(p.col_dual, p.result_dtype, j, nan);
  }
  write_real(p.value, p.result_dtype, 0, nan);
  write_real(p.gap, p.result_dtype, 0, nan);
  *p.status = status;
}
