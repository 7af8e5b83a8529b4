// Operands and results of the target jaxmatch_flow, and the memory layout of a flow network.
#ifndef JAXMATCH_FLOW_OPERANDS_H_
#define JAXMATCH_FLOW_OPERANDS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/attributes.h"
#include "common/decode.h"
#include "common/dtype.h"
#include "common/handler.h"
#include "common/host_device.h"
#include "common/limits.h"

namespace jaxmatch::flow {

enum class FlowMethod { kAuto, kAugment, kPseudoflow, kThreadCentric, kTwoLevel };
constexpr Name<FlowMethod> kFlowMethods[] = {
    {"auto", FlowMethod::kAuto},
    {"augment", FlowMethod::kAugment},
    {"pseudoflow", FlowMethod::kPseudoflow},
    {"thread_centric", FlowMethod::kThreadCentric},
    {"two_level", FlowMethod::kTwoLevel},
};

// One network. Each pair of different nodes joined by an edge has two arcs, one in each direction;
// each is the reverse arc of the other. Arcs are sorted by (tail, head), and the arcs of node u are
// arc_ptr[u] .. arc_ptr[u + 1] - 1. Arc k stands for all edges in its direction; their indices are
// arc_edge[edge_ptr[k] .. edge_ptr[k + 1] - 1], in rising order. Self-loops are listed from
// arc_edge[edge_ptr[arcs]] on.
//
// A network given as traced arrays may join two nodes by several pairs of arcs, but not at the
// source or the sink: solvers keep one number for each neighbour of a terminal.
//
// The arrays may violate all of this: pointers may decrease or lie outside the arrays, heads and
// reverse arcs may be out of range or inconsistent, and edges may be missing or duplicated. A
// solver checks all of this first. On invalid input it must terminate and stay within its arrays.
struct FlowNetworkCsr {
  int32_t nodes, arcs, edges;
  const int32_t* arc_ptr;      // [nodes + 1]
  const int32_t* arc_head;     // [arcs]
  const int32_t* reverse_arc;  // [arcs]
  const int32_t* edge_ptr;     // [arcs + 1]
  const int32_t* arc_edge;     // [edges]
};

// Results of one problem; C is the type of capacities, V the type of values.
template <class C, class V>
struct FlowResults {
  V* value;           // one number
  C* flow;            // [edges]
  bool* source_side;  // [nodes]
  int32_t* status;    // one number
};

struct FlowOperands {
  int64_t batch;
  FlowNetworkCsr first;  // first problem of the batch
  // Offset in elements between the network arrays of consecutive problems; 0 where all problems
  // share an array.
  int64_t arc_ptr_step, arc_head_step, reverse_arc_step, edge_ptr_step, arc_edge_step;
  const void* capacities;  // [batch, edges]
  const int32_t* sources;  // [batch], may be out of range
  const int32_t* sinks;    // [batch], may be out of range
  void* values;            // [batch]
  void* flows;             // [batch, edges]
  bool* source_sides;      // [batch, nodes]
  int32_t* statuses;       // [batch]
  Dtype capacity_dtype;    // of capacities and flows: kS32, kS64, kF32 or kF64
  Dtype value_dtype;       // kS32, kS64, kF32 or kF64
  FlowMethod method;
  std::string_view options;  // options of the method; see Options for the format
  int64_t steps;             // maximum rounds of one call on a GPU; 0: no limit

