"""Masses of the pure-JAX solver: integer multiples of one unit, with sums of 0."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.rounding import accurate_sum, as_float
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._flow import fixed_point as grid


class Edges(NamedTuple):
    """The edges of one problem with all ends in range. Bad numbers are replaced by 0."""

    tail: Int[Array, " e"]
    head: Int[Array, " e"]
    capacity: Num[Array, " e"]
    lower: Num[Array, " e"]
    cost: Num[Array, " e"]
    unlimited: Bool[Array, " e"]
    supply: Num[Array, " n"]


class Masses(NamedTuple):
    """Masses as integer multiples of 2^exponent. Lower bounds are taken out of all of them."""

    room: Int[Array, " e"]  # capacity − lower, saturated at a number above every flow
    unlimited: Bool[Array, " e"]
    excess: Int[Array, " n"]  # supply − lower bounds of edges out + lower bounds of edges in
    filled: Bool[Array, " e"]  # edges that carry their room at first; `excess` does not count it
    exponent: Int[Array, ""]
    overflow: Bool[Array, ""]


def in_units(
    edges: Edges, filled: Bool[Array, " e"], tolerance: float
) -> tuple[Masses, Array, Array]:
    """Converts masses to units.

    Also returns by how much the supplies miss a sum of 0, and whether that is within the tolerance.
    """
    off, balanced = _difference(edges.supply, tolerance)
    given = (edges.supply, edges.lower, jnp.where(filled, edges.capacity, 0))
    if jnp.issubdtype(edges.supply.dtype, jnp.integer):
        integer, most = grid.integer_and_most()
        wide = [x.astype(integer) for x in (edges.capacity, edges.lower, edges.supply)]
        total = sum(jnp.abs(as_float(x)[0]).sum() for x in given)
        total += jnp.where(filled, jnp.abs(as_float(edges.lower)[0]), 0).sum()
        overflow = total >= most // 2
        capacity, lower, supply = (jnp.where(overflow, 0, x) for x in wide)
        room = jnp.where(capacity > most + jnp.minimum(lower, 0), most, capacity - lower)
        excess = _without_lower(edges, supply, lower)
        zero = jnp.zeros_like(excess[0], jnp.int32)
        masses = Masses(room, edges.unlimited, excess, filled, zero, overflow)
        return masses, off, balanced

    wide = [jnp.abs(as_float(x)[0]) for x in given]
    wide += [jnp.where(filled, wide[1], 0)]
    highest, _ = grid.exponent_of_sum(jnp.concatenate(wide))
    # A unit below the least normal number would be flushed to 0.
    least = jnp.finfo(edges.supply.dtype).minexp
    exponent = jnp.maximum(highest - grid.bits_of_bound() + 1, least)
    integer, _ = grid.integer_and_most()

    def rounded(x: Float[Array, " k"]) -> Int[Array, " k"]:
        return jnp.round(grid.times_power(as_float(x)[0], -exponent)).astype(integer)

    # Rounded up: what a capacity can carry, it can carry in units. Flows are cut to capacities.
    apart = as_float(edges.capacity)[0] - as_float(edges.lower)[0]
    most = np.nextafter(np.asarray(grid.integer_and_most()[1] + 1, apart.dtype), 0)
    room = jnp.minimum(jnp.ceil(grid.times_power(apart, -exponent)), most).astype(integer)
    excess = _without_lower(edges, rounded(edges.supply), rounded(edges.lower))
    overflow = jnp.zeros_like(balanced)
    masses = Masses(room, edges.unlimited, excess, filled, exponent, overflow)
    return masses, off, balanced


def _without_lower(edges: Edges, supply: Num[Array, " n"], lower: Num[Array, " e"]) -> Array:
    return supply.at[edges.tail].add(-lower).at[edges.head].add(lower)


def positive(edges: Edges) -> Float[Array, " n"]:
    """The positive supplies after lower bounds are taken out, about."""
    wide = as_float(edges.supply)[0], as_float(edges.lower)[0]
    return jnp.maximum(_without_lower(edges, *wide), 0)


def _difference(supply: Num[Array, " n"], tolerance: float) -> tuple[Array, Array]:
    if jnp.issubdtype(supply.dtype, jnp.integer):
        integer, most = grid.integer_and_most()
        wide = supply.astype(integer).clip(-most, most)
        a, b = (grid.totals(jnp.maximum(x, 0)[None, :])[0] for x in (wide, -wide))
        return jnp.abs(a - b), a == b
    wide = as_float(supply)[0]
    a, b = (accurate_sum(jnp.maximum(x, 0)) for x in (wide, -wide))
    off = jnp.abs(accurate_sum(wide))
    return off, off <= tolerance * a


def is_left(
    edges: Edges,
    masses: Masses,
    has_room: Bool[Array, " e"],
    left: Int[Array, " n"],
    tolerance: float,
) -> tuple[Bool[Array, ""], Bool[Array, " n"]]:
    """Whether more mass was not sent than supplies miss a sum of 0 by rounding.

    `left`: the excess of each node at the end. Also returns the nodes of parts of the network that
    lack supply. Edges with room connect the nodes of a part.
    """
    n = left.size
    label = _components(edges.tail, edges.head, has_room, left)

    def sums(x: Array) -> Array:
        return as_float(jnp.zeros_like(x).at[label].add(x))[0]

    excess = masses.excess
    off, size = sums(excess), sums(jnp.abs(excess))
    slack = jnp.zeros_like(off[0])
    if jnp.issubdtype(edges.supply.dtype, jnp.floating):
        slack = 2.0 * n * float(jnp.finfo(edges.supply.dtype).eps) * size.sum() + float(n)
    near = jnp.abs(off) <= tolerance * size + jnp.abs(off.sum())
    off = jnp.where(near, off, 0)
    too_much = sums(jnp.maximum(left, 0)) > jnp.maximum(off, 0) + slack
    too_little = sums(jnp.maximum(-left, 0)) > jnp.maximum(-off, 0) + slack
    return (too_much | too_little).any(), (too_little & ~too_much)[label]


def _components(
    tail: Int[Array, " e"], head: Int[Array, " e"], joined: Bool[Array, " e"], like: Array
) -> Int[Array, " n"]:
    """The connected component of each node: the number of its first node."""
    n = like.size
    tail = jnp.where(joined, tail, 0)
    head = jnp.where(joined, head, 0)

    def join(state: tuple[Array, Array]) -> tuple[Array, Array]:
        label, _ = state
        low = jnp.minimum(label[tail], label[head])
        low = jnp.where(joined, low, n)
        lowered = label.at[label[tail]].min(low).at[label[head]].min(low)
        lowered = lowered.at[tail].min(low).at[head].min(low)
        lowered = lowered[lowered]
        return lowered, (lowered != label).any()

    start = jnp.arange(n, dtype=jnp.int32) + 0 * like.astype(jnp.int32)
    return lax.while_loop(lambda state: state[1], join, (start, joined.any()))[0]
