// Maximum flow by Hochbaum's pseudoflow algorithm with highest labels (Oper. Res. 56, 2008;
// Chandran and Hochbaum, Oper. Res. 57, 2009).
#ifndef JAXMATCH_FLOW_CPU_PSEUDOFLOW_H_
#define JAXMATCH_FLOW_CPU_PSEUDOFLOW_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// The arcs whose flow is neither zero nor equal to the capacity form a forest. Along every other
// arc, flow can be pushed from only one end; the arc is called usable from this end. Each node
// lists the arcs that are usable from it. An arc with residual capacity in both directions counts
// as two arcs, both with zero flow at the beginning. Only roots have an excess or a deficit; a tree
// is strong if its root has excess.
//
// Each step takes a strong tree whose root has the highest label and searches it for a usable arc
// to a node whose label is one lower. The tree is re-rooted at the tail of this arc, and the tail
// becomes a child of the head. Then the excess moves from the old root to the root of the combined
// tree. Tree arcs that cannot carry all of it leave the forest.
//
// Invariants:
// - Labels never decrease from a parent to its child.
// - A usable arc leads to a node whose label is at least the tail's label minus one.
// - Nodes with a deficit have label 0. So if no node has some label, nodes with greater labels
//   cannot reach a deficit; by the gap rule they get the label n.
//
// Termination: labels are at most n and never fall. Each merger of two trees turns a usable arc to
// the next lower label into a tree arc, and this arc becomes usable again only after a relabelling.
// So there are O(n m) mergers of O(n) work each, and all scans of usable arcs together take O(n m).
template <class T>
class Pseudoflow {
 public:
  Pseudoflow(const Residual<T>& g, HostArena& memory)
      : g_(g),
        node_(memory.take<Node>(g.n)),
        label_(memory.take<int32_t>(g.n, 0)),
        buckets_(memory.take<Bucket>(int64_t(g.n) + 1, {kNone, kNone})),
        count_(memory.take<int32_t>(int64_t(g.n) + 1, 0)),
        flow_(memory.take<Room>(g.num_arcs)) {
    int64_t slots = 0;
    for (int32_t v = 0; v < g.n; ++v) {
      for (int32_t a = g.begin[v]; a < g.end[v]; ++a) {
        slots += (g.arcs[a].out > 0) + (g.arcs[a].in > 0);
      }
    }
    fillable_ = memory.take<Fillable>(slots);
  }

  void run() {
    start();
    for (int32_t root; (root = next_root()) >= 0;) {
      const int64_t before = work_;
      merge_tree(root);
      poll_.after(kWorkNs * (work_ - before));
    }
    finish();
  }
  int64_t work() const { return work_; }

 private:
  static constexpr int32_t kNone = -1;
  static constexpr int64_t kWorkNs = 10;  // about this many ns per unit of work, if memory is slow

  // A usable arc in the list of its node. `way` is 2 * arc, plus one if flow goes from the arc's
  // head to its tail.
  struct Fillable {
    int32_t head, way;
  };
  // Residual capacity of an arc, forwards and backwards.
  struct Room {
    T room[2];
  };
  struct Bucket {
    int32_t first, last;
  };
  struct Node {
    int32_t parent, way;  // the parent, and the arc to it as in Fillable
    int32_t first_child, next, previous;
    int32_t scan;   // the next child to visit in a search of the tree
    int32_t begin;  // the usable arcs of the node are fillable_[begin, end)
    int32_t end;
    int32_t current;    // no usable arc before this one leads to the next lower label
    int32_t next_root;  // next root in the same bucket
  };

