// The residual network that all flow algorithms on the CPU share.
#ifndef JAXMATCH_FLOW_CPU_RESIDUAL_H_
#define JAXMATCH_FLOW_CPU_RESIDUAL_H_

#include <cstdint>

#include "common/cpu/poll.h"

namespace jaxmatch::flow {

// An arc with the residual capacities of both directions, so that a search against the arcs need
// not load reverse arcs. T is int32_t if all sums fit, else int64_t.
template <class T>
struct FlowArc {
  int32_t head;
  int32_t reverse;
  T out;  // residual capacity from tail to head
  T in;   // residual capacity from head to tail: `out` of the reverse arc
};

// A residual network with a pseudoflow: a flow that may leave excess or a deficit at nodes. The
// terminals (source and sink) are removed: the capacity of an arc out of the source becomes initial
// excess of its head, and the capacity of an arc into the sink becomes an initial deficit (negative
// excess) of its tail. A solver moves excess to deficits until no residual path leads from an
// excess to a deficit. The flow that has reached deficits is then maximum, because the nodes
// reachable from nodes with excess are the source side of a minimum cut. Remaining excess returns
// to the source (flow/cpu/return_excess.h).
//
// If the sums of capacities at the source or the sink might overflow, both terminals are kept as
// ordinary nodes instead: all excess starts at the source, and all deficit at the sink. Solvers
// need not distinguish the two forms.
template <class T>
struct Residual {
  int32_t n;
  const int32_t* begin;  // [n], first arc of each node
  const int32_t* end;    // [n], one past the last arc; removed terminals have no arcs
  FlowArc<T>* arcs;
  T* excess;  // [n]
  int64_t num_arcs;

  void push(FlowArc<T>& arc, T amount) const {
    FlowArc<T>& back = arcs[arc.reverse];
    arc.out -= amount;
    arc.in += amount;
    back.out += amount;
    back.in -= amount;
  }
};

}  // namespace jaxmatch::flow

#endif  // JAXMATCH_FLOW_CPU_RESIDUAL_H_
