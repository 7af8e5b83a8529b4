"""The pure-JAX solver for maximum flow on any platform: synchronous push-relabel.

Goldberg and Tarjan (JACM 35, 1988, section 5). In each round all active nodes push simultaneously
along all of their admissible arcs; then all nodes with remaining excess are relabelled. At
intervals heights are set to exact distances (global relabelling): the distance to the sink if a
residual path leads there, else n plus the distance to the source. So excess that cannot reach the
sink flows back to the source, and the final preflow is a flow.

The source starts with an upper bound on the flow as its excess, and below height n it pushes like
any other node. All excess comes from the source, so no node ever has more than that bound.

Termination: heights never fall and stay below 2n. If no height rises in a round, every active node
pushes all of its excess to lower nodes. After such a round the highest active node is lower than
before, so there are at most 2n such rounds in a row.

Arithmetic is in integers, with float capacities in fixed point, so nothing is rounded during the
solve. Each round is a pass over all arcs.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.result import Flow
from jaxmatch._common.rounding import accurate_sum
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._flow import fixed_point
from jaxmatch._flow.network import FlowNetwork
from jaxmatch._flow.xla_arcs import (
    Arcs,
    Capacities,
    Slots,
    arcs_of,
    capacities_in_units,
    rises,
    slots_of,
    whole_capacities,
)


class _State(NamedTuple):
    flow: Int[Array, " a"]  # net flow; the opposite arc has minus this flow
    excess: Int[Array, " n"]
    height: Int[Array, " n"]


def solve(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
) -> Flow:
    """Solves as documented in `maximum_flow`.

    The network has the batch dimensions of `capacity`, or none.
    """
    arrays = (network.arc_ptr, network.arc_head, network.arc_partner)
    arrays += (network.edge_ptr, network.arc_edge)
    # `zero` gives all arrays, and so all loop states, the same varying axes in a `shard_map`.
    inputs = (*arrays, source, sink, (capacity < 0).astype(jnp.int32))
    zero = 0 * sum((x.sum(dtype=jnp.int32) for x in inputs), jnp.int32(0))
    shared = None if network.batch_shape == () else 0
    one = _solve_one
    for _ in capacity.shape[:-1]:
        one = jax.vmap(one, in_axes=(0, 0, 0, 0, *[shared] * len(arrays)))
    # Checked before the addition below, which may flush denormal numbers to zero.
    usable = fixed_point.is_usable(capacity) & (zero == 0)
    capacity += zero.astype(capacity.dtype)
    return one(capacity, usable, source + zero, sink + zero, *(x + zero for x in arrays))


def _solve_one(
    capacity: Num[Array, " e"],
    usable: Bool[Array, ""],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    arc_ptr: Int[Array, " n+1"],
    arc_head: Int[Array, " a"],
    arc_partner: Int[Array, " a"],
    edge_ptr: Int[Array, " a+1"],
    arc_edge: Int[Array, " e"],
) -> Flow:
    n, a, e = len(arc_ptr) - 1, len(arc_head), len(arc_edge)
    makes_sense = rises(arc_ptr, a) & rises(edge_ptr, e) & (arc_ptr[-1] == a)
    makes_sense &= (0 <= source) & (source < n) & (0 <= sink) & (sink < n) & (source != sink)
    makes_sense &= (jnp.zeros_like(arc_edge).at[arc_edge].add(1, mode="drop") == 1).all()
    makes_sense &= (arc_edge >= 0).all()
    value = jnp.zeros_like(capacity, shape=(), dtype=value_dtype(capacity.dtype))
    flow, source_side = jnp.zeros_like(capacity), jnp.arange(n, dtype=jnp.int32) == source
    too_large = jnp.zeros_like(usable)
    if min(n, a) > 0:
        arcs, consistent = arcs_of(arc_ptr, arc_head, arc_partner)
        makes_sense &= consistent
        # No node may have two arcs to the source or to the sink: flow there is summed by arc.
        tail = arc_head[arc_partner.clip(0, a - 1)]
        again = (tail[1:] == tail[:-1]) & (arc_head[1:] <= arc_head[:-1])
        makes_sense &= ~(again & ((tail[1:] == source) | (tail[1:] == sink))).any()
        if e > 0:
            slots = slots_of(edge_ptr, arc_edge)
            valid = makes_sense & usable
            ends = source.clip(0, n - 1), sink.clip(0, n - 1)
            value, flow, source_side, too_large = _solve_valid(
                arcs, slots, capacity, *ends, source_side, valid
            )

    status = jnp.where(too_large, Status.OVERFLOW, Status.OPTIMAL)
    status = jnp.where(usable, status, Status.INVALID_CAPACITY)
    status = jnp.where(makes_sense, status, Status.INVALID_GRAPH).astype(jnp.int32)
    good = status == Status.OPTIMAL
    nothing = np.nan if jnp.issubdtype(capacity.dtype, jnp.floating) else -1
    return Flow(
        value=jnp.where(good, value, nothing),
        flow=jnp.where(good, flow, nothing),
        source_side=good & source_side,
        status=status,
    )


def value_dtype(capacity: np.dtype) -> np.dtype:
    """The dtype of the value of a flow: for integers 64 bits under x64."""
    if jnp.issubdtype(capacity, jnp.integer):
        return np.dtype(jax.dtypes.canonicalize_dtype(np.int64))
    return capacity


def _solve_valid(
    arcs: Arcs,
    slots: Slots,
    capacity: Num[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    source_side: Bool[Array, " n"],
    valid: Bool[Array, ""],
) -> tuple[Array, Array, Array, Array]:
    """Returns value, flow, source side, and whether the value overflowed.

    The results mean nothing if `valid` is False. The argument `source_side` marks only the source.
    """
    # Edges into the source and out of the sink get capacity 0: a maximum flow does not need them.
    used = slots.live & (arcs.head[slots.arc] != source) & (arcs.tail[slots.arc] != sink)
    of_slot = jnp.where(valid & used, capacity[slots.edge], 0)
    if jnp.issubdtype(capacity.dtype, jnp.integer):
        capacities = whole_capacities(arcs, slots, of_slot, source, sink)
        found = _maximum(arcs, slots, capacities, source, sink, source_side)
        flow = jnp.zeros_like(capacity).at[slots.edge].set(found.units.astype(capacity.dtype))
        # A residual path to the sink remains only if the initial excess of the source, which
        # saturates at `most`, was less than the maximum flow.
        overflow = found.source_side[sink]
        if capacities.bound.dtype.itemsize == 8:
            overflow |= found.sent >= fixed_point.integer_and_most()[1]
        value = found.sent.astype(value_dtype(capacity.dtype))
        return value, flow, found.source_side, overflow

    def solve(state: tuple[Array, ...]) -> tuple[Array, ...]:
        """Solves with the capacity of the last cut as a bound on the flow.

        Returns the value (a bound for the next solve), whether the units were fine enough, the
        flow, the source side, and whether the value overflowed.
        """
        known = state[0]
        capacities = capacities_in_units(arcs, slots, of_slot, known, source, sink)
        found = _maximum(arcs, slots, capacities, source, sink, source_side)
        infinite = capacities.unbounded & (found.sent == capacities.bound)
        # If every cut is infinite, every cut is minimum. The one nearest to the source has the
        # source alone on the source side.
        side = jnp.where(infinite, source_side, found.source_side)
        cut = side[arcs.tail[slots.arc]] & ~side[arcs.head[slots.arc]]
        leaving = jnp.zeros_like(of_slot).at[slots.edge].set(jnp.where(cut, of_slot, 0))
        value = jnp.where(infinite, jnp.inf, accurate_sum(leaving)).astype(of_slot.dtype)
        amount = fixed_point.times_power(found.units.astype(of_slot.dtype), capacities.exponent)
        amount = jnp.where(value > 0, amount, 0)  # if no flow arrives, drop circulations
        flow = jnp.zeros_like(of_slot).at[slots.edge].set(jnp.where(infinite, jnp.nan, amount))
        fine = fixed_point.is_fine(capacities.exponent, value, capacities.rounded)
        return value, fine, flow, side, ~infinite & ~jnp.isfinite(value)

    zero = 0 * source
    endless = jnp.asarray(jnp.inf, of_slot.dtype) + zero.astype(of_slot.dtype)
    start = (endless, zero != 0, jnp.zeros_like(of_slot), source_side, zero != 0)
    # If the unit was too coarse, the capacity of the cut found is a smaller bound on the flow, from
    # which the next solve chooses a finer unit.
    value, _, flow, source_side, overflow = lax.while_loop(lambda state: ~state[1], solve, start)
    return value, flow, source_side, overflow


class _Found(NamedTuple):
    sent: Int[Array, ""]
    units: Int[Array, " e"]  # the flow on each slot (see `Slots`)
    source_side: Bool[Array, " n"]


def _maximum(
    arcs: Arcs,
    slots: Slots,
    capacities: Capacities,
    source: Int[Array, ""],
    sink: Int[Array, ""],
    alone: Bool[Array, " n"],
) -> _Found:
    n = alone.size
    state = _route(arcs, capacities, source, sink, n)
    open_back = ((_residual(capacities, state.flow) > 0) | capacities.beyond)[arcs.partner]
    distance = jnp.where(alone, 0, jnp.int32(2 * n))
    distance, _ = _breadth_first(arcs, open_back, distance, alone)
    net = jnp.maximum(state.flow[slots.arc], 0)  # the flow of an arc fills its edges in order
    units = (net - capacities.before).clip(0, capacities.slot)
    units = jnp.where(slots.live, units, 0)
    return _Found(state.excess[sink], units, distance < 2 * n)


# ---------------------------------------------------------------------------------------------
# Push and relabel


def _residual(capacities: Capacities, flow: Int[Array, " a"]) -> Int[Array, " a"]:
    """Residual capacities, saturating at `most`. No excess is greater, so this limits no push."""
    _, most = fixed_point.integer_and_most()
    too_much = (flow < 0) & (capacities.arc > most + flow)
    return jnp.where(too_much, most, capacities.arc - flow)


def _route(
    arcs: Arcs, capacities: Capacities, source: Int[Array, ""], sink: Int[Array, ""], n: int
) -> _State:
    """Finds a maximum flow. In the end only the sink and the source have excess."""
    node = jnp.arange(n, dtype=jnp.int32)
    at_source, at_sink = node == source, node == sink
    state = _State(
        flow=jnp.zeros_like(capacities.arc),
        excess=jnp.where(at_source, capacities.bound, 0),
        height=jnp.where(at_source, 0, 0 * node),
    )

    def active(state: _State) -> Bool[Array, " n"]:
        below = state.height < jnp.where(at_source, n, 2 * n)
        return (state.excess > 0) & below & ~at_sink

    def relabel_globally(state: _State) -> tuple[_State, Array]:
        is_open = _residual(capacities, state.flow) > 0
        height = jnp.where(at_sink, 0, jnp.int32(2 * n))
        height, levels = _breadth_first(arcs, is_open, height, at_sink)
        cut_off = at_source & (height == 2 * n)
        height = jnp.where(cut_off, n, height)
        height, more = _breadth_first(arcs, is_open, height, cut_off)
        return state._replace(height=height), levels + more

    def round_of_pushes(state: _State) -> _State:
        residual = _residual(capacities, state.flow)
        downhill = state.height[arcs.tail] == state.height[arcs.head] + 1
        admissible = active(state)[arcs.tail] & downhill
        excess = state.excess[arcs.tail]
        takes = jnp.where(admissible, jnp.minimum(residual, excess), 0)
        sums, _ = fixed_point.running_sums(arcs.position, takes)
        pushed = (excess - fixed_point.before(arcs.position, sums)).clip(0, takes)
        change = pushed - pushed[arcs.partner]
        state = state._replace(
            flow=state.flow + change, excess=state.excess.at[arcs.tail].add(-change)
        )
        # Relabel to one above the lowest residual neighbour. This lowers no node: if heights are
        # valid, a residual neighbour is at most one level below.
        is_open = _residual(capacities, state.flow) > 0
        above = jnp.where(is_open, state.height[arcs.head] + 1, jnp.int32(2 * n))
        lowest = jnp.full_like(state.height, 2 * n).at[arcs.tail].min(above)
        lowest = jnp.where(at_source, jnp.minimum(lowest, n), lowest)
        return state._replace(height=jnp.where(active(state), lowest, state.height))

    def phase(state: _State) -> _State:
        """Relabels globally, then makes as many rounds of pushes as the search had levels.

        This balances the costs of searches and pushes.
        """
        state, levels = relabel_globally(state)
        return lax.while_loop(
            lambda carry: (carry[1] > 0) & active(carry[0]).any(),
            lambda carry: (round_of_pushes(carry[0]), carry[1] - 1),
            (state, levels),
        )[0]

    return lax.while_loop(lambda state: active(state).any(), phase, state)


def _breadth_first(
    arcs: Arcs, is_open: Bool[Array, " a"], height: Int[Array, " n"], seeds: Bool[Array, " n"]
) -> tuple[Array, Array]:
    """Sets unknown heights to the height of the seeds plus the distance to them along open arcs.

    All seeds have the same height. An unknown height is 2n. Also returns the number of levels.
    """
    unknown = 2 * height.size

    def level(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        height, frontier, levels = state
        above = jnp.where(frontier, height, 0).max() + 1
        leads = is_open & frontier[arcs.head]
        frontier = jnp.zeros_like(frontier).at[arcs.tail].max(leads) & (height == unknown)
        return jnp.where(frontier, above, height), frontier, levels + 1

    none = 0 * height[0]
    height, _, levels = lax.while_loop(lambda state: state[1].any(), level, (height, seeds, none))
    return height, levels
