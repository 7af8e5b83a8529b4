"""Shortest paths of the pure-JAX solver, and the flow along them.

An arc is an edge, or an edge backwards: arc k < e is edge k, and arc k + e leads back along it. The
reduced cost of an arc is its cost − potential of its tail + potential of its head.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.result import result_float
from jaxmatch._common.rounding import accurate_sum, as_float
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._min_cost_flow.xla_masses import Masses


class Limits(NamedTuple):
    """How large costs may be, in the dtype of potentials: 64-bit integers or floats, or 32-bit.

    Costs are clipped at `cost`. Distances saturate at `distance`, half of it; no clipped cost is
    part of a shorter path. Potentials stay below `potential`, half of that.
    """

    dtype: np.dtype
    cost: float | int
    distance: float | int
    potential: float | int
    never: float | int  # the distance of what is not reached

    @classmethod
    def of(cls, cost: Num[Array, " e"]) -> Limits:
        real = result_float()
        if jnp.issubdtype(cost.dtype, jnp.floating):
            most = 2.0 ** (int(jnp.finfo(real).maxexp) - 3)
            return cls(real, most, most / 2, most / 4, jnp.inf)
        bits = 8 * real.itemsize - 3
        dtype = np.dtype(f"int{8 * real.itemsize}")
        return cls(dtype, 2**bits, 2 ** (bits - 1), 2 ** (bits - 2), 2 ** (bits + 1))

    def clipped(self, cost: Num[Array, " e"]) -> Num[Array, " e"]:
        return cost.astype(self.dtype).clip(-self.cost, self.cost)


class Start(NamedTuple):
    """Where successive shortest paths begin."""

    potential: Num[Array, " n"]
    filled: Bool[Array, " e"]  # edges that carry as much as they can
    cycle: Bool[Array, " e"]  # edges of a negative cycle without a limit; all False: there is none
    overflow: Bool[Array, ""]


class Found(NamedTuple):
    units: Int[Array, " e"]
    potential: Num[Array, " n"]
    excess: Int[Array, " n"]  # what could not be sent
    reached: Bool[Array, " n"]  # nodes to which the excess that is left can move
    overflow: Bool[Array, ""]


# ---------------------------------------------------------------------------------------------
# Negative costs


def negative_edges(
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    cost: Num[Array, " e"],
    has_room: Bool[Array, " e"],
    unlimited: Bool[Array, " e"],
    limits: Limits,
    *,
    n: int,
) -> Start:
    """Potentials without negative reduced costs, or the edges to fill so that there are some.

    If no cycle has a negative cost, none need be filled. Else edges without a limit alone set the
    potentials, and all others with a negative reduced cost are filled.
    """
    n = max(n, 1)
    first = _potentials(tail, head, cost, has_room, limits, n)
    second = _potentials(tail, head, cost, unlimited & first.cycle.any(), limits, n)
    cyclic = first.cycle.any()
    potential = jnp.where(cyclic, second.potential, first.potential)
    unbounded = second.cycle.any()
    potential = jnp.where(unbounded, 0, potential)
    reduced = cost - potential[tail] + potential[head]
    filled = cyclic & ~unbounded & has_room & ~unlimited & (reduced < 0)
    # A cycle says more than a sum that grew too large before another one was found.
    overflow = jnp.where(cyclic, second.overflow & ~unbounded, first.overflow)
    return Start(potential, filled, second.cycle, overflow)


class _Relaxed(NamedTuple):
    potential: Num[Array, " n"]
    parent: Int[Array, " n"]  # the edge that set the potential of its tail, e if none did
    cycle: Bool[Array, " e"]
    overflow: Bool[Array, ""]
    changed: Bool[Array, ""]
    left: Int[Array, ""]  # number of rounds


def _potentials(
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    cost: Num[Array, " e"],
    used: Bool[Array, " e"],
    limits: Limits,
    n: int,
) -> _Relaxed:
    """The least cost of a path from each node along the used edges, by Bellman and Ford.

    It ends at a cycle of negative cost. Sums of floats are rounded, so only a cycle whose exact sum
    is negative counts, and the number of rounds is limited.
    """
    e = tail.size
    edge = jnp.arange(e, dtype=jnp.int32)

    def relax(state: _Relaxed) -> _Relaxed:
        v = state.potential
        candidate = jnp.where(used, cost + v[head], limits.cost)
        least = jnp.full_like(v, limits.cost).at[tail].min(candidate)
        better = least < v
        at_hand = used & better[tail] & (candidate == least[tail])
        parent = jnp.full_like(state.parent, e).at[tail].min(jnp.where(at_hand, edge, e))
        parent = jnp.where(better, parent, state.parent)
        cycle = _cycle(parent, head, n)
        # As floats of twice the precision, costs of a cycle tell its sign.
        exact = accurate_sum(jnp.where(cycle, as_float(cost)[0], 0))
        if jnp.issubdtype(cost.dtype, jnp.integer):
            exact = jnp.where(cycle.any(), jnp.full_like(exact, -1), 0)
        cycle &= exact < 0
        v = jnp.where(better, least, v)
        beyond = (v < -limits.potential).any()
        return _Relaxed(v, parent, cycle, beyond, better.any(), state.left - 1)

    def goes_on(state: _Relaxed) -> Array:
        return state.changed & ~state.cycle.any() & ~state.overflow & (state.left > 0)

    like = jnp.zeros_like(tail, shape=(n,)) + 0 * tail[0]
    zero = 0 * tail[0]
    start = _Relaxed(
        potential=like.astype(cost.dtype),
        parent=like + e,
        cycle=used & (zero != 0),
        overflow=zero != 0,
        changed=used.any(),
        left=zero + n + 1,
    )
    return lax.while_loop(goes_on, relax, start)


def _cycle(parent: Int[Array, " n"], head: Int[Array, " e"], n: int) -> Bool[Array, " e"]:
    """The edges of one cycle of the graph of parents; none if it has no cycle."""
    e = head.size
    nowhere = jnp.full_like(parent[:1], n)
    after = jnp.concatenate([jnp.where(parent < e, head[parent.clip(0, e - 1)], n), nowhere])
    far = after
    for _ in range(int(n).bit_length()):
        far = far[far]
    first = far.min()  # a node of a cycle, or n

    def walk(state: tuple[Array, Array]) -> tuple[Array, Array]:
        marked, at = state
        return marked | (jnp.arange(n + 1, dtype=jnp.int32) == at), after[at]

    none = (after < 0) | (jnp.arange(n + 1, dtype=jnp.int32) == n)  # `nowhere` is marked
    marked, _ = lax.while_loop(lambda state: ~state[0][state[1]], walk, (none, first))
    marked = marked[:-1]
    edge = jnp.where(marked & (parent < e), parent, e)
    return jnp.zeros_like(head, bool).at[edge].set(True, mode="drop") & (first < n)


# ---------------------------------------------------------------------------------------------
# Shortest paths from excess to deficits


class _State(NamedTuple):
    units: Int[Array, " e"]
    excess: Int[Array, " n"]
    potential: Num[Array, " n"]
    stuck: Bool[Array, ""]  # no deficit is reached
    reached: Bool[Array, " n"]
    overflow: Bool[Array, ""]


class _Arcs(NamedTuple):
    tail: Int[Array, " 2e"]
    head: Int[Array, " 2e"]
    cost: Num[Array, " 2e"]


def send(
    tail: Int[Array, " e"],
    head: Int[Array, " e"],
    cost: Num[Array, " e"],
    masses: Masses,
    start: Start,
    limits: Limits,
) -> Found:
    """Sends as much excess as possible to deficits, at the least cost."""
    both = jnp.concatenate
    arcs = _Arcs(both([tail, head]), both([head, tail]), both([cost, -cost]))
    units = jnp.where(masses.filled, masses.room, 0)
    excess = masses.excess.at[tail].add(-units).at[head].add(units)
    stopped = masses.overflow | start.overflow
    none = (excess > 0) & (excess < 0)
    state = _State(units, excess, start.potential, none.any(), none, stopped)

    def goes_on(state: _State) -> Array:
        return (state.excess > 0).any() & ~state.stuck & ~state.overflow

    state = lax.while_loop(goes_on, lambda state: _round(arcs, masses, state, limits), state)
    return Found(state.units, state.potential, state.excess, state.reached, state.overflow)


def _round(arcs: _Arcs, masses: Masses, state: _State, limits: Limits) -> _State:
    """Sends excess along shortest paths, each in a tree of its own."""
    units, excess, potential = state[:3]
    n, e = excess.size, units.size
    most = jnp.iinfo(units.dtype).max
    residual = jnp.concatenate([jnp.where(masses.unlimited, most, masses.room - units), units])
    is_open = residual > 0
    reduced = jnp.maximum(arcs.cost - potential[arcs.tail] + potential[arcs.head], 0)
    sources = excess > 0
    distance = _distances(arcs, is_open, reduced, sources, limits)
    reached = distance < limits.never

    past = _past(arcs, reduced, distance, limits)
    tight = is_open & reached[arcs.tail] & (past == distance[arcs.head])
    parent, root = _forest(arcs, tight, sources)

    # The nearest deficit of each tree.
    near = reached & (excess < 0) & (distance < limits.distance) & (root < n)
    of_tree = root.clip(0, n - 1)
    best = jnp.full_like(distance, limits.never)
    best = best.at[of_tree].min(jnp.where(near, distance, limits.never))
    node = jnp.arange(n, dtype=jnp.int32)
    first = jnp.where(near & (distance == best[of_tree]), node, n)
    target = jnp.full_like(root, n).at[of_tree].min(first)
    has_path = target < n
    marked = jnp.zeros_like(sources).at[target].set(True, mode="drop")

    deficits = reached & (excess < 0)
    farthest = jnp.where(has_path, best, 0).max()
    moved = potential - jnp.minimum(distance, farthest)
    beyond = ~has_path.any() & deficits.any()
    beyond |= (jnp.abs(moved) > limits.potential).any()

    on_path = _climb(arcs, parent, marked)
    used = on_path & ~sources
    arc = parent.clip(0, 2 * e - 1)
    least = jnp.minimum(excess, -excess[target.clip(0, n - 1)])
    least = least.at[of_tree].min(jnp.where(used, residual[arc], most))
    amount = jnp.where(has_path, least, 0)
    along = jnp.where(used, amount[of_tree], 0)
    signed = jnp.where(arc < e, along, -along)
    units = units.at[jnp.where(used, arc % e, e)].add(signed, mode="drop")
    change = jnp.zeros_like(excess).at[target].add(amount, mode="drop") - amount
    return _State(
        units=units,
        excess=excess + change,
        potential=jnp.where(has_path.any(), moved, potential),
        stuck=~deficits.any(),
        reached=reached,
        overflow=state.overflow | beyond,
    )


def _past(arcs: _Arcs, reduced: Array, distance: Array, limits: Limits) -> Array:
    """The distance of the head of each arc by way of its tail, which is reached."""
    tail = jnp.minimum(distance[arcs.tail], limits.distance)
    return jnp.minimum(tail + reduced, limits.distance)


def _distances(
    arcs: _Arcs, is_open: Array, reduced: Array, sources: Array, limits: Limits
) -> Num[Array, " n"]:
    """The distance of each node from the nearest source, along open arcs."""

    def relax(state: tuple[Array, Array]) -> tuple[Array, Array]:
        distance, _ = state
        usable = is_open & (distance[arcs.tail] < limits.never)
        past = jnp.where(usable, _past(arcs, reduced, distance, limits), limits.never)
        less = distance.at[arcs.head].min(past)
        return less, (less < distance).any()

    start = jnp.where(sources, jnp.zeros_like(reduced[:1]), limits.never)
    return lax.while_loop(lambda state: state[1], relax, (start, sources.any()))[0]


def _forest(arcs: _Arcs, tight: Array, sources: Array) -> tuple[Int[Array, " n"], Int[Array, " n"]]:
    """For each node its arc in a forest of tight arcs that grows from the sources, and its root.

    Level by level: arcs of reduced cost 0 could form cycles.
    """
    n, count = sources.size, arcs.tail.size
    arc = jnp.arange(count, dtype=jnp.int32)
    node = jnp.arange(n, dtype=jnp.int32)

    def level(state: tuple[Array, ...]) -> tuple[Array, ...]:
        parent, root, frontier = state
        leads = tight & frontier[arcs.tail] & (root[arcs.head] == n)
        found = jnp.full_like(parent, count).at[arcs.head].min(jnp.where(leads, arc, count))
        new = found < count
        parent = jnp.where(new, found, parent)
        root = jnp.where(new, root[arcs.tail[found.clip(0, count - 1)]], root)
        return parent, root, new

    root = jnp.where(sources, node, n)
    parent = jnp.where(sources, count, 0 * node + count)
    start = (parent, root, sources)
    parent, root, _ = lax.while_loop(lambda state: state[2].any(), level, start)
    return parent, root


def _climb(arcs: _Arcs, parent: Int[Array, " n"], marked: Bool[Array, " n"]) -> Bool[Array, " n"]:
    """Marks all nodes on the way from marked nodes to the roots of their trees."""
    n, count = parent.size, arcs.tail.size
    above = jnp.where(parent < count, arcs.tail[parent.clip(0, count - 1)], n)

    def step(state: tuple[Array, Any]) -> tuple[Array, Any]:
        marked, _ = state
        more = marked.at[jnp.where(marked, above, n)].set(True, mode="drop")
        return more, (more != marked).any()

    return lax.while_loop(lambda state: state[1], step, (marked, marked.any()))[0]
