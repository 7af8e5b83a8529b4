// Operands and results of the target jaxmatch_min_cost_flow.
#ifndef JAXMATCH_MIN_COST_FLOW_OPERANDS_H_
#define JAXMATCH_MIN_COST_FLOW_OPERANDS_H_

#include <cstdint>
#include <string>

#include "common/attributes.h"
#include "common/decode.h"
#include "common/dtype.h"
#include "common/handler.h"
#include "common/host_device.h"
#include "common/limits.h"
#include "min_cost_flow/given.h"

namespace jaxmatch::min_cost_flow {

enum class Method { kAuto, kNetworkSimplex, kCostScaling };
constexpr Name<Method> kMethods[] = {
    {"auto", Method::kAuto},
    {"network_simplex", Method::kNetworkSimplex},
    {"cost_scaling", Method::kCostScaling},
};

// Edge e leads from sender[e] to receiver[e], and carries from lower[e] to capacity[e]. More leaves
// node u than enters it, by supply[u]. Senders and receivers may be out of range.
struct Operands {
  int64_t batch;
  int32_t nodes, edges;
  const int32_t *senders, *receivers;  // [edges] or [batch, edges]
  int64_t ends_step;                   // edges, or 0 where all problems share the network
  // Masses: [batch, edges], or [batch, nodes] for supplies. Optional arrays are null if absent.
  const void *capacity, *lower, *supply, *start_flow;
  const void* cost;             // [batch, edges]
  const void* start_potential;  // [batch, nodes]
  void* flow;                   // [batch, edges], masses
  void *value, *potential, *gap;
  bool *source_side, *cycle;  // [batch, nodes] and [batch, edges]
  int32_t* status;
  Dtype mass_dtype, cost_dtype, value_dtype;
  Method method;
  double forgiven;  // how far supplies may be from summing to 0, relative to the positive ones

  JAXMATCH_HOST_DEVICE Given given(int64_t b) const {
    const int64_t of_edges = b * edges, of_nodes = b * nodes;
    return {nodes,
            edges,
            senders + b * ends_step,
            receivers + b * ends_step,
            at(capacity, mass_dtype, of_edges),
            at(lower, mass_dtype, of_edges),
            at(supply, mass_dtype, of_nodes),
            at(start_flow, mass_dtype, of_edges),
            at(cost, cost_dtype, of_edges),
            at(start_potential, value_dtype, of_nodes),
            mass_dtype,
            cost_dtype};
  }
  JAXMATCH_HOST_DEVICE Results results(int64_t b) const {
    return {const_cast<void*>(at(flow, mass_dtype, b * edges)),
            const_cast<void*>(at(value, value_dtype, b)),
            const_cast<void*>(at(potential, value_dtype, b * nodes)),
            const_cast<void*>(at(gap, value_dtype, b)),
            source_side + b * nodes,
            cycle + b * edges,
            status + b,
            value_dtype};
  }

