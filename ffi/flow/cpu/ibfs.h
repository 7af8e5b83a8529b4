// Maximum flow by augmenting paths between two kinds of search trees: incremental breadth-first
// search of Goldberg, Hed, Kaplan, Tarjan and Werneck (ESA 2011). It is a Boykov-Kolmogorov
// algorithm whose trees remain shortest-path trees.
#ifndef JAXMATCH_FLOW_CPU_IBFS_H_
#define JAXMATCH_FLOW_CPU_IBFS_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "common/cpu/host_arena.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// Source trees grow from nodes with excess along residual arcs; sink trees grow from nodes with
// deficit against residual arcs. Both grow one level at a time. Where a source tree touches a sink
// tree, flow is augmented along the path between their roots.
//
// A node becomes an orphan if the arc between its parent and itself is saturated, or if it is a
// root whose excess or deficit is used up. An orphan keeps its level if it finds a new parent one
// level nearer to the roots. Otherwise its children become orphans, and it takes the possible
// parent with the lowest level. If no neighbour can be its parent, it leaves the trees.
//
// Invariants between two steps, for source trees; for sink trees, reverse all arcs:
// - A child's level is its parent's level plus one, and the arc from parent to child is residual.
// - The depth is the level that the trees scan now or next. Nodes of lower levels have been
//   scanned: all residual arcs out of them lead to nodes of source trees.
// - Along a residual arc between two nodes of source trees, the level rises by at most one.
// So levels are distances from the roots, and they never fall.
//
// Termination: levels are at most n and only rise, and a node scans each of its arcs at most twice
// per level. An augmentation saturates an arc or uses up the excess or deficit of a root. A tree
// arc can be saturated again only after the level of one of its ends has risen. So there are O(n m)
// augmentations.
template <class T>
class Ibfs {
 public:
  Ibfs(const Residual<T>& g, HostArena& memory)
      : g_(g),
        memory_(memory),
        level_(memory.take<int32_t>(g.n, 0)),
        parent_(memory.take<int32_t>(g.n)),
        current_(memory.take<int32_t>(g.n)),
        family_(memory.take<Family>(g.n)) {
    for (Trees* trees : {&source_, &sink_}) {
      trees->frontier = memory.take<int32_t>(g.n);
      trees->next = memory.take<int32_t>(g.n);
    }
    orphans_ = memory.take<int32_t>(int64_t(g.n) + 2);
    std::fill_n(orphans_, 2, kNone);
  }

  void solve() {
    start();
    run(INT64_MAX);
  }

  // Pushes excess straight to neighbours with a deficit. Then each node that still has excess or a
  // deficit becomes a root.
  void start() {
    push_to_neighbours();
    plant();
  }
  // Returns true if the flow is maximum. Returns false once all calls together have scanned about
  // `max_scans` arcs.
  bool run(int64_t max_scans) {
    max_scans_ = max_scans;
    while (source_.count > 0 && sink_.count > 0) {
      if (!(grows_source_ ? grow<true>() : grow<false>())) return false;
    }
    return true;
  }
  int64_t scans() const { return scans_; }
  int64_t paths() const { return paths_; }
  int64_t depth() const { return int64_t(source_.depth) + sink_.depth; }

 private:
  static constexpr int32_t kNone = -1, kRoot = -2;
  // A step along an augmenting path counts as this many arc scans. It touches two arcs twice each,
  // and both lie far in memory from the arcs of the previous step.
  static constexpr int64_t kStepScans = 4;
  // Limit on the orphans that an augmentation reattaches one by one: kMostReattached, plus
  // kReattachedPerOrphan for each orphan on the path. reattach_at_once() reattaches all orphans
  // beyond the limit. Reattaching one by one is faster as long as most orphans are reattached only
  // about once.
  static constexpr int64_t kMostReattached = 4096, kReattachedPerOrphan = 16;

  struct Family {
    int32_t first_child, next, previous;  // for an orphan, `next` is the next orphan of its level
  };
  struct Trees {
    int32_t* frontier;  // [n], the nodes of level `depth`, and some that have left it
    int32_t* next;      // [n], the nodes of level depth + 1, while the trees grow
    int32_t count = 0, scanned = 0, next_count = 0;
    int32_t depth = 1;
    bool growing = false;
  };

  // Levels are positive in source trees and negative in sink trees.
  template <bool kSource>
  static constexpr int32_t kSign = kSource ? 1 : -1;
  template <bool kSource>
  Trees& trees() {
    return kSource ? source_ : sink_;
  }
  // away() is the residual capacity that lets a tree grow from the tail of `arc` to its head. As
  // sink trees grow against the arcs, it is the capacity from head to tail there. towards() is the
  // residual capacity that lets the head become the parent of the tail.
  template <bool kSource>
  static T away(const FlowArc<T>& arc) {
    return kSource ? arc.out : arc.in;
  }
  template <bool kSource>
  static T towards(const FlowArc<T>& arc) {
    return kSource ? arc.in : arc.out;
  }

