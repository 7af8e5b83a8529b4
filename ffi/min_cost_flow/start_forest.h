// A forest from which a basis begins.
#ifndef JAXMATCH_MIN_COST_FLOW_START_FOREST_H_
#define JAXMATCH_MIN_COST_FLOW_START_FOREST_H_

#include <cstdint>

#include "common/host_device.h"

namespace jaxmatch::min_cost_flow {

class StartForest {
 public:
  // Takes memory only. begin() makes each node a tree.
  template <class Lanes>
  JAXMATCH_HOST_DEVICE StartForest(int32_t nodes, Lanes& lanes)
      : nodes_(nodes),
        leader_(lanes.template take<int32_t>(nodes)),
        first_(lanes.template take<int32_t>(nodes)),
        link_(lanes.template take<Link>(2 * int64_t(nodes))),
        order_(lanes.template take<int32_t>(nodes)),
        seen_(lanes.template take<bool>(nodes)) {}

  JAXMATCH_HOST_DEVICE void begin() {
    for (int32_t u = 0; u < nodes_; ++u) {
      leader_[u] = u;
      first_[u] = -1;
      seen_[u] = false;
    }
  }

  // Adds arc k between two nodes unless it would close a cycle.
  JAXMATCH_HOST_DEVICE bool join(int32_t u, int32_t v, int32_t k) {
    const int32_t a = find(u), b = find(v);
    if (a == b) return false;
    leader_[a] = b;
    link(u, v, k);
    link(v, u, k);
    return true;
  }

  // Calls f(node, parent, arc) for all nodes, parents first; the arc of the root of a tree is -1.
  template <class F>
  JAXMATCH_HOST_DEVICE void for_parents(const F& f) {
    int32_t found = 0;
    for (int32_t root = 0; root < nodes_; ++root) {
      if (seen_[root]) continue;
      seen_[root] = true;
      f(root, -1, -1);
      int32_t next = found;
      order_[found++] = root;
      for (; next < found; ++next) {
        const int32_t u = order_[next];
        for (int32_t l = first_[u]; l >= 0; l = link_[l].next) {
          const int32_t v = link_[l].node;
          if (seen_[v]) continue;
          seen_[v] = true;
          f(v, u, link_[l].arc);
          order_[found++] = v;
        }
      }
    }
  }
  // After for_parents().
  template <class F>
  JAXMATCH_HOST_DEVICE void for_children_first(const F& f) const {
    for (int32_t i = nodes_; i-- > 0;) f(order_[i]);
  }

 private:
  struct Link {
    int32_t node, arc, next;
  };

  JAXMATCH_HOST_DEVICE int32_t find(int32_t u) {
    while (leader_[u] != u) u = leader_[u] = leader_[leader_[u]];
    return u;
  }
  JAXMATCH_HOST_DEVICE void link(int32_t u, int32_t v, int32_t k) {
    link_[links_] = {v, k, first_[u]};
    first_[u] = links_++;
  }

  const int32_t nodes_;
  int32_t* const leader_;  // of a set of nodes that are joined
  int32_t* const first_;
  Link* const link_;
  int32_t* const order_;
  bool* const seen_;
  int32_t links_ = 0;
};

}  // namespace jaxmatch::min_cost_flow

#endif  // JAXMATCH_MIN_COST_FLOW_START_FOREST_H_
