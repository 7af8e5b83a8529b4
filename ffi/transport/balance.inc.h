// Scales float demands so that they sum to the supplies. Mass cannot move between connected
// components of the graph of allowed pairs, so each component is scaled by itself.
//
// Included inside a namespace, after compensated_sum.inc.h and masses.inc.h: by the CUDA kernels,
// and by the CPU solver once per instruction set. The solvers of different instruction sets must
// not share inline functions (see assignment/cpu/problem.h).

// The node that represents the component of x. Also shortens the paths in `parent` (union-find).
JAXMATCH_HOST_DEVICE inline int32_t find_component(int32_t* parent, int32_t x) {
  while (parent[x] != x) {
    parent[x] = parent[parent[x]];
    x = parent[x];
  }
  return x;
}

// The sums of the masses of one component.
struct ComponentMass {
  CompensatedSum supply, demand;
  double factor;        // the demands are multiplied by this
  int64_t more, total;  // in units: supplies minus demands, and the sum of the demands
  int64_t left;         // part of `more` that is not yet added to demands
  int32_t most;         // the column with the most units

  // Whether supplies and demands have equal sums, within the relative tolerance `forgiven`. Sets
  // `factor` and `left`.
  JAXMATCH_HOST_DEVICE bool agrees(double forgiven) {
    const double a = supply.value(), b = demand.value();
    factor = b > 0 ? a / b : 1;
    left = more;
    return fabs(a - b) <= forgiven * fmax(a, b) && (b > 0 || a == 0);
  }
};

// Scales the demands. One thread calls sum(), then agrees(), then spread().
struct Balance {
  int64_t n, m;
  int64_t *row, *col;  // [n], [m] in units
  double* real;        // [n + m] masses as floats: supplies, then demands
  // [n + m] union-find of rows, then columns; kNone for those without mass. Null if there is only
  // one component.
  int32_t* parent;
  ComponentMass* mass;  // [n + m] by representative node of the component; [1] if `parent` is null

  JAXMATCH_HOST_DEVICE int64_t components() const { return parent ? n + m : 1; }
  JAXMATCH_HOST_DEVICE int32_t component(int64_t x) const {
    return !parent ? 0 : parent[x] == kNone ? kNone : find_component(parent, int32_t(x));
  }

  JAXMATCH_HOST_DEVICE void sum() const {
    for (int64_t c = 0; c < components(); ++c) mass[c] = {{}, {}, 1, 0, 0, 0, kNone};
    for (int64_t x = 0; x < n + m; ++x) {
      const int32_t c = component(x);
      if (c == kNone) continue;
      const int64_t units = x < n ? row[x] : col[x - n];
      ComponentMass& own = mass[c];
      (x < n ? own.supply : own.demand).add(real[x]);
      own.more += x < n ? units : -units;
      own.total += x < n ? 0 : units;
    }
  }

  // Whether supplies and demands have equal sums in every component.
  JAXMATCH_HOST_DEVICE bool agrees(double forgiven) const {
    for (int64_t c = 0; c < components(); ++c) {
      if (!mass[c].agrees(forgiven)) return false;
    }
    return true;
  }

  // Scales the demands of each component to sum to its supplies. Returns whether any demand changed
  // in units.
  JAXMATCH_HOST_DEVICE bool spread() const {
    bool changed = false;
    for (int64_t j = 0; j < m; ++j) {
      const int32_t c = component(n + j);
      if (c == kNone) continue;
      ComponentMass& own = mass[c];
      real[n + j] *= own.factor;
      if (own.more != 0) {
        const double part = own.total > 0 ? double(col[j]) / double(own.total) : 0;
        const int64_t share = int64_t(double(own.more) * part);
        col[j] += share;
        own.left -= share;
        changed = true;
      }
      if (own.most == kNone || col[j] > col[own.most]) own.most = int32_t(j);
    }
    for (int64_t c = 0; c < components(); ++c) {
      if (mass[c].left != 0) settle(int32_t(c));
    }
    return changed;
  }

  // Adds `left`, the remainder from rounding the shares in spread(), to the column with the most
  // units. If its demand is then negative, other columns of the component give the missing units.
  JAXMATCH_HOST_DEVICE void settle(int32_t c) const {
    ComponentMass& own = mass[c];
    col[own.most] += own.left;
    int64_t lacks = col[own.most] < 0 ? -col[own.most] : 0;
    col[own.most] += lacks;
    for (int64_t j = 0; lacks > 0; ++j) {
      if (component(n + j) != c) continue;
      const int64_t less = lacks < col[j] ? lacks : col[j];
      col[j] -= less;
      lacks -= less;
    }
  }
};
