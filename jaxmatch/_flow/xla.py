"""The pure-JAX solver for maximum flow on any platform: synchronous push-relabel.

Goldberg and Tarjan (JACM 35, 1988, section 5). In each round all active nodes push simultaneously
along all of their admissible arcs; then all nodes with remaining excess are relabelled. At
intervals heights are set to exact distances (global relabelling): to the sink if a residual path
leads there, else n plus the distance to the source. So excess that cannot reach the sink flows
back, and a flow remains instead of a preflow.

Below height n the source is an ordinary node: its initial excess is a bound on the flow, and it
keeps what it cannot push. So no excess ever exceeds that bound.

Termination: heights never fall and stay below 2n. A round in which no height rises moves the excess
of every active node to lower ones, so the highest active node gets lower, which happens at most 2n
times in a row.

Arithmetic is in integers, for float capacities in fixed point, so nothing is rounded during the
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
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._flow import fixed_point
from jaxmatch._flow.network import FlowNetwork


class _Arcs(NamedTuple):
    """Tail, head and opposite of each arc, in range even for an invalid network."""

    tail: Int[Array, " a"]
    head: Int[Array, " a"]
    partner: Int[Array, " a"]
    position: Int[Array, " a"]  # among the arcs of its node


class _Slots(NamedTuple):
    """The edges in the order of their arcs, in range. Self-loops have no arc and are not live."""

    edge: Int[Array, " e"]
    arc: Int[Array, " e"]
    live: Bool[Array, " e"]
    position: Int[Array, " e"]  # among the edges of its arc


class _Capacities(NamedTuple):
    """Capacities in fixed point."""

    slot: Int[Array, " e"]
    before: Int[Array, " e"]  # sum of the earlier slots of the same arc
    arc: Int[Array, " a"]
    beyond: Bool[Array, " a"]  # the sum saturated: more than any flow can use
    bound: Int[Array, ""]  # upper bound on the flow, the initial excess of the source
    unbounded: Bool[Array, ""]  # a flow that reaches `bound` is infinite
    exponent: Int[Array, ""]  # of a unit, as a power of two
    rounded: Bool[Array, ""]  # a capacity is no multiple of the unit


class _State(NamedTuple):
    flow: Int[Array, " a"]  # net flow: that of the opposite arc is its negative
    excess: Int[Array, " n"]
    height: Int[Array, " n"]


def solve(
    network: FlowNetwork,
    capacity: Num[Array, "... e"],
    source: Int[Array, "..."],
    sink: Int[Array, "..."],
) -> Flow:
    """As documented in `maximum_flow`. The network has the batch dimensions of all, or none."""
    arrays = (network.arc_ptr, network.arc_head, network.arc_partner)
    arrays += (network.edge_ptr, network.arc_edge)
    # In a surrounding `shard_map` all arrays, and so all loop states, get the same varying axes.
    inputs = (*arrays, source, sink, (capacity < 0).astype(jnp.int32))
    zero = 0 * sum((x.sum(dtype=jnp.int32) for x in inputs), jnp.int32(0))
    shared = None if network.batch_shape == () else 0
    one = _solve_one
    for _ in capacity.shape[:-1]:
        one = jax.vmap(one, in_axes=(0, 0, 0, 0, *[shared] * len(arrays)))
    # Before the sum below, which flushes denormal numbers to zero.
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
    makes_sense = _rises(arc_ptr, a) & _rises(edge_ptr, e) & (arc_ptr[-1] == a)
    makes_sense &= (0 <= source) & (source < n) & (0 <= sink) & (sink < n) & (source != sink)
    makes_sense &= (jnp.zeros_like(arc_edge).at[arc_edge].add(1, mode="drop") == 1).all()
    makes_sense &= (arc_edge >= 0).all()
    value = jnp.zeros_like(capacity, shape=(), dtype=value_dtype(capacity.dtype))
    flow, source_side = jnp.zeros_like(capacity), jnp.arange(n, dtype=jnp.int32) == source
    too_large = jnp.zeros_like(usable)
    if min(n, a) > 0:
        arcs, consistent = _arcs(arc_ptr, arc_head, arc_partner)
        makes_sense &= consistent
        # Flow at the terminals is summed by arc, so their arcs must be unique.
        tail = arc_head[arc_partner.clip(0, a - 1)]
        again = (tail[1:] == tail[:-1]) & (arc_head[1:] <= arc_head[:-1])
        makes_sense &= ~(again & ((tail[1:] == source) | (tail[1:] == sink))).any()
        if e > 0:
            slots = _slots(edge_ptr, arc_edge)
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
    """The dtype of the value of a flow: 64 bits for integers, under x64."""
    if jnp.issubdtype(capacity, jnp.integer):
        return np.dtype(jax.dtypes.canonicalize_dtype(np.int64))
    return capacity


def _solve_valid(
    arcs: _Arcs,
    slots: _Slots,
    capacity: Num[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
    source_side: Bool[Array, " n"],
    valid: Bool[Array, ""],
) -> tuple[Array, Array, Array, Array]:
    """Value, flow, source side, and whether it overflowed; meaningless if not valid.

    The argument `source_side` marks the source alone.
    """
    # No flow need enter the source or leave the sink.
    used = slots.live & (arcs.head[slots.arc] != source) & (arcs.tail[slots.arc] != sink)
    of_slot = jnp.where(valid & used, capacity[slots.edge], 0)
    if jnp.issubdtype(capacity.dtype, jnp.integer):
        capacities = _whole_capacities(arcs, slots, of_slot, source, sink)
        found = _maximum(arcs, slots, capacities, source, sink, source_side)
        flow = jnp.zeros_like(capacity).at[slots.edge].set(found.units.astype(capacity.dtype))
        # A residual path to the sink remains only if the excess of the source was too small.
        overflow = found.source_side[sink]
        if capacities.bound.dtype.itemsize == 8:
            overflow |= found.sent >= fixed_point.integer_and_most()[1]
        value = found.sent.astype(value_dtype(capacity.dtype))
        return value, flow, found.source_side, overflow

    def solve(state: tuple[Array, ...]) -> tuple[Array, ...]:
        """With the capacity of a cut as a bound, whether the units were fine, and the results."""
        known = state[0]
        capacities = _capacities_in_units(arcs, slots, of_slot, known, source, sink)
        found = _maximum(arcs, slots, capacities, source, sink, source_side)
        infinite = capacities.unbounded & (found.sent == capacities.bound)
        # Then every cut is infinite, and the one with the fewest nodes is the source alone.
        side = jnp.where(infinite, source_side, found.source_side)
        cut = side[arcs.tail[slots.arc]] & ~side[arcs.head[slots.arc]]
        leaving = jnp.zeros_like(of_slot).at[slots.edge].set(jnp.where(cut, of_slot, 0))
        value = jnp.where(infinite, jnp.inf, accurate_sum(leaving)).astype(of_slot.dtype)
        amount = fixed_point.times_power(found.units.astype(of_slot.dtype), capacities.exponent)
        amount = jnp.where(value > 0, amount, 0)  # no flow need circulate where none arrives
        flow = jnp.zeros_like(of_slot).at[slots.edge].set(jnp.where(infinite, jnp.nan, amount))
        fine = fixed_point.is_fine(capacities.exponent, value, capacities.rounded)
        return value, fine, flow, side, ~infinite & ~jnp.isfinite(value)

    zero = 0 * source
    endless = jnp.asarray(jnp.inf, of_slot.dtype) + zero.astype(of_slot.dtype)
    start = (endless, zero != 0, jnp.zeros_like(of_slot), source_side, zero != 0)
    # A coarse unit finds a cut whose capacity makes the next unit fine.
    value, _, flow, source_side, overflow = lax.while_loop(lambda state: ~state[1], solve, start)
    return value, flow, source_side, overflow


class _Found(NamedTuple):
    sent: Int[Array, ""]
    units: Int[Array, " e"]  # the flow on each slot
    source_side: Bool[Array, " n"]


def _maximum(
    arcs: _Arcs,
    slots: _Slots,
    capacities: _Capacities,
    source: Int[Array, ""],
    sink: Int[Array, ""],
    alone: Bool[Array, " n"],
) -> _Found:
    n = alone.size
    state = _route(arcs, capacities, source, sink, n)
    open_back = ((_residual(capacities, state.flow) > 0) | capacities.beyond)[arcs.partner]
    distance = jnp.where(alone, 0, jnp.int32(2 * n))
    distance, _ = _breadth_first(arcs, open_back, distance, alone)
    net = jnp.maximum(state.flow[slots.arc], 0)  # fills the edges of an arc in order
    units = (net - capacities.before).clip(0, capacities.slot)
    units = jnp.where(slots.live, units, 0)
    return _Found(state.excess[sink], units, distance < 2 * n)


# ---------------------------------------------------------------------------------------------
# The network


def _rises(ptr: Int[Array, " k+1"], most: int) -> Bool[Array, ""]:
    """Whether pointers rise from 0 to at most `most`."""
    return (ptr[0] == 0) & (ptr[1:] >= ptr[:-1]).all() & (ptr[-1] <= most)


def _owner(ptr: Int[Array, " k+1"], size: int) -> Int[Array, " size"]:
    """The segment of each entry: the number of segments that end at it or before."""
    ends = jnp.zeros_like(ptr, shape=(size,)).at[ptr[1:]].add(1, mode="drop")
    return ends.cumsum(dtype=jnp.int32)


def _arcs(
    arc_ptr: Int[Array, " n+1"], arc_head: Int[Array, " a"], arc_partner: Int[Array, " a"]
) -> tuple[_Arcs, Bool[Array, ""]]:
    """The arcs, and whether heads and opposite arcs are consistent."""
    n, a = len(arc_ptr) - 1, len(arc_head)
    index = jnp.arange(a, dtype=jnp.int32)
    tail = _owner(arc_ptr, a).clip(0, n - 1)
    head, partner = arc_head.clip(0, n - 1), arc_partner.clip(0, a - 1)
    consistent = (head == arc_head) & (partner == arc_partner) & (tail != head)
    consistent &= (partner[partner] == index) & (head[partner] == tail)
    position = (index - arc_ptr[tail]).clip(0, a - 1)
    return _Arcs(tail, head, partner, position), consistent.all()


def _slots(edge_ptr: Int[Array, " a+1"], arc_edge: Int[Array, " e"]) -> _Slots:
    a, e = len(edge_ptr) - 1, len(arc_edge)
    index = jnp.arange(e, dtype=jnp.int32)
    arc = _owner(edge_ptr, e)
    live = arc < a
    arc = arc.clip(0, a - 1)
    position = jnp.where(live, index - edge_ptr[arc], 0).clip(0, e - 1)
    return _Slots(arc_edge.clip(0, e - 1), arc, live, position)


def _whole_capacities(
    arcs: _Arcs,
    slots: _Slots,
    of_slot: Int[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
) -> _Capacities:
    integer, most = fixed_point.integer_and_most()
    units = jnp.minimum(of_slot.astype(integer), most)
    never = jnp.zeros_like(source, bool)
    out_of, into = fixed_point.totals(_at_ends(arcs, slots, units, source, sink))
    bound = jnp.minimum(out_of, into)
    return _of_arcs(arcs, slots, units, bound, never, 0 * source, never)


def _capacities_in_units(
    arcs: _Arcs,
    slots: _Slots,
    of_slot: Float[Array, " e"],
    known: Float[Array, ""],
    source: Int[Array, ""],
    sink: Int[Array, ""],
) -> _Capacities:
    """In fixed point, with a bound on the flow: the capacity at the source, at the sink, or of a
    known cut."""
    integer, _ = fixed_point.integer_and_most()
    info = jnp.finfo(of_slot.dtype)
    # The capacity of the cut was rounded, perhaps to less than the flow.
    known = jnp.where(known < jnp.inf, jnp.minimum(known * (1 + 4 * info.eps), info.max), known)
    at_ends = _at_ends(arcs, slots, of_slot, source, sink)
    exponent, nothing, unbounded = _unit(at_ends[0], at_ends[1], known, of_slot)
    units = jnp.where(nothing, jnp.sign(of_slot).astype(integer), 0)
    units = jnp.where(nothing, units, fixed_point.in_units(of_slot, exponent))
    out_of, into = fixed_point.totals(_at_ends(arcs, slots, units, source, sink))
    finite = fixed_point.totals(jnp.where(jnp.isinf(of_slot), 0, units)[None])[0]
    bound = jnp.minimum(out_of, into)
    bound = jnp.minimum(
        bound, fixed_point.stopping_sum(fixed_point.in_units(known, exponent), 1)[0]
    )
    bound = jnp.where(unbounded, fixed_point.stopping_sum(finite, 1)[0], bound)
    whole = fixed_point.times_power(units.astype(of_slot.dtype), exponent)
    rounded = ((whole < of_slot) & (units <= bound) & (of_slot < jnp.inf)).any()
    return _of_arcs(arcs, slots, units, bound, unbounded, exponent, rounded)


def _at_ends(
    arcs: _Arcs, slots: _Slots, x: Num[Array, " e"], source: Int[Array, ""], sink: Int[Array, ""]
) -> Num[Array, "2 e"]:
    """The slots out of the source, and those into the sink; 0 elsewhere."""
    leaves, reaches = arcs.tail[slots.arc] == source, arcs.head[slots.arc] == sink
    return jnp.stack([jnp.where(leaves, x, 0), jnp.where(reaches, x, 0)])


def _of_arcs(
    arcs: _Arcs,
    slots: _Slots,
    units: Int[Array, " e"],
    bound: Int[Array, ""],
    unbounded: Bool[Array, ""],
    exponent: Int[Array, ""],
    rounded: Bool[Array, ""],
) -> _Capacities:
    a, (_, most) = len(arcs.tail), fixed_point.integer_and_most()
    sums, beyond = fixed_point.running_sums(slots.position, units)
    last = (
        jnp.zeros_like(units, jnp.int32, shape=(a,))
        .at[slots.arc]
        .max(jnp.where(slots.live, jnp.arange(len(units), dtype=jnp.int32), 0))
    )
    has_edges = jnp.zeros_like(units, bool, shape=(a,)).at[slots.arc].max(slots.live)
    arc = jnp.where(has_edges, sums[last], 0)
    enough = jnp.where(bound < most, jnp.minimum(bound, most - 1) + 1, most)
    return _Capacities(
        slot=units,
        before=fixed_point.before(slots.position, sums),
        arc=jnp.minimum(arc, enough),
        beyond=(has_edges & beyond[last]) | ((arc >= enough) & (bound < most)),
        bound=bound,
        unbounded=unbounded,
        exponent=exponent,
        rounded=rounded,
    )


def _unit(
    out_of: Float[Array, " e"],
    into: Float[Array, " e"],
    known: Float[Array, ""],
    of_slot: Float[Array, " e"],
) -> tuple[Array, Array, Array]:
    """The exponent of the unit, whether no flow is possible, and whether none bounds it."""
    sums = [fixed_point.exponent_of_sum(x) for x in (out_of, into)]
    infinite = [(x == jnp.inf).any() for x in (out_of, into)]
    is_known = known < jnp.inf
    unbounded = infinite[0] & infinite[1] & ~is_known
    nothing = (sums[0][1] & ~infinite[0]) | (sums[1][1] & ~infinite[1])
    far = jnp.iinfo(jnp.int32).max
    bounds = [jnp.where(inf, far, k) for (k, _), inf in zip(sums, infinite, strict=True)]
    bounds.append(jnp.where(is_known, fixed_point.frexp(jnp.where(is_known, known, 1))[1], far))
    finite = fixed_point.exponent_of_sum(of_slot)[0]
    exponent = jnp.where(unbounded, finite, jnp.minimum(jnp.minimum(*bounds[:2]), bounds[2]))
    # One more unit: the bound is the sum of all finite capacities plus 1.
    exponent += unbounded.astype(exponent.dtype) - fixed_point.bits_of_bound()
    return exponent, nothing, unbounded


# ---------------------------------------------------------------------------------------------
# Push and relabel


def _residual(capacities: _Capacities, flow: Int[Array, " a"]) -> Int[Array, " a"]:
    """Residual capacities, saturating at `most`, which no excess exceeds."""
    _, most = fixed_point.integer_and_most()
    too_much = (flow < 0) & (capacities.arc > most + flow)
    return jnp.where(too_much, most, capacities.arc - flow)


def _route(
    arcs: _Arcs, capacities: _Capacities, source: Int[Array, ""], sink: Int[Array, ""], n: int
) -> _State:
    """A maximum flow; `excess` holds the amounts at the sink and at the source."""
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
        # Relabel above the lowest residual neighbour. Valid heights have none two levels below.
        is_open = _residual(capacities, state.flow) > 0
        above = jnp.where(is_open, state.height[arcs.head] + 1, jnp.int32(2 * n))
        lowest = jnp.full_like(state.height, 2 * n).at[arcs.tail].min(above)
        lowest = jnp.where(at_source, jnp.minimum(lowest, n), lowest)
        return state._replace(height=jnp.where(active(state), lowest, state.height))

    def phase(state: _State) -> _State:
        """As many rounds of pushes as the search had levels, which balances their costs."""
        state, levels = relabel_globally(state)
        return lax.while_loop(
            lambda carry: (carry[1] > 0) & active(carry[0]).any(),
            lambda carry: (round_of_pushes(carry[0]), carry[1] - 1),
            (state, levels),
        )[0]

    return lax.while_loop(lambda state: active(state).any(), phase, state)


def _breadth_first(
    arcs: _Arcs, is_open: Bool[Array, " a"], height: Int[Array, " n"], seeds: Bool[Array, " n"]
) -> tuple[Array, Array]:
    """Sets heights to that of the seeds plus the distance to them, and counts the levels.

    All seeds have the same height. Distances are along open arcs. Only heights of 2n, which stand
    for unknown, are replaced.
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
