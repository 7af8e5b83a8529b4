"""Solves small sparse problems as dense ones, by a kernel that solves a whole batch at once."""

from __future__ import annotations

from typing import Any, Literal

import jax
import jax.numpy as jnp

from jaxmatch._assignment.native import assignment
from jaxmatch._common.arguments import solved_dtype
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.rounding import accurate_sum
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.edges import Edges
from jaxmatch._sparse_assignment.problem import SparseProblem


MOST_SIDES = 128


def fits(graph: BipartiteGraph, problem: SparseProblem) -> bool:
    """Whether problems are small and can be written as dense ones.

    Missing edges become pairs of cost +inf, so integer costs become floats. All integers must be
    short enough to stay exact.
    """
    numbers = [x for x in (problem.cost, problem.unmatched_cost) if x is not None]
    exact = all(
        jnp.issubdtype(x.dtype, jnp.floating) or x.dtype.itemsize < result_float().itemsize
        for x in numbers
    )
    return max(graph.shape) <= MOST_SIDES and exact and problem.unmatched_col_cost is None


def solve(
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
    platform: Literal["cpu", "cuda"],
) -> tuple[Assignment, Int[Array, "... n"]]:
    """As `xla.solve`, but for a batch of problems for which `fits` holds."""

    def over_batch(function: Any, *arguments: tuple[Any, bool]) -> Any:
        """Maps `function` over the batch. Arguments are pairs (value, whether it is batched)."""
        axes = tuple(0 if has_batch else None for _, has_batch in arguments)
        for _ in problem.cost.shape[:-1]:
            function = jax.vmap(function, in_axes=axes)
        return function(*(x for x, _ in arguments))

    own = bool(graph.batch_shape)
    dense = over_batch(lambda g, p: _spread(g, p, maximize), (graph, own), (problem, True))
    cost, sound, valid = dense
    r = problem.unmatched_cost
    if r is not None and jnp.issubdtype(r.dtype, jnp.integer):
        r = r.astype(result_float())
    res = assignment(
        cost,
        problem.row_mask,
        problem.col_mask,
        r,
        problem.col_dual,
        maximize=maximize,
        platform=platform,
    )

    def read(g: BipartiteGraph, p: SparseProblem, res: Assignment, *ok: Array) -> Any:
        return _read(g, p, res, *ok, maximize=maximize)

    given = [(graph, own), *((x, True) for x in (problem, res, sound, valid))]
    return over_batch(read, *given)


def _spread(
    graph: BipartiteGraph, problem: SparseProblem, maximize: bool
) -> tuple[Num[Array, "n m"], Bool[Array, ""], Bool[Array, ""]]:
    """The dense costs, whether the graph is consistent, and whether costs are valid."""
    n, m = graph.shape
    edges = Edges.of(graph)
    cost = problem.cost[: len(edges.row)]
    cost = cost.astype(result_float()) if jnp.issubdtype(cost.dtype, jnp.integer) else cost
    live = edges.live
    for mask, at in ((problem.row_mask, edges.row), (problem.col_mask, edges.col)):
        live = live if mask is None else live & mask[at]
    never = -jnp.inf if maximize else jnp.inf
    valid = ~(live & (jnp.isnan(cost) | (cost == -never))).any()
    cost = jnp.where(live & valid, cost, never)
    empty = jnp.full_like(cost, never, shape=(n, m)).at[edges.row, edges.col]
    spread = empty.max(cost) if maximize else empty.min(cost)
    return spread, edges.sound, valid


def _read(
    graph: BipartiteGraph,
    problem: SparseProblem,
    res: Assignment,
    sound: Bool[Array, ""],
    valid: Bool[Array, ""],
    *,
    maximize: bool,
) -> tuple[Assignment, Int[Array, " n"]]:
    """The final result, and the edge of each row's pair.

    Sets the status. Without `unmatched_cost`, leaving a row unmatched adds nothing to the cost.
    """
    status = jnp.where(valid, res.status, Status.INVALID_COST)
    status = jnp.where(sound, status, Status.INVALID_GRAPH).astype(jnp.int32)
    solved = status == Status.OPTIMAL
    edges = Edges.of(graph)
    cost = problem.cost[: len(edges.row)]
    pairs = jnp.where(solved, res.col4row, -1)
    edge = edges.of_pairs(cost, pairs, maximize=maximize)
    total = res.cost
    if problem.unmatched_cost is None:
        total = _sum_of_pairs(cost, edge, res.cost)

    def value(x: Array) -> Array:
        return jnp.where(solved, x, jnp.nan)

    return Assignment(
        col4row=pairs,
        row4col=jnp.where(solved, res.row4col, -1),
        cost=value(total),
        row_dual=value(res.row_dual),
        col_dual=value(res.col_dual),
        gap=value(res.gap),
        status=status,
    ), edge


def _sum_of_pairs(cost: Array, edge: Int[Array, " n"], like: Array) -> Float[Array, ""]:
    if min(cost.size, edge.size) == 0:
        return jnp.zeros_like(like)
    x = cost.astype(solved_dtype(cost.dtype)).astype(like.dtype)
    return accurate_sum(jnp.where(edge >= 0, x[jnp.maximum(edge, 0)], 0))
