"""The pure-JAX solver for minimum-cost flow on any platform: successive shortest paths.

Ahuja, Magnanti and Orlin (Network Flows, 1993, section 9.7), for one problem. Lower bounds are
taken out first: each edge then carries from 0 to its room, capacity − lower. If a cycle of negative
cost exists, edges of negative reduced cost are filled. Then nodes with excess send it to nodes with
a deficit along shortest paths, as many disjoint paths at a time as there are trees.

Termination: masses are integers (floats in fixed point), and each round of paths moves at least one
unit of excess to a deficit. Searches relax every arc at once, in at most n rounds.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.result import result_float
from jaxmatch._common.rounding import accurate_sum, as_float, sum_up, two_sum
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._flow import fixed_point as grid
from jaxmatch._min_cost_flow.problem import Ends, MinCostProblem, forgiven, value_dtype
from jaxmatch._min_cost_flow.result import MinimumCostFlow
from jaxmatch._min_cost_flow.xla_masses import Edges, Masses, in_units, is_left, positive
from jaxmatch._min_cost_flow.xla_paths import Limits, negative_edges, send


def solve(ends: Ends, problem: MinCostProblem) -> MinimumCostFlow:
    """Solves one problem as documented in `minimum_cost_flow`; use `vmap` for a batch."""
    n, e = problem.supply.shape[-1], problem.capacity.shape[-1]
    edges, invalid = _read(ends, problem)
    tolerance = forgiven(problem)
    limits = Limits.of(edges.cost)
    c = limits.clipped(edges.cost)

    # Which edges to fill, and potentials for which the others have no negative reduced cost.
    has_room = edges.unlimited | (edges.capacity > edges.lower)
    start = negative_edges(edges.tail, edges.head, c, has_room, edges.unlimited, limits, n=n)
    unbounded = start.cycle.any()
    c = jnp.where(unbounded, 0, c)  # to learn whether a flow exists

    masses, off, balanced = in_units(edges, start.filled, tolerance)
    found = send(edges.tail, edges.head, c, masses, start, limits)
    infeasible, lacking = is_left(edges, masses, has_room, found.excess, tolerance)
    side = jnp.where((found.excess > 0).any(), found.reached, lacking.any() & ~lacking)

    flow = _as_flow(edges, masses, found.units)
    potential, cost, gap, too_large = _value(problem, edges, flow, found.potential)
    overflow = masses.overflow | start.overflow | found.overflow
    too_large |= _loses_masses(edges, flow, tolerance)
    status = jnp.where(too_large, Status.OVERFLOW, Status.OPTIMAL)
    status = jnp.where(unbounded, Status.UNBOUNDED, status)
    status = jnp.where(infeasible, Status.INFEASIBLE, status)
    # A search that ended early has no verdict.
    status = jnp.where(overflow, Status.OVERFLOW, status)
    status = jnp.where(balanced, status, Status.UNBALANCED)
    for bad, code in reversed(invalid):
        status = jnp.where(bad, code, status)
    status = status.astype(jnp.int32)
    good = status == Status.OPTIMAL

    def kept(x: Array) -> Array:
        return jnp.where(good, x, np.nan if jnp.issubdtype(x.dtype, jnp.floating) else -1)

    gap = jnp.where(status == Status.UNBALANCED, off.astype(gap.dtype), kept(gap))
    return MinimumCostFlow(
        flow=kept(flow)[:e],
        cost=kept(cost),
        potential=kept(potential)[:n],
        gap=gap,
        source_side=((status == Status.INFEASIBLE) & side)[:n],
        cycle=((status == Status.UNBOUNDED) & start.cycle)[:e],
        status=status,
    )


def _read(ends: Ends, problem: MinCostProblem) -> tuple[Edges, list[tuple[Array, Any]]]:
    """The edges, and conditions with the status of a problem in which they hold, first ones first.

    There is at least one node and one edge: if need be, a loop that carries nothing is added.
    """
    capacity, cost, supply = problem[:3]
    n, (tail, head) = supply.shape[-1], ends
    lower = jnp.zeros_like(capacity) if problem.lower is None else problem.lower
    outside = ((tail < 0) | (tail >= n) | (head < 0) | (head >= n)).any()

    # `zero` gives all arrays, and so all loop states, the same varying axes in a `shard_map`.
    inputs = (tail, head, *((x < 0).astype(jnp.int32) for x in (capacity, cost, supply, lower)))
    zero = 0 * sum((x.sum(dtype=jnp.int32) for x in inputs), jnp.int32(0))
    if capacity.shape[-1] == 0:
        one = zero[None]
        tail, head = one, one
        capacity, lower = one.astype(capacity.dtype), one.astype(capacity.dtype)
        cost = one.astype(cost.dtype)
    if n == 0:
        supply = zero[None].astype(supply.dtype)

    nothing: Array = jnp.zeros_like(cost, bool)
    endless, forbidden, no_cost, no_bound, no_mass = [nothing] * 5
    if jnp.issubdtype(capacity.dtype, jnp.floating):
        endless = capacity == jnp.inf
        no_bound = jnp.isnan(capacity) | ~jnp.isfinite(lower)
        no_mass = ~jnp.isfinite(supply)
    else:
        endless, no_mass = capacity == jnp.iinfo(capacity.dtype).max, supply != supply
    if jnp.issubdtype(cost.dtype, jnp.floating):
        forbidden, no_cost = cost == jnp.inf, jnp.isnan(cost) | (cost == -jnp.inf)
    no_bound |= (lower > capacity) | (forbidden & ((lower > 0) | (capacity < 0)))
    closed = no_bound | forbidden
    limit = jnp.where(closed | endless, 0, capacity)
    edges = Edges(
        tail=tail.clip(0, max(n, 1) - 1) + zero,
        head=head.clip(0, max(n, 1) - 1) + zero,
        capacity=limit + zero.astype(capacity.dtype),
        lower=jnp.where(closed, 0, lower),
        cost=jnp.where(no_cost | forbidden, 0, cost) + zero.astype(cost.dtype),
        unlimited=endless & ~closed,
        supply=jnp.where(no_mass, 0, supply) + zero.astype(supply.dtype),
    )
    invalid = [
        (outside, Status.INVALID_GRAPH),
        (no_cost.any(), Status.INVALID_COST),
        (no_bound.any(), Status.INVALID_CAPACITY),
        (no_mass.any(), Status.INVALID_MASS),
    ]
    return edges, invalid


def _as_flow(edges: Edges, masses: Masses, units: Int[Array, " e"]) -> Num[Array, " e"]:
    """The flow in the dtype of masses, within the bounds of the edges."""
    if jnp.issubdtype(edges.lower.dtype, jnp.integer):
        return edges.lower + units.astype(edges.lower.dtype)
    amount = grid.times_power(as_float(units)[0], masses.exponent).astype(edges.lower.dtype)
    full = ~edges.unlimited & (units >= masses.room)
    flow = jnp.where(full, edges.capacity, edges.lower + amount)
    flow = jnp.where(edges.unlimited, flow, jnp.minimum(flow, edges.capacity))
    return jnp.maximum(flow, edges.lower)


def _loses_masses(edges: Edges, flow: Num[Array, " e"], tolerance: float) -> Bool[Array, ""]:
    """Whether float masses differ so much in size that much of the supplies was rounded away."""
    if jnp.issubdtype(flow.dtype, jnp.integer):
        return jnp.zeros_like(edges.unlimited.any())
    x, low, supply = (as_float(y)[0] for y in (flow, edges.lower, edges.supply))
    at = jnp.zeros_like(supply).at
    off = jnp.abs(at[edges.tail].add(x).at[edges.head].add(-x) - supply)
    size = jnp.abs(x) + jnp.abs(low)
    through = at[edges.tail].add(size).at[edges.head].add(size)
    eps, n = float(jnp.finfo(flow.dtype).eps), supply.size
    beyond = jnp.maximum(off - 4 * eps * through, 0).sum()
    return beyond > (3 * tolerance + 2 * n * eps) * jnp.abs(supply).sum()


def _value(
    problem: MinCostProblem, edges: Edges, flow: Num[Array, " e"], potential: Num[Array, " n"]
) -> tuple[Array, Array, Array, Array]:
    """The potentials, the cost, a bound on cost − optimum, and whether the cost overflowed."""
    dtype = value_dtype(problem)
    (c, c_low), (x, x_low) = as_float(edges.cost), as_float(flow)
    terms = jnp.concatenate([c * x, c * x_low, c_low * x])
    total = accurate_sum(terms)
    if jnp.issubdtype(dtype, jnp.integer):
        error = 4 * float(jnp.finfo(total.dtype).eps) * jnp.abs(terms).sum()
        too_large = jnp.abs(total) + error >= 2.0 ** (8 * dtype.itemsize - 1)
        cost = (edges.cost.astype(dtype) * flow.astype(dtype)).sum(dtype=dtype)
        return potential.astype(dtype), cost, jnp.zeros_like(cost), too_large
    v = potential.astype(dtype)
    gap = _gap(edges, (c, c_low), flow, v)
    return v, total.astype(dtype), gap, jnp.zeros_like(total, bool)


def _gap(
    edges: Edges, cost: tuple[Array, Array], flow: Num[Array, " e"], v: Float[Array, " n"]
) -> Float[Array, ""]:
    """Σ reduced cost · (flow − lower) where it is positive, and of the rest of the room elsewhere.

    No flow of least cost need carry more on an edge than all supplies and all negative cycles do.
    """
    real, eps = result_float(), float(jnp.finfo(v.dtype).eps)
    part, low = two_sum(cost[0], -v[edges.tail])
    part, more = two_sum(part, v[edges.head])
    rc = part + (low + more + cost[1])

    def minus(a: Array, b: Array) -> Array:
        """The difference rounded up; 0 only for equal numbers."""
        (x, x_low), (y, y_low) = as_float(a), as_float(b)
        return jnp.maximum((x - y) + (x_low - y_low), 0) * (1 + 4 * eps)

    used, room = minus(flow, edges.lower), minus(edges.capacity, edges.lower)
    negative = edges.cost < 0
    everywhere = (negative & edges.unlimited).any()
    circulating = ~edges.unlimited & (negative | everywhere)
    most = sum_up(positive(edges).astype(real) * (1 + 4 * eps))
    most += sum_up(jnp.where(circulating, room, 0))
    room = jnp.where(edges.unlimited, most, jnp.minimum(room, most))
    rest = jnp.where(flow == edges.capacity, 0, jnp.maximum(room - used, 0))
    rest = jnp.where(edges.unlimited, jnp.maximum(room - used, 0), rest)
    terms = jnp.where(rc > 0, rc * used, jnp.where(rc < 0, -rc * rest, 0))
    return sum_up(terms * (1 + 8 * eps))