 private:
  JAXMATCH_HOST_DEVICE static const void* at(const void* array, Dtype dtype, int64_t i) {
    return array == nullptr ? nullptr : static_cast<const char*>(array) + i * size_of(dtype);
  }
};

using Ends = ffi::Buffer<ffi::S32>;
using Flags = ffi::Buffer<ffi::PRED>;

inline ffi::ErrorOr<Operands> decode(
    const Ends& senders, const Ends& receivers, const ffi::AnyBuffer& capacity,
    const ffi::AnyBuffer& lower, const ffi::AnyBuffer& cost, const ffi::AnyBuffer& supply,
    const ffi::AnyBuffer& start_flow, const ffi::AnyBuffer& start_potential,
    ffi::Result<ffi::AnyBuffer> flow, ffi::Result<ffi::AnyBuffer> value,
    ffi::Result<ffi::AnyBuffer> potential, ffi::Result<ffi::AnyBuffer> gap,
    ffi::Result<Flags> source_side, ffi::Result<Flags> cycle, ffi::Result<Ends> status,
    const ffi::Dictionary& attributes) {
  Attributes given("jaxmatch_min_cost_flow", attributes);
  if (senders.dimensions().size() == 0 || capacity.dimensions().size() == 0 ||
      supply.dimensions().size() == 0) {
    return ffi::Unexpected(given.error("senders, capacity and supply need a dimension"));
  }
  Operands o{};
  const int64_t nodes = supply.dimensions().back(), edges = capacity.dimensions().back();
  o.batch = batch_size(capacity.dimensions(), 1);
  if (nodes > kMostVertices || edges > kMostNetworkEdges) {
    given.fail("more than " + std::to_string(kMostVertices) + " nodes or " +
               std::to_string(kMostNetworkEdges) + " edges");
  }
  const int64_t ends = int64_t(senders.element_count());
  o.ends_step = o.batch > 1 && ends != edges ? edges : 0;
  given.expect_size("senders", senders, o.ends_step ? o.batch * edges : edges);
  given.expect_size("receivers", receivers, ends);
  given.expect_size("cost", cost, o.batch * edges);
  given.expect_size("supply", supply, o.batch * nodes);
  given.expect_size("flow", *flow, o.batch * edges);
  given.expect_size("cost of the flow", *value, o.batch);
  given.expect_size("potential", *potential, o.batch * nodes);
  given.expect_size("gap", *gap, o.batch);
  given.expect_size("source_side", *source_side, o.batch * nodes);
  given.expect_size("cycle", *cycle, o.batch * edges);
  given.expect_size("status", *status, o.batch);
  // An optional array without entries is absent.
  const auto optional = [&](const char* name, const ffi::AnyBuffer& x, int64_t count) {
    if (x.element_count() == 0) return static_cast<const void*>(nullptr);
    given.expect_size(name, x, o.batch * count);
    return static_cast<const void*>(x.untyped_data());
  };
  o.lower = optional("lower", lower, edges);
  o.start_flow = optional("start_flow", start_flow, edges);
  o.start_potential = optional("start_potential", start_potential, nodes);

  const auto mass = capacity_dtype_of(capacity.element_type());
  const auto of_cost = capacity_dtype_of(cost.element_type());
  const auto of_value = capacity_dtype_of(value->element_type());
  if (!mass || !of_cost || !of_value) {
    given.fail("numbers are int32, int64, float32 or float64");
  }
  if (mass && of_cost && of_value &&
      is_whole(*of_value) != (is_whole(*mass) && is_whole(*of_cost))) {
    given.fail("costs of flows are integers if and only if all operands are");
  }
  for (const auto dtype : {lower.element_type(), supply.element_type(), flow->element_type(),
                           start_flow.element_type()}) {
    if (dtype != capacity.element_type()) given.fail("flows have the type of capacity");
  }
  for (const auto dtype :
       {potential->element_type(), gap->element_type(), start_potential.element_type()}) {
    if (dtype != value->element_type()) given.fail("potentials have the type of the cost");
  }
  o.method = given.named("method", kMethods);
  o.forgiven = given.real("forgiven");
  if (given.failed()) return ffi::Unexpected(given.error());
  o.nodes = int32_t(nodes);
  o.edges = int32_t(edges);
  o.mass_dtype = *mass;
  o.cost_dtype = *of_cost;
  o.value_dtype = *of_value;
  o.senders = senders.typed_data();
  o.receivers = receivers.typed_data();
  o.capacity = capacity.untyped_data();
  o.supply = supply.untyped_data();
  o.cost = cost.untyped_data();
  o.flow = flow->untyped_data();
  o.value = value->untyped_data();
  o.potential = potential->untyped_data();
  o.gap = gap->untyped_data();
  o.source_side = source_side->typed_data();
  o.cycle = cycle->typed_data();
  o.status = status->typed_data();
  return o;
}

}  // namespace jaxmatch::min_cost_flow

// The arguments and results that the handlers share. `binding` must already have the platform's
// context.
#define JAXMATCH_BIND_MIN_COST_FLOW(binding) \
  (binding)                                  \
      .Arg<jaxmatch::min_cost_flow::Ends>()  \
      .Arg<jaxmatch::min_cost_flow::Ends>()  \
      .Arg<xla::ffi::AnyBuffer>()            \
      .Arg<xla::ffi::AnyBuffer>()            \
      .Arg<xla::ffi::AnyBuffer>()            \
      .Arg<xla::ffi::AnyBuffer>()            \
      .Arg<xla::ffi::AnyBuffer>()            \
      .Arg<xla::ffi::AnyBuffer>()            \
      .Ret<xla::ffi::AnyBuffer>()            \
      .Ret<xla::ffi::AnyBuffer>()            \
      .Ret<xla::ffi::AnyBuffer>()            \
      .Ret<xla::ffi::AnyBuffer>()            \
      .Ret<jaxmatch::min_cost_flow::Flags>() \
      .Ret<jaxmatch::min_cost_flow::Flags>() \
      .Ret<jaxmatch::min_cost_flow::Ends>()
#endif  // JAXMATCH_MIN_COST_FLOW_OPERANDS_H_
