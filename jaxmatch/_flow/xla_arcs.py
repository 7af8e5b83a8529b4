"""The arcs and capacities of one network, as the pure-JAX solver takes them."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp

from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._flow import fixed_point


class Arcs(NamedTuple):
    """The arcs of a network; all indices are in range, even if the network is invalid."""

    tail: Int[Array, " a"]
    head: Int[Array, " a"]
    partner: Int[Array, " a"]  # the opposite arc
    position: Int[Array, " a"]  # index among the arcs of its tail


class Slots(NamedTuple):
    """The edges sorted by arc: slot k is edge `arc_edge[k]`. All indices are in range.

    Self-loops have no arc and are not live.
    """

    edge: Int[Array, " e"]
    arc: Int[Array, " e"]
    live: Bool[Array, " e"]
    position: Int[Array, " e"]  # index among the edges of its arc


class Capacities(NamedTuple):
    """Capacities in fixed point."""

    slot: Int[Array, " e"]
    before: Int[Array, " e"]  # sum of the capacities of earlier slots of the same arc
    arc: Int[Array, " a"]
    beyond: Bool[Array, " a"]  # whether the capacity was cut off at a number above every flow
    bound: Int[Array, ""]  # upper bound on the flow; initial excess of the source
    unbounded: Bool[Array, ""]  # whether a flow that reaches `bound` is infinite
    exponent: Int[Array, ""]  # a unit is 2^exponent
    rounded: Bool[Array, ""]  # whether a finite capacity of at most `bound` was rounded to units


def rises(ptr: Int[Array, " k+1"], most: int) -> Bool[Array, ""]:
    """Whether pointers rise from 0 to at most `most`."""
    return (ptr[0] == 0) & (ptr[1:] >= ptr[:-1]).all() & (ptr[-1] <= most)


def _owner(ptr: Int[Array, " k+1"], size: int) -> Int[Array, " size"]:
    """The segment of each entry k: the number of segments whose entries all come before k."""
    ends = jnp.zeros_like(ptr, shape=(size,)).at[ptr[1:]].add(1, mode="drop")
    return ends.cumsum(dtype=jnp.int32)


def arcs_of(
    arc_ptr: Int[Array, " n+1"], arc_head: Int[Array, " a"], arc_partner: Int[Array, " a"]
) -> tuple[Arcs, Bool[Array, ""]]:
    """The arcs, and whether heads and opposite arcs are consistent."""
    n, a = len(arc_ptr) - 1, len(arc_head)
    index = jnp.arange(a, dtype=jnp.int32)
    tail = _owner(arc_ptr, a).clip(0, n - 1)
    head, partner = arc_head.clip(0, n - 1), arc_partner.clip(0, a - 1)
    consistent = (head == arc_head) & (partner == arc_partner) & (tail != head)
    consistent &= (partner[partner] == index) & (head[partner] == tail)
    position = (index - arc_ptr[tail]).clip(0, a - 1)
    return Arcs(tail, head, partner, position), consistent.all()


def slots_of(edge_ptr: Int[Array, " a+1"], arc_edge: Int[Array, " e"]) -> Slots:
    a, e = len(edge_ptr) - 1, len(arc_edge)
    index = jnp.arange(e, dtype=jnp.int32)
    arc = _owner(edge_ptr, e)
    live = arc < a
    arc = arc.clip(0, a - 1)
    position = jnp.where(live, index - edge_ptr[arc], 0).clip(0, e - 1)
    return Slots(arc_edge.clip(0, e - 1), arc, live, position)


def whole_capacities(
    arcs: Arcs,
    slots: Slots,
    of_slot: Int[Array, " e"],
    source: Int[Array, ""],
    sink: Int[Array, ""],
) -> Capacities:
    integer, most = fixed_point.integer_and_most()
    units = jnp.minimum(of_slot.astype(integer), most)
    never = jnp.zeros_like(source, bool)
    out_of, into = fixed_point.totals(_at_ends(arcs, slots, units, source, sink))
    bound = jnp.minimum(out_of, into)
    return _of_arcs(arcs, slots, units, bound, never, 0 * source, never)


def capacities_in_units(
    arcs: Arcs,
    slots: Slots,
    of_slot: Float[Array, " e"],
    known: Float[Array, ""],
    source: Int[Array, ""],
    sink: Int[Array, ""],
) -> Capacities:
    """Float capacities in fixed point.

    The bound on the flow is the least of three: the total capacity out of the source, the total
    capacity into the sink, and `known`, the capacity of a known cut or +inf.
    """
    integer, _ = fixed_point.integer_and_most()
    info = jnp.finfo(of_slot.dtype)
    # `known` was rounded and may be below the flow, so raise it by a few roundings.
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
    arcs: Arcs, slots: Slots, x: Num[Array, " e"], source: Int[Array, ""], sink: Int[Array, ""]
) -> Num[Array, "2 e"]:
    """x of the slots out of the source, then x of the slots into the sink; 0 elsewhere."""
    leaves, reaches = arcs.tail[slots.arc] == source, arcs.head[slots.arc] == sink
    return jnp.stack([jnp.where(leaves, x, 0), jnp.where(reaches, x, 0)])


def _of_arcs(
    arcs: Arcs,
    slots: Slots,
    units: Int[Array, " e"],
    bound: Int[Array, ""],
    unbounded: Bool[Array, ""],
    exponent: Int[Array, ""],
    rounded: Bool[Array, ""],
) -> Capacities:
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
    return Capacities(
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
    """The exponent of the unit, whether no flow is possible, and whether no bound is finite."""
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
    # If unbounded, `bound` is the sum of all finite capacities plus 1, which may need one more bit.
    exponent += unbounded.astype(exponent.dtype) - fixed_point.bits_of_bound()
    return exponent, nothing, unbounded
