// The residual network that every flow algorithm on the CPU works on.
#ifndef JAXMATCH_FLOW_CPU_RESIDUAL_H_
#define JAXMATCH_FLOW_CPU_RESIDUAL_H_

#include <cstdint>

namespace jaxmatch::flow {

// An arc with the residual capacities of both directions: a search against the arcs reads no
// partner. T is int32_t where all sums fit, int64_t otherwise.
template <class T>
struct FlowArc {
  int32_t head;
  int32_t reverse;
  T out;  // what may still flow from tail to head
  T in;   // what may still flow from head to tail: partner's `out`
};

// A pseudoflow. There are no terminals here: what the source's arcs can bring is the excess of
// their heads from the beginning, and what the sink's arcs can take is a deficit, a negative
// excess, of their tails. A solver moves excess to deficits until no residual path leads from an
// excess to a deficit. Then the flow that reached deficits is maximum, by the cut between what
// excesses reach and the rest; what is left of excesses goes back to the source
// (flow/cpu/return_excess.h).
//
// Where so much would leave the source or enter the sink that sums might not fit, the two stay
// ordinary nodes, the source with all excess and the sink with all deficit. Solvers need not know.
template <class T>
struct Residual {
  int32_t n;
  const int32_t* begin;  // [n], first arc of each node
  const int32_t* end;    // [n], behind the last one. Terminals have no arcs, unless they stay nodes
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