  void start() {
    int32_t slot = 0;
    for (int32_t v = 0; v < g_.n; ++v) {
      const int32_t begin = slot;
      int32_t end = slot;
      for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
        const FlowArc<T>& arc = g_.arcs[a];
        slot += (arc.out > 0) + (arc.in > 0);
        flow_[a] = {{arc.out, 0}};
        if (arc.out > 0) fillable_[end++] = {arc.head, 2 * a};
      }
      node_[v] = {kNone, 0, kNone, kNone, kNone, kNone, begin, end, begin, kNone};
      if (g_.excess[v] > 0) {
        label_[v] = 1;
        add_root(v);
      }
      ++count_[label_[v]];
    }
  }

  // Pushes all flows in the residual network, where the flows of two opposite arcs cancel.
  void finish() {
    for (int32_t v = 0; v < g_.n; ++v) {
      for (int32_t a = g_.begin[v]; a < g_.end[v]; ++a) {
        if (flow_[a].room[1] > 0) g_.push(g_.arcs[a], flow_[a].room[1]);
      }
    }
  }

  // Strong roots of the same label are served first in, first out.
  void add_root(int32_t v) {
    const int32_t label = label_[v];
    if (label >= g_.n) return;
    node_[v].next_root = kNone;
    Bucket& bucket = buckets_[label];
    if (bucket.first < 0) {
      bucket.first = v;
    } else {
      node_[bucket.last].next_root = v;
    }
    bucket.last = v;
    highest_ = std::max(highest_, label);
  }
  int32_t take_root(Bucket& bucket) {
    const int32_t v = bucket.first;
    bucket.first = node_[v].next_root;
    return v;
  }

  // Returns the strong root with the highest label that may still reach a deficit, or -1.
  int32_t next_root() {
    for (; highest_ > 0; --highest_) {
      Bucket& bucket = buckets_[highest_];
      if (bucket.first < 0) continue;
      if (count_[highest_ - 1] > 0) return take_root(bucket);
      while (bucket.first >= 0) give_up(take_root(bucket));
    }
    if (buckets_[0].first < 0) return kNone;
    while (buckets_[0].first >= 0) {
      const int32_t v = take_root(buckets_[0]);
      relabel(v);
      add_root(v);
    }
    return next_root();
  }

  void relabel(int32_t v) {
    --count_[label_[v]];
    ++count_[++label_[v]];
    node_[v].current = node_[v].begin;
  }
  // Gap rule: no node has the next lower label, so no node of this tree can reach a deficit. All
  // nodes of the tree get the label n.
  void give_up(int32_t root) {
    int32_t v = root;
    node_[v].scan = node_[v].first_child;
    while (v >= 0) {
      const int32_t child = node_[v].scan;
      if (child >= 0) {
        node_[v].scan = node_[child].next;
        node_[child].scan = node_[child].first_child;
        v = child;
        continue;
      }
      --count_[label_[v]];
      ++count_[label_[v] = g_.n];
      v = node_[v].parent;
    }
  }

  // Searches the nodes of a strong tree that have the same label as its root for a usable arc to
  // the next lower label. Merges the tree along the first such arc. Nodes without one are
  // relabelled, children before their parents.
  void merge_tree(int32_t root) {
    int32_t v = root;
    node_[v].scan = node_[v].first_child;
    const int32_t target = label_[root] - 1;
    while (true) {
      if (merge_from(v, target)) return push_up(root);
      int32_t child;
      while ((child = next_child(v)) < 0) {
        relabel(v);
        v = node_[v].parent;
        if (v < 0) return add_root(root);
      }
      node_[v].scan = node_[child].next;
      node_[child].scan = node_[child].first_child;
      v = child;
    }
  }
  int32_t next_child(int32_t v) {
    int32_t child = node_[v].scan;
    while (child >= 0 && label_[child] != label_[v]) child = node_[child].next;
    return child;
  }

  // Re-roots the tree of v at v and makes v a child of a neighbour with label `target`. Returns
  // false if v has no usable arc to such a neighbour.
  bool merge_from(int32_t v, int32_t target) {
    Node& node = node_[v];
    int32_t slot = node.current;
    while (slot < node.end && label_[fillable_[slot].head] != target) ++slot;
    work_ += slot - node.current + 1;
    node.current = slot;
    if (slot == node.end) return false;
    int32_t parent = fillable_[slot].head, way = fillable_[slot].way;
    fillable_[slot] = fillable_[--node.end];
    for (int32_t child = v; child >= 0;) {
      const int32_t old_parent = node_[child].parent, old_way = node_[child].way;
      if (old_parent >= 0) leave_parent(child);
      adopt(child, parent, way);
      parent = child;
      child = old_parent;
      way = old_way ^ 1;
    }
    return true;
  }
  void adopt(int32_t child, int32_t parent, int32_t way) {
    Node& c = node_[child];
    Node& p = node_[parent];
    c.parent = parent;
    c.way = way;
    c.previous = kNone;
    c.next = p.first_child;
    if (c.next >= 0) node_[c.next].previous = child;
    p.first_child = child;
  }
  void leave_parent(int32_t child) {
    const Node& c = node_[child];
    if (c.next >= 0) node_[c.next].previous = c.previous;
    (c.previous >= 0 ? node_[c.previous].next : node_[c.parent].first_child) = c.next;
  }

  // Moves excess up from v, a root until the merger, to the root of the combined tree. If an arc
  // cannot carry all of the excess, the rest stays at the lower end of the arc, which becomes the
  // root of a new tree.
  void push_up(int32_t v) {
    T before = 0;
    while (g_.excess[v] > 0 && node_[v].parent >= 0) {
      const int32_t parent = node_[v].parent, way = node_[v].way;
      T* const room = flow_[way >> 1].room;
      const T amount = std::min(g_.excess[v], room[way & 1]);
      before = g_.excess[parent];
      room[way & 1] -= amount;
      room[(way & 1) ^ 1] += amount;
      g_.excess[v] -= amount;
      g_.excess[parent] += amount;
      ++work_;
      if (g_.excess[v] > 0) {
        leave_parent(v);
        node_[v].parent = kNone;
        fillable_[node_[parent].end++] = {v, way ^ 1};
        add_root(v);
      }
      v = parent;
    }
    if (g_.excess[v] > 0 && before <= 0) add_root(v);
  }

  const Residual<T> g_;
  Node* node_;
  int32_t* label_;   // [n]
  Bucket* buckets_;  // [n + 1], the strong roots of each label
  int32_t* count_;   // [n + 1], number of nodes of each label
  Room* flow_;       // [arcs]
  Fillable* fillable_;
  int32_t highest_ = 0;
  int64_t work_ = 0;
  Poll poll_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_PSEUDOFLOW_H_