  // Pushes excess to neighbours with a deficit. Visits the nodes with excess or the nodes with a
  // deficit, whichever are fewer.
  void push_to_neighbours() {
    int32_t excesses = 0, deficits = 0;
    for (int32_t v = 0; v < g_.n; ++v) {
      excesses += g_.excess[v] > 0;
      deficits += g_.excess[v] < 0;
    }
    excesses <= deficits ? push_to_neighbours<true>() : push_to_neighbours<false>();
  }
  template <bool kSource>
  void push_to_neighbours() {
    constexpr T kSignT = kSign<kSource>;
    for (int32_t v = 0; v < g_.n; ++v) {
      T own = kSignT * g_.excess[v];
      if (own <= 0) continue;
      for (int32_t a = g_.begin[v]; a < g_.end[v] && own > 0; ++a) {
        FlowArc<T>& arc = g_.arcs[a];
        const T other = -kSignT * g_.excess[arc.head];
        if (other <= 0 || away<kSource>(arc) == 0) continue;
        const T amount = std::min({away<kSource>(arc), own, other});
        g_.push(arc, kSignT * amount);
        g_.excess[arc.head] += kSignT * amount;
        own -= amount;
      }
      g_.excess[v] = kSignT * own;
    }
  }

  void plant() {
    for (int32_t v = 0; v < g_.n; ++v) {
      if (g_.excess[v] == 0) continue;
      family_[v].first_child = kNone;
      const bool is_source = g_.excess[v] > 0;
      Trees& trees = is_source ? source_ : sink_;
      level_[v] = is_source ? 1 : -1;
      parent_[v] = kRoot;
      trees.frontier[trees.count++] = v;
    }
    grows_source_ = source_.count <= sink_.count;
  }

  // Grows the source trees or the sink trees by one level, then selects the trees with the smaller
  // frontier for the next call. Returns false at the scan limit; the next call resumes there.
  template <bool kSource>
  bool grow() {
    Trees& own = trees<kSource>();
    own.growing = true;
    orphans_[own.depth + 1] = kNone;  // empty list of orphans for the next level
    const int32_t level = kSign<kSource> * own.depth;
    for (; own.scanned < own.count; ++own.scanned) {
      const int32_t v = own.frontier[own.scanned];
      if (level_[v] == level && !scan<kSource>(v, level)) return false;
    }
    std::swap(own.frontier, own.next);
    own.count = own.next_count;
    own.scanned = own.next_count = 0;
    ++own.depth;
    own.growing = false;
    grows_source_ = source_.count <= sink_.count;
    return true;
  }

  template <bool kSource>
  bool scan(int32_t v, int32_t level) {
    const int32_t end = g_.end[v];
    scans_ += end - g_.begin[v];
    poll_.after(8 + end - g_.begin[v]);
    for (int32_t a = g_.begin[v]; a < end; ++a) {
      FlowArc<T>& arc = g_.arcs[a];
      while (away<kSource>(arc) > 0) {
        const int32_t w = arc.head;
        const int32_t other = kSign<kSource> * level_[w];
        if (other > 0) break;
        if (other == 0) {
          level_[w] = level + kSign<kSource>;
          current_[w] = g_.begin[w];
          family_[w].first_child = kNone;
          adopt(w, arc.reverse, v);
          enter_frontier<kSource>(w);
          break;
        }
        const int64_t before = scans_;
        kSource ? augment(arc, v, w) : augment(g_.arcs[arc.reverse], w, v);
        poll_.after(scans_ - before);
        if (scans_ > max_scans_) return false;
        if (level_[v] != level) return true;
      }
    }
    return scans_ <= max_scans_;
  }

  void adopt(int32_t child, int32_t arc_to_parent, int32_t parent) {
    parent_[child] = arc_to_parent;
    Family& f = family_[child];
    f.previous = kNone;
    f.next = family_[parent].first_child;
    if (f.next >= 0) family_[f.next].previous = child;
    family_[parent].first_child = child;
  }
  void leave_parent(int32_t child) {
    const Family f = family_[child];
    if (f.next >= 0) family_[f.next].previous = f.previous;
    if (f.previous >= 0) {
      family_[f.previous].next = f.next;
    } else {
      family_[g_.arcs[parent_[child]].head].first_child = f.next;
    }
  }

