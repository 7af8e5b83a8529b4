// Sends the mass that nodes could not send when flows were recomputed (transport/plan_flows.inc.h).
//
// Included once per instruction set, inside that set's namespace (transport/cpu/solver.inc.h).

inline void allocate_flows(PlanFlows* f, const TransportProblem& p, double* mass, Stack* s) {
  f->rows = int32_t(p.n);
  f->nodes = int32_t(p.n + p.m);
  f->spare = spare(p.mass_dtype);
  f->key = s->take<uint64_t>(2 * f->nodes);
  f->flow = s->take<double>(2 * f->nodes);
  f->mass = mass;
  f->rest = s->take<double>(f->nodes);
  f->arcs = s->take<int32_t>(f->nodes);
  f->link = s->take<int32_t>(f->nodes);
  f->stays = s->take<int32_t>(f->nodes);
}

// Nodes that could receive the remaining mass of a node; kNone if there are none.
struct Receivers {
  int32_t best = kNone;   // of the nodes that can take all the mass, the one of least reduced cost
  int32_t open = kNone;   // the node with the most remaining mass
  int32_t large = kNone;  // the node with the greatest given mass
  // Whether the mass does not exceed the allowed error (PlanFlows::spare) of some node.
  bool ample = false;

  template <class Slack>
  void find(const PlanFlows& f, int32_t x, const Slack& slack) {
    double least = __builtin_inf();
    const int32_t first = f.is_row(x) ? f.rows : 0, last = f.is_row(x) ? f.nodes : f.rows;
    for (int32_t y = first; y < last; ++y) {
      if (!(f.mass[y] > 0)) continue;
      const double above = slack(x, y);
      if (!(above < __builtin_inf())) continue;
      ample |= f.spare * f.mass[y] >= f.rest[x];
      if (f.room(y) >= f.rest[x] && above < least) {
        best = y;
        least = above;
      }
      if (f.has_left(y) && (open == kNone || f.rest[y] > f.rest[open])) open = y;
      if (large == kNone || f.mass[y] > f.mass[large]) large = y;
    }
  }
};

inline int32_t find_arc(const PlanFlows& f, uint64_t key) {
  for (int32_t k = 0; k < f.count; ++k) {
    if (f.key[k] == key) return k;
  }
  return kNone;
}

// Sends the remaining mass of all nodes, by new arcs if necessary. Nodes without an `ample`
// receiver come first: they need receivers with remaining mass, which other nodes might use up.
// Returns false if a node has remaining mass but no allowed pair.
template <class Slack>
bool send_rest(PlanFlows& f, const Slack& slack) {
  Poll poll;
  for (int pass = 0; pass < 2; ++pass) {
    for (int32_t x = 0; x < f.nodes; ++x) {
      while (f.has_left(x) && !f.is_full()) {
        poll.after(kMissNs * f.nodes);
        Receivers to;
        to.find(f, x, slack);
        if (to.large == kNone) return false;
        if (pass == 0 && to.ample) break;
        const int32_t y = to.best != kNone ? to.best : to.open != kNone ? to.open : to.large;
        const double all = f.rest[x], part = y == to.open ? fmin(all, f.rest[y]) : all;
        f.send(x, y, find_arc(f, f.key_of(x, y)), part, slack(x, y));
      }
    }
  }
  return true;
}
