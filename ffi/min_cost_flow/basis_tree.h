// The spanning tree of a basis of the network simplex method.
#ifndef JAXMATCH_MIN_COST_FLOW_BASIS_TREE_H_
#define JAXMATCH_MIN_COST_FLOW_BASIS_TREE_H_

#include <cstdint>

#include "common/host_device.h"
#include "min_cost_flow/arcs.h"

namespace jaxmatch::min_cost_flow {

// A tree over the nodes 0 .. nodes, of which the last is the root. Nodes form a circular list in
// preorder, so each subtree is a run of the list. (The method of threads: Bradley, Brown and
// Graves, Management Science 24, 1977.)
//
// Each node but the root has an arc to its parent. The tree stores how much more the arc can carry
// in each direction, beside the links that a walk to the root follows.
class BasisTree {
 public:
  struct alignas(32) Node {
    int32_t parent, arc;
    int64_t up, down;  // how much more can flow from this node to its parent, and back
    int32_t size;      // of the subtree
  };

  // Takes memory only. build() begins a tree.
  template <class Lanes>
  JAXMATCH_HOST_DEVICE BasisTree(int32_t nodes, Lanes& lanes)
      : root_(nodes),
        node_(lanes.template take_hot<Node>(int64_t(nodes) + 1)),
        run_(lanes.template take_hot<Run>(int64_t(nodes) + 1)) {}

  JAXMATCH_HOST_DEVICE int32_t root() const { return root_; }
  JAXMATCH_HOST_DEVICE Node& operator[](int32_t u) { return node_[u]; }
  JAXMATCH_HOST_DEVICE const Node& operator[](int32_t u) const { return node_[u]; }
  JAXMATCH_HOST_DEVICE int32_t after(int32_t u) const { return run_[u].next; }
  JAXMATCH_HOST_DEVICE int32_t last(int32_t u) const { return run_[u].last; }

  // Builds the lists of a tree whose nodes have their parents. Only one thread does that. `first`
  // and `sibling` are for nodes + 1 numbers each.
  JAXMATCH_HOST_DEVICE JAXMATCH_ONCE void build(int32_t* first, int32_t* sibling) {
    node_[root_] = {-1, -1, 0, 0, 1};
    run_[root_] = {root_, root_, root_};
    for (int32_t u = 0; u <= root_; ++u) first[u] = -1;
    for (int32_t u = root_ - 1; u >= 0; --u) {
      sibling[u] = first[node_[u].parent];
      first[node_[u].parent] = u;
    }
    int32_t end = root_;
    for (int32_t u = root_;;) {  // in preorder
      node_[u].size = 1;
      run_[u].last = u;
      int32_t next = first[u];
      for (int32_t v = u; next < 0 && v != root_; v = node_[v].parent) next = sibling[v];
      if (next < 0) break;
      join(u, next);
      end = u = next;
    }
    join(end, root_);
    for (int32_t u = end; u != root_; u = run_[u].previous) {  // children before their parents
      const int32_t parent = node_[u].parent;
      node_[parent].size += node_[u].size;
      if (run_[parent].last == parent) run_[parent].last = run_[u].last;
    }
  }

  // The lowest common ancestor.
  JAXMATCH_HOST_DEVICE int32_t meet(int32_t u, int32_t v) const {
    while (u != v) {
      if (node_[u].size < node_[v].size) {
        u = node_[u].parent;
      } else {
        v = node_[v].parent;
      }
    }
    return u;
  }

  // Cuts off the subtree of `top` and hangs it from `out` by its node `in`. `meet` is an ancestor
  // of both. `arc` becomes the arc of `in`.
  JAXMATCH_HOST_DEVICE void move(int32_t top, int32_t in, int32_t out, int32_t meet,
                                 const Node& arc) {
    const int32_t moved = node_[top].size, end = run_[top].last, before = run_[top].previous;
    for (int32_t u = node_[top].parent; u != meet; u = node_[u].parent) node_[u].size -= moved;
    for (int32_t u = node_[top].parent; u >= 0 && run_[u].last == end; u = node_[u].parent) {
      run_[u].last = before;
    }
    join(before, run_[end].next);

    // The nodes from `in` to `top` become a path down from `in`. The rest of each subtree follows
    // in the list.
    int32_t tail = run_[in].last, child = in, below = 0;
    int32_t first_of_child = run_[in].previous, after_child = run_[tail].next;
    int32_t last_of_child = tail;
    Node next = arc;
    for (;;) {
      next.size = moved - below;
      const Node own = node_[child];
      node_[child] = next;
      const int32_t size = own.size;
      if (child == top) break;
      const int32_t u = own.parent, last = run_[u].last, previous = run_[u].previous;
      join(tail, u);
      tail = first_of_child;
      if (last != last_of_child) {
        join(tail, after_child);
        tail = last;
        after_child = run_[last].next;
        last_of_child = last;
      }
      first_of_child = previous;
      below = size;
      next = {child, own.arc, own.down, own.up, 0};
      child = u;
    }
    for (int32_t u = top; u != in; u = node_[u].parent) run_[u].last = tail;
    run_[in].last = tail;
    splice(in, tail, out);
    for (int32_t u = out; u != meet; u = node_[u].parent) node_[u].size += moved;
  }

 private:
  struct Run {
    int32_t previous, next, last;  // `last`: the end of the subtree in the list
  };

  JAXMATCH_HOST_DEVICE void join(int32_t u, int32_t v) {
    run_[u].next = v;
    run_[v].previous = u;
  }
  // Inserts the run from `first` to `last` as the first subtree below `parent`.
  JAXMATCH_HOST_DEVICE void splice(int32_t first, int32_t last, int32_t parent) {
    join(last, run_[parent].next);
    join(parent, first);
    for (int32_t u = parent; u >= 0 && run_[u].last == parent; u = node_[u].parent) {
      run_[u].last = last;
    }
  }

  int32_t root_;
  Node* node_;
  Run* run_;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_BASIS_TREE_H_