  // Adds a node that has just moved to the deepest level to the list of that level. If the list is
  // full, nodes that have left the level and repeated entries are removed first.
  template <bool kSource>
  void enter_frontier(int32_t v) {
    Trees& own = trees<kSource>();
    int32_t*& list = own.growing ? own.next : own.frontier;
    int32_t& count = own.growing ? own.next_count : own.count;
    if (count == g_.n) {
      const int32_t level = kSign<kSource> * (own.depth + own.growing);
      count = int32_t(std::remove_if(list, list + count,
                                     [&](int32_t u) { return u == v || level_[u] != level; }) -
                      list);
      std::sort(list, list + count);
      count = int32_t(std::unique(list, list + count) - list);
    }
    list[count++] = v;
  }

  // Augments the flow from the root above v, through the arc v -> w, to the root above w.
  void augment(FlowArc<T>& bridge, int32_t v, int32_t w) {
    ++paths_;
    T amount = bridge.out;
    int32_t top = v;
    for (; parent_[top] != kRoot; top = g_.arcs[parent_[top]].head) {
      amount = std::min(amount, g_.arcs[parent_[top]].in);
    }
    amount = std::min(amount, g_.excess[top]);
    int32_t bottom = w;
    for (; parent_[bottom] != kRoot; bottom = g_.arcs[parent_[bottom]].head) {
      amount = std::min(amount, g_.arcs[parent_[bottom]].out);
    }
    amount = std::min(amount, T(-g_.excess[bottom]));

    g_.push(bridge, amount);
    g_.excess[top] -= amount;
    g_.excess[bottom] += amount;
    push_along<true>(v, amount);
    reattach_orphans<true>();
    push_along<false>(w, amount);
    reattach_orphans<false>();
  }

  template <bool kSource>
  void push_along(int32_t v, T amount) {
    while (parent_[v] != kRoot) {
      FlowArc<T>& arc = g_.arcs[parent_[v]];
      scans_ += kStepScans;
      const int32_t up = arc.head;
      g_.push(arc, kSource ? -amount : amount);
      if (towards<kSource>(arc) == 0) {
        leave_parent(v);
        make_orphan<kSource>(v);
        ++new_orphans_;
      }
      v = up;
    }
    if (g_.excess[v] == 0) make_orphan<kSource>(v);
  }

  template <bool kSource>
  void make_orphan(int32_t v) {
    const int32_t level = kSign<kSource> * level_[v];
    family_[v].next = orphans_[level];
    orphans_[level] = v;
    first_orphan_ = std::min(first_orphan_, level);
    last_orphan_ = std::max(last_orphan_, level);
  }

  // Reattaches orphans level by level, beginning with the lowest level.
  template <bool kSource>
  void reattach_orphans() {
    int64_t left = kMostReattached + kReattachedPerOrphan * new_orphans_;
    for (; first_orphan_ <= last_orphan_; ++first_orphan_) {
      while (orphans_[first_orphan_] >= 0) {
        if (left-- == 0) {
          reattach_at_once<kSource>();
          break;
        }
        const int32_t v = orphans_[first_orphan_];
        orphans_[first_orphan_] = family_[v].next;
        reattach<kSource>(v);
      }
    }
    first_orphan_ = INT32_MAX;
    last_orphan_ = 0;
    new_orphans_ = 0;
  }

  // Gives v a parent one level nearer to the roots, so that v keeps its level. Returns false if
  // there is no such parent.
  template <bool kSource>
  bool stays(int32_t v) {
    const int32_t above = level_[v] - kSign<kSource>, end = g_.end[v];
    if (above == 0) return false;
    for (int32_t a = current_[v]; a < end; ++a) {
      const FlowArc<T>& arc = g_.arcs[a];
      if (towards<kSource>(arc) == 0 || level_[arc.head] != above) continue;
      scans_ += a - current_[v];
      current_[v] = a;
      adopt(v, a, arc.head);
      return true;
    }
    scans_ += end - current_[v];
    return false;
  }
  template <bool kSource>
  void orphan_children(int32_t v) {
    for (int32_t child = family_[v].first_child; child >= 0;) {
      const int32_t next = family_[child].next;
      make_orphan<kSource>(child);
      child = next;
    }
    family_[v].first_child = kNone;
  }

  template <bool kSource>
  void reattach(int32_t v) {
    const int32_t level = level_[v], end = g_.end[v];
    if (stays<kSource>(v)) return;
    orphan_children<kSource>(v);

    Trees& own = trees<kSource>();
    const int32_t deepest = own.depth + own.growing;
    int32_t nearest = deepest, nearest_arc = kNone;
    for (int32_t a = g_.begin[v]; a < end; ++a) {
      const FlowArc<T>& arc = g_.arcs[a];
      if (towards<kSource>(arc) == 0) continue;
      const int32_t other = kSign<kSource> * level_[arc.head];
      if (other <= 0 || other >= nearest) continue;
      nearest = other;
      nearest_arc = a;
      if (level_[arc.head] == level) break;  // no parent can have a lower level
    }
    scans_ += end - g_.begin[v];
    if (nearest_arc < 0) {
      level_[v] = 0;
      return;
    }
    level_[v] = kSign<kSource> * (nearest + 1);
    current_[v] = nearest_arc;
    adopt(v, nearest_arc, g_.arcs[nearest_arc].head);
    if (nearest + 1 == deepest) enter_frontier<kSource>(v);
  }