  JAXMATCH_HOST_DEVICE FlowNetworkCsr network(int64_t b) const {
    FlowNetworkCsr g = first;
    g.arc_ptr += b * arc_ptr_step;
    g.arc_head += b * arc_head_step;
    g.reverse_arc += b * reverse_arc_step;
    g.edge_ptr += b * edge_ptr_step;
    g.arc_edge += b * arc_edge_step;
    return g;
  }
  // True if one check of the network covers all problems.
  JAXMATCH_HOST_DEVICE bool shares_network() const {
    return batch <= 1 || (arc_ptr_step == 0 && arc_head_step == 0 && reverse_arc_step == 0 &&
                          edge_ptr_step == 0 && arc_edge_step == 0);
  }
  template <class C>
  JAXMATCH_HOST_DEVICE const C* capacity(int64_t b) const {
    return static_cast<const C*>(capacities) + b * first.edges;
  }
  template <class C, class V>
  JAXMATCH_HOST_DEVICE FlowResults<C, V> results(int64_t b) const {
    return {static_cast<V*>(values) + b, static_cast<C*>(flows) + b * first.edges,
            source_sides + b * first.nodes, statuses + b};
  }
};

using NetworkArray = ffi::Buffer<ffi::S32>;
using FlowFlags = ffi::Buffer<ffi::PRED>;

inline ffi::ErrorOr<FlowOperands> decode_flow(
    const NetworkArray& arc_ptr, const NetworkArray& arc_head, const NetworkArray& reverse_arc,
    const NetworkArray& edge_ptr, const NetworkArray& arc_edge, const ffi::AnyBuffer& capacity,
    const NetworkArray& source, const NetworkArray& sink, ffi::Result<ffi::AnyBuffer> value,
    ffi::Result<ffi::AnyBuffer> flow, ffi::Result<FlowFlags> source_side,
    ffi::Result<NetworkArray> status, const ffi::Dictionary& attributes) {
  const auto wrong = [](const std::string& what) {
    return ffi::Unexpected(ffi::Error::InvalidArgument("jaxmatch_flow: " + what));
  };
  const auto last = [](const auto& buffer) { return int64_t(buffer.dimensions().back()); };
  for (const NetworkArray* x : {&arc_ptr, &arc_head, &reverse_arc, &edge_ptr, &arc_edge}) {
    if (x->dimensions().size() == 0) return wrong("a network's arrays need a dimension");
  }
  if (capacity.dimensions().size() == 0) return wrong("capacity needs a dimension");
  const int64_t batch = batch_size(capacity.dimensions(), 1);
  const int64_t nodes = last(arc_ptr) - 1, arcs = last(arc_head), edges = last(capacity);
  if (nodes < 0) return wrong("arc_ptr holds at least one entry");
  if (nodes > kMostVertices || arcs > 2 * kMostNetworkEdges || edges > kMostNetworkEdges) {
    return wrong("more than " + std::to_string(kMostVertices) + " nodes or " +
                 std::to_string(kMostNetworkEdges) + " edges, or two arcs for each of these");
  }

  // Sets `step`, the offset between problems: 0 if all problems share the array, else `length`.
  // Returns false if the size of the array fits neither case.
  const auto step_of = [&](const NetworkArray& x, int64_t length, int64_t& step) {
    const int64_t count = int64_t(x.element_count());
    step = batch > 1 && count != length ? length : 0;
    return last(x) == length && (count == length || count == batch * length);
  };
  FlowOperands o{};
  const auto holds = [](const auto& buffer, int64_t count) {
    return int64_t(buffer.element_count()) == count;
  };
  if (!step_of(arc_ptr, nodes + 1, o.arc_ptr_step) || !step_of(arc_head, arcs, o.arc_head_step) ||
      !step_of(reverse_arc, arcs, o.reverse_arc_step) ||
      !step_of(edge_ptr, arcs + 1, o.edge_ptr_step) || !step_of(arc_edge, edges, o.arc_edge_step) ||
      !holds(source, batch) || !holds(sink, batch) || !holds(*value, batch) ||
      !holds(*flow, batch * edges) || !holds(*source_side, batch * nodes) ||
      !holds(*status, batch)) {
    return wrong("the arrays do not belong together");
  }

  const auto capacity_dtype = capacity_dtype_of(capacity.element_type());
  const auto value_dtype = capacity_dtype_of(value->element_type());
  if (!capacity_dtype) return wrong("capacities are int32, int64, float32 or float64");
  if (flow->element_type() != capacity.element_type()) {
    return wrong("flow has the type of capacity");
  }
  if (!value_dtype || !is_value_dtype(*capacity_dtype, *value_dtype)) {
    return wrong("value has the type of capacity, or int64 where that is int32");
  }
  o.capacity_dtype = *capacity_dtype;
  o.value_dtype = *value_dtype;
  o.batch = batch;
  o.first = {int32_t(nodes),        int32_t(arcs),         int32_t(edges),
             arc_ptr.typed_data(),  arc_head.typed_data(), reverse_arc.typed_data(),
             edge_ptr.typed_data(), arc_edge.typed_data()};
  o.capacities = capacity.untyped_data();
  o.sources = source.typed_data();
  o.sinks = sink.typed_data();
  o.values = value->untyped_data();
  o.flows = flow->untyped_data();
  o.source_sides = source_side->typed_data();
  o.statuses = status->typed_data();
  Attributes given("jaxmatch_flow", attributes);
  o.method = given.named("method", kFlowMethods);
  o.options = given.word("options");
  o.steps = given.integer("steps");
  if (given.failed()) return ffi::Unexpected(given.error());
  return o;
}

}  // namespace jaxmatch::flow

// The arguments and results that the CPU and CUDA handlers share. `binding` must already have the
// platform's context.
#define JAXMATCH_BIND_FLOW(binding)        \
  (binding)                                \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .Arg<xla::ffi::AnyBuffer>()          \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .Arg<jaxmatch::flow::NetworkArray>() \
      .RemainingArgs()                     \
      .Ret<xla::ffi::AnyBuffer>()          \
      .Ret<xla::ffi::AnyBuffer>()          \
      .Ret<jaxmatch::flow::FlowFlags>()    \
      .Ret<jaxmatch::flow::NetworkArray>()
#endif  // JAXMATCH_FLOW_OPERANDS_H_
