// Maximum flow by push-relabel: Goldberg and Tarjan (J. ACM 35, 1988) with the choice of the
// highest label, the gap heuristic and global relabelling as Cherkassky and Goldberg (Algorithmica
// 19, 1997) found them best.
#ifndef JAXMATCH_FLOW_CPU_PUSH_RELABEL_H_
#define JAXMATCH_FLOW_CPU_PUSH_RELABEL_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// A label is a lower bound on the number of residual arcs to a deficit, n if there is no path. A
// node with excess pushes along arcs to a label one lower, and is relabelled when none is left. The
// excess of label n goes back to the source later (flow/cpu/return_excess.h).
//
// Invariant: along a residual arc the label falls by one at most, so that labels are lower bounds;
// a global relabelling makes them exact, and where no node has some label, nodes of higher labels
// have no path to a deficit (a gap).
//
// Termination: labels are at most n and never fall, so there are at most n^2 relabellings; between
// two pushes that fill the same arc both of its ends are relabelled; between two relabellings each
// discharge ends with at most one push that fills nothing (O(n^2 sqrt(m)) of them, the highest
// label being discharged first). A global relabelling comes after more work than it takes itself.
template <class T>
class PushRelabel {
 public:
  PushRelabel(const Residual<T>& g, HostArena& memory)
      : g_(g),
        label_(memory.take<int32_t>(g.n)),
        current_(memory.take<int32_t>(g.n)),
        links_(memory.take<Links>(g.n)),
        levels_(memory.take<Level>(int64_t(g.n) + 1)),
        queue_(memory.take<int32_t>(g.n)),
        interval_(kRelabelAfter * (kNodeWork * double(g.n) + double(g.num_arcs))) {
    std::fill_n(label_, g.n, 0);
    std::fill_n(levels_, int64_t(g.n) + 1, Level{kNone, kNone});
  }

  void run() {
    relabel_all();
    while (true) {
      while (highest_ >= 0 && levels_[highest_].active < 0) --highest_;
      if (highest_ < 0) return;
      const int32_t v = levels_[highest_].active;
      levels_[highest_].active = links_[v].next;
      discharge(v);
      poll_.after(4 * (1 + int64_t(g_.end[v]) - g_.begin[v]));
      if (double(work_) > interval_) relabel_all();
    }
  }

 private:
  static constexpr int32_t kNone = -1;
  // Work is counted in arcs. A relabelling scans all arcs of a node and costs kNodeWork more, as in
  // hi_pr.
  static constexpr double kRelabelAfter = 2, kNodeWork = 6;
  static constexpr int64_t kRelabelWork = 12;

  struct Links {
    int32_t next, previous;  // `previous` only among idle nodes
  };
  struct Level {
    int32_t active, idle;  // the first nodes with and without excess
  };

  void add_active(int32_t v) {
    Level& level = levels_[label_[v]];
    links_[v].next = level.active;
    level.active = v;
    highest_ = std::max(highest_, label_[v]);
    deepest_ = std::max(deepest_, label_[v]);
  }
  void add_idle(int32_t v) {
    Level& level = levels_[label_[v]];
    links_[v] = {level.idle, kNone};
    if (level.idle >= 0) links_[level.idle].previous = v;
    level.idle = v;
    deepest_ = std::max(deepest_, label_[v]);
  }
  void remove_idle(int32_t v) {
    const Links l = links_[v];
    if (l.next >= 0) links_[l.next].previous = l.previous;
    (l.previous >= 0 ? links_[l.previous].next : levels_[label_[v]].idle) = l.next;
  }

  // Pushes the excess of v, which is in no list, until none is left or no deficit is reachable.
  void discharge(int32_t v) {
    while (true) {
      const int32_t label = label_[v], end = g_.end[v];
      T excess = g_.excess[v];
      int32_t a = current_[v];
      for (; a < end; ++a) {
        FlowArc<T>& arc = g_.arcs[a];
        if (arc.out == 0 || label_[arc.head] != label - 1) continue;
        const int32_t w = arc.head;
        const T amount = std::min(arc.out, excess);
        const T before = g_.excess[w];
        g_.push(arc, amount);
        g_.excess[w] = before + amount;
        excess -= amount;
        if (before <= 0 && before + amount > 0) {
          remove_idle(w);
          add_active(w);
        }
        if (excess == 0) break;
      }
      g_.excess[v] = excess;
      if (excess == 0) {
        current_[v] = a;
        return add_idle(v);
      }
      if (is_alone(label)) return cut_off(v, label);
      relabel(v);
      if (label_[v] >= g_.n) return;
      if (double(work_) > interval_) return add_active(v);
    }
  }

  // True if no other node has this label.
  bool is_alone(int32_t label) const {
    return levels_[label].active < 0 && levels_[label].idle < 0;
  }

  void relabel(int32_t v) {
    int32_t least = g_.n - 1, nearest = g_.end[v];
    for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
      const FlowArc<T>& arc = g_.arcs[a];
      if (arc.out == 0 || label_[arc.head] >= least) continue;
      least = label_[arc.head];
      nearest = a;
    }
    work_ += kRelabelWork + g_.end[v] - g_.begin[v];
    label_[v] = least + 1;
    current_[v] = nearest;
  }

  // Gap: v is the last node of its label, so neither v nor a node of a higher label reaches a
  // deficit. The label is the highest with an active node, so those nodes are idle.
  void cut_off(int32_t v, int32_t label) {
    label_[v] = g_.n;
    for (int32_t d = label + 1; d <= deepest_; ++d) {
      for (int32_t u = levels_[d].idle; u >= 0; u = links_[u].next) label_[u] = g_.n;
      levels_[d].idle = kNone;
    }
    deepest_ = label - 1;
  }

  // Exact labels by a breadth-first search from all deficits against the residual arcs.
  void relabel_all() {
    work_ = 0;
    for (int32_t d = 0; d <= deepest_; ++d) levels_[d] = {kNone, kNone};
    highest_ = deepest_ = -1;
    int32_t found = 0;
    for (int32_t v = 0; v < g_.n; ++v) {
      label_[v] = g_.n;
      if (g_.excess[v] >= 0) continue;
      label_[v] = 0;
      queue_[found++] = v;
    }
    for (int32_t i = 0; i < found; ++i) {
      const int32_t v = queue_[i], next_label = label_[v] + 1;
      for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
        const FlowArc<T>& arc = g_.arcs[a];
        if (arc.in == 0 || label_[arc.head] != g_.n) continue;
        label_[arc.head] = next_label;
        queue_[found++] = arc.head;
      }
      current_[v] = g_.begin[v];
      g_.excess[v] > 0 ? add_active(v) : add_idle(v);
    }
  }

  const Residual<T> g_;
  int32_t* label_;    // [n]
  int32_t* current_;  // [n], no arc before this one leads to the label below
  Links* links_;      // [n], the lists of levels_
  Level* levels_;     // [n + 1]
  int32_t* queue_;    // [n]
  const double interval_;
  int64_t work_ = 0;
  int32_t highest_ = -1;  // no active node has a higher label
  int32_t deepest_ = -1;  // no node has a higher label below n
  Poll poll_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_PUSH_RELABEL_H_
