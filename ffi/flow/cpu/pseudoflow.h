// Maximum flow by Hochbaum's pseudoflow algorithm with highest labels (Oper. Res. 56, 2008;
// Chandran and Hochbaum, Oper. Res. 57, 2009).
#ifndef JAXMATCH_FLOW_CPU_PSEUDOFLOW_H_
#define JAXMATCH_FLOW_CPU_PSEUDOFLOW_H_

#include <algorithm>
#include <cstdint>

#include "common/cpu/host_arena.h"
#include "flow/cpu/residual.h"

namespace jaxmatch::flow {

// The arcs whose flow is neither zero nor full form a forest: every other arc is usable from only
// one of its ends, and each node lists the arcs it can push along. An arc with residual capacity
// both ways counts as two arcs here, both empty at the beginning. Only roots have an excess or a
// deficit; a tree is strong if its root has excess. A strong tree whose root has the highest label
// is searched for an arc to a node with a label one lower. The tree is re-rooted at the arc's tail
// and hung below its head; its excess moves up to the new root, and arcs that cannot carry it are
// cut.
//
// Invariants: labels do not fall towards the leaves; a usable arc leads to a label of at least its
// tail's minus one; only nodes with label 0 may lie in a tree that had no excess at the beginning,
// and nodes that cannot reach such a tree get the label n by the gap rule.
//
// Termination: labels are at most n and never fall. Between two changes of labels each merger uses
// up an arc from a label to the next lower one, which needs a relabelling before it comes back, so
// there are O(n m) mergers, each of them O(n) work, and all scanning is O(n m).
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
  static constexpr int64_t kWorkNs = 10;  // about, if memory is slow

  // A usable arc, listed at its node: `way` is 2 * arc, plus one if it goes from head to tail.
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
    int32_t parent, way;  // to the parent
    int32_t first_child, next, previous;
    int32_t scan;   // the next child to visit, while its tree is searched
    int32_t begin;  // its usable arcs are fillable_[begin, end)
    int32_t end;
    int32_t current;    // no arc before it leads to the label one below
    int32_t next_root;  // in the same bucket
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

  // Combines the flows of the two arcs of each pair.
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

  // The strong root with the highest label that may still reach a deficit, or -1.
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
  // Gap: no node has the label below this tree's, so nothing in it reaches a deficit any more.
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

  // Searches the part of a strong tree that has its root's label. Nodes without a usable arc to a
  // lower label are relabelled, children before their parents.
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

  // Re-roots the tree of v at v and hangs it below a neighbour with label `target`. False if v has
  // none.
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

  // Moves excess from an old root up to the new one. Excess that an arc cannot carry stays below
  // it, at the root of a new tree.
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
  int32_t* count_;   // [n + 1], the nodes of each label
  Room* flow_;       // [arcs]
  Fillable* fillable_;
  int32_t highest_ = 0;
  int64_t work_ = 0;
  Poll poll_;
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_PSEUDOFLOW_H_