  // Reattaches all orphans together, by the three passes of Goldberg et al. (ESA 2015). If orphans
  // are reattached one by one, a chain of n orphans may rise one level at a time, in n^2 steps.
  // Here orphans that cannot keep their level are first freed: they leave the trees. Then a
  // breadth-first search from the nodes still in the trees gives each freed node the possible
  // parent with the lowest level. For a freed node, `current_` is the lowest level for the node
  // itself that has been found so far.
  template <bool kSource>
  void reattach_at_once() {
    const int32_t deepest = trees<kSource>().depth + trees<kSource>().growing;
    if (freed_ == nullptr) freed_ = memory_.take<int32_t>(g_.n);
    int32_t freed = 0;
    for (int32_t level = first_orphan_; level <= last_orphan_; ++level) {
      while (orphans_[level] >= 0) {
        const int32_t v = orphans_[level];
        orphans_[level] = family_[v].next;
        if (stays<kSource>(v)) continue;
        orphan_children<kSource>(v);
        level_[v] = 0;
        freed_[freed++] = v;
      }
    }
    for (int32_t i = 0; i < freed; ++i) find_level<kSource>(freed_[i], deepest);
    for (int32_t level = 2; level <= deepest; ++level) {
      while (orphans_[level] >= 0) place<kSource>(orphans_[level], level, deepest);
    }
  }

  template <bool kSource>
  void find_level(int32_t v, int32_t deepest) {
    int32_t nearest = deepest;
    for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
      const FlowArc<T>& arc = g_.arcs[a];
      const int32_t other = kSign<kSource> * level_[arc.head];
      if (towards<kSource>(arc) == 0 || other <= 0 || other >= nearest) continue;
      nearest = other;
      parent_[v] = a;
    }
    scans_ += g_.end[v] - g_.begin[v];
    current_[v] = nearest + 1;
    if (nearest < deepest) list(v);
  }
  // The freed nodes that can take the same level form a doubly linked list.
  void list(int32_t v) {
    int32_t& first = orphans_[current_[v]];
    family_[v].previous = kNone;
    family_[v].next = first;
    if (first >= 0) family_[first].previous = v;
    first = v;
  }
  void unlist(int32_t v) {
    const Family f = family_[v];
    if (f.next >= 0) family_[f.next].previous = f.previous;
    (f.previous >= 0 ? family_[f.previous].next : orphans_[current_[v]]) = f.next;
  }

  // Puts a freed node back into the trees and offers it as a parent to its freed neighbours. A node
  // that gets a level below the deepest has been scanned before, at a lower level. All neighbours
  // that its tree could grow to were in the trees then, so those outside now (level 0) have been
  // freed.
  template <bool kSource>
  void place(int32_t v, int32_t level, int32_t deepest) {
    unlist(v);
    level_[v] = kSign<kSource> * level;
    current_[v] = g_.begin[v];
    adopt(v, parent_[v], g_.arcs[parent_[v]].head);
    if (level == deepest) return enter_frontier<kSource>(v);
    scans_ += g_.end[v] - g_.begin[v];
    for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
      const FlowArc<T>& arc = g_.arcs[a];
      const int32_t w = arc.head;
      if (away<kSource>(arc) == 0 || level_[w] != 0 || current_[w] <= level + 1) continue;
      if (current_[w] <= deepest) unlist(w);
      parent_[w] = arc.reverse;
      current_[w] = level + 1;
      list(w);
    }
  }

  const Residual<T> g_;
  HostArena& memory_;
  int32_t* level_;  // [n], 0 outside the trees
  // The values of the following arrays are used for nodes in trees only, so they are not
  // initialised: untouched memory costs no time.
  int32_t* parent_;   // [n], the arc to the parent, or kRoot
  int32_t* current_;  // [n], no arc before this one leads to a parent that keeps the level
  Family* family_;
  int32_t* orphans_;  // [n + 2], the first orphan of each level
  int32_t first_orphan_ = INT32_MAX, last_orphan_ = 0;
  int64_t new_orphans_ = 0;   // nodes that the latest push_along() cut off from their parents
  int32_t* freed_ = nullptr;  // [n], for reattach_at_once(); allocated at the first use
  Trees source_, sink_;
  bool grows_source_ = true;
  int64_t scans_ = 0, max_scans_ = 0, paths_ = 0;
  Poll poll_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_IBFS_H_
