"""The pure-JAX solver of k best assignments for any platform (Murty, 1968).

A node is a subproblem, in which some pairs are forced or forbidden, with its best assignment. When
this assignment is listed, all others of the subproblem are divided among child nodes.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment import xla as _xla_assignment
from jaxmatch._common.result import Assignment
from jaxmatch._common.rounding import as_float, greatest, sum_error
from jaxmatch._common.sharding import vary_alike
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._k_best.result import KBestAssignments


class _Nodes(NamedTuple):
    """Nodes: subproblems, each with its best assignment if it has one."""

    exists: Bool[Array, " k"]
    cost: Float[Array, " k"]  # cost of the best assignment, negated when maximising
    error: Float[Array, " k"]  # a bound on cost - optimum of the subproblem, including roundings
    col4row: Int[Array, "k n"]
    row4col: Int[Array, "k m"]
    allowed: Bool[Array, "k n m"]


# The nodes that are kept, and a lower bound on the costs of all nodes that were dropped.
_State = tuple[_Nodes, "Array"]


def solve(
    cost: Num[Array, "n m"],
    row_mask: Bool[Array, " n"] | None,
    col_mask: Bool[Array, " m"] | None,
    k: int,
    *,
    maximize: bool,
) -> KBestAssignments:
    """Solves one problem as documented in `k_best_assignments`; use `vmap` for a batch."""
    n, m = cost.shape
    sign = -1 if maximize else 1
    low = jnp.zeros((), jnp.float32)
    first = _xla_assignment.solve(cost, row_mask, col_mask, None, None, maximize=maximize)
    if jnp.issubdtype(cost.dtype, jnp.integer):  # to floats, as infinite costs will forbid pairs
        cost, low = as_float(cost)
        exists = jnp.ones_like(cost, bool)
        exists &= True if row_mask is None else row_mask[:, None]
        exists &= True if col_mask is None else col_mask[None, :]
        low = greatest(jnp.where(exists, low, 0))

    def best_of(allowed: Array) -> Assignment:
        c = jnp.where(allowed, cost, sign * jnp.inf)
        return _xla_assignment.solve(c, row_mask, col_mask, None, None, maximize=maximize)

    def list_of(res: Assignment, allowed: Array, usable: Array) -> _Nodes:
        exists = usable & (res.status == Status.OPTIMAL)
        # The errors of summing costs (`_sum_error`) and of rounding costs to floats (`low`). They
        # count twice, because the gap compares the sums of two assignments.
        error = res.gap + 2 * (_sum_error(cost, res) + min(n, m) * low.astype(res.gap.dtype))
        error = jnp.where(exists, error, 0)
        return _Nodes(exists, sign * res.cost, error, res.col4row, res.row4col, allowed)

    def partition(r: Array, state: _State) -> _State:
        """Lists node r. Its children get all other assignments of its subproblem."""
        nodes, bound = state
        allowed = _children(nodes.allowed[r], nodes.col4row[r])
        res = jax.vmap(best_of)(allowed)
        children = list_of(res, allowed, nodes.exists[r] & (nodes.col4row[r] >= 0))
        both = jax.tree.map(lambda a, b: jnp.concatenate([a, b]), nodes, children)
        listed = jnp.arange(both.cost.size, dtype=jnp.int32) <= r
        order = _order(both, listed)
        best, rest = order[: nodes.cost.size], order[nodes.cost.size :]
        least = _least_costs(both)[rest].min(initial=jnp.inf)
        return jax.tree.map(lambda x: x[best], both), jnp.minimum(bound, least)

    places = min(k, _most_assignments(n, m, k))
    root = list_of(first, jnp.ones_like(cost, bool), jnp.ones_like(first.status, bool))
    nodes = jax.tree.map(
        lambda x: jnp.concatenate([x[None], jnp.zeros((places - 1, *x.shape), x.dtype)]), root
    )
    start = vary_alike((nodes, jnp.full_like(first.gap, jnp.inf)), (nodes, first))
    nodes, bound = lax.fori_loop(0, places - 1, partition, start)
    # Nodes may have been listed out of order, because the sums of costs are rounded.
    order = _order(nodes, jnp.zeros_like(nodes.exists))
    nodes = jax.tree.map(lambda x: x[order], nodes)
    # A dropped node may cost as little as `bound`. If the last listed cost is higher, it may be off
    # by the difference.
    within = nodes.exists & (nodes.cost < jnp.inf)
    last = jnp.where(within, nodes.cost, -jnp.inf).max(initial=-jnp.inf)
    gap = jnp.maximum(nodes.error.max(initial=0), jnp.maximum(last - bound, 0))
    gap = jnp.where(first.status == Status.OPTIMAL, gap, first.gap)

    def fill(x: Array, found: Array, otherwise: float) -> Array:
        found = found.reshape(found.shape + (1,) * (x.ndim - 1))
        rest = [(0, k - places)] + [(0, 0)] * (x.ndim - 1)
        return jnp.pad(jnp.where(found, x, otherwise), rest, constant_values=otherwise)

    return KBestAssignments(
        col4row=fill(nodes.col4row, nodes.exists, -1),
        row4col=fill(nodes.row4col, nodes.exists, -1),
        cost=fill(0 - nodes.cost if maximize else nodes.cost, nodes.exists, jnp.nan),
        count=nodes.exists.sum(dtype=jnp.int32),
        row_dual=first.row_dual,
        col_dual=first.col_dual,
        gap=gap,
        status=first.status,
    )


def _sum_error(cost: Float[Array, "n m"], res: Assignment) -> Float[Array, "..."]:
    """A bound on the rounding error of the total cost of each assignment in `res`."""
    if cost.size == 0:
        return jnp.zeros_like(res.cost)

    def of_one(col4row: Array, total: Array) -> Array:
        pairs = col4row[:, None] == jnp.arange(cost.shape[1], dtype=jnp.int32)[None, :]
        return sum_error(jnp.where(pairs, cost, 0).sum(1).astype(total.dtype), total)

    return jnp.vectorize(of_one, signature="(n),()->()")(res.col4row, res.cost)


def _least_costs(nodes: _Nodes) -> Float[Array, " k"]:
    """A lower bound on the cost of each node; +inf if it does not exist or its cost overflowed."""
    rounding = 2 * float(jnp.finfo(nodes.cost.dtype).eps) * jnp.abs(nodes.cost)
    below = jnp.where(nodes.error > 0, nodes.error + rounding, 0)
    return jnp.where(nodes.exists & (nodes.cost < jnp.inf), nodes.cost - below, jnp.inf)


def _children(allowed: Bool[Array, "n m"], col4row: Int[Array, " n"]) -> Bool[Array, "n n m"]:
    """The allowed pairs of each child.

    Child t must keep the pairs of all rows before t, and must not keep the pair of row t.
    """
    n, m = allowed.shape
    rows, cols = jnp.arange(n, dtype=jnp.int32), jnp.arange(m, dtype=jnp.int32)
    pairs = col4row[:, None] == cols[None, :]
    before = rows[None, :] < rows[:, None]  # [t, i]: row i is before row t
    forced = before[:, :, None] & pairs[None]
    taken = forced.any(2, keepdims=True) | forced.any(1, keepdims=True)
    own = (rows[None, :] == rows[:, None])[:, :, None] & pairs[None]
    return jnp.where(taken, forced, allowed[None] & ~own)


def _order(nodes: _Nodes, listed: Bool[Array, " k"]) -> Int[Array, " k"]:
    """An order of nodes: listed ones as they stand, then others by cost, then nonexistent ones."""
    cost = jnp.where(listed, -jnp.inf, jnp.where(nodes.exists, nodes.cost, jnp.inf))
    return jnp.lexsort((~nodes.exists, cost))


def _most_assignments(n: int, m: int, limit: int) -> int:
    """The number of assignments of an n × m problem without forbidden pairs, or `limit` if less."""
    count = 1
    for i in range(min(n, m)):
        count *= max(n, m) - i
        if count >= limit:
            return limit
    return count
