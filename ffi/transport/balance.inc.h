// Demands of floats that sum as the supplies do, in each component of the allowed pairs: no mass
// moves from one to another.
//
// Included inside a namespace, after the compensated sums and masses.inc.h: once per instruction
// set by the CPU's solver, which must not share inline functions, and by the CUDA kernels.

// The node that stands for the component of x. `parent` leads there.
JAXMATCH_HOST_DEVICE inline int32_t find_component(int32_t* parent, int32_t x) {
  while (parent[x] != x) {
    parent[x] = parent[parent[x]];
    x = parent[x];
  }
  return x;
}

// What a component has.
struct ComponentMass {
  CompensatedSum supply, demand;
  double factor;        // of its demands
  int64_t more, total;  // units that its demands lack, and that they have
  int64_t left;         // of `more`
  int32_t most;         // the column of greatest mass

  // Whether the sums agree; chooses the factor.
  JAXMATCH_HOST_DEVICE bool agrees(double forgiven) {
    const double a = supply.value(), b = demand.value();
    factor = b > 0 ? a / b : 1;
    left = more;
    return fabs(a - b) <= forgiven * fmax(a, b) && (b > 0 || a == 0);
  }
};

// By one thread.
struct Balance {
  int64_t n, m;
  int64_t *row, *col;   // in units
  double* real;         // [n + m]
  int32_t* parent;      // [n + m] kNone for nodes without mass; null if all are in one component
  ComponentMass* mass;  // [n + m] by component, [1] if there is one

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

  // Whether the sums of all components agree.
  JAXMATCH_HOST_DEVICE bool agrees(double forgiven) const {
    for (int64_t c = 0; c < components(); ++c) {
      if (!mass[c].agrees(forgiven)) return false;
    }
    return true;
  }

  // Changes the demands in proportion, so that they sum as the supplies of their component do.
  // Returns whether units were changed.
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

  // Gives what shares leave to the column of greatest mass, and takes what it lacks from others.
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
