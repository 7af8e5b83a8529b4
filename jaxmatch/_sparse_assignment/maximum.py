"""Cheapest maximum matchings of graphs, as two problems in which one side must be matched."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._common.proof import module_of, over_problems
from jaxmatch._common.result import Assignment, Matching
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Int
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._matching.most_pairs import cover_of, joined, kept
from jaxmatch._sparse_assignment.edges import Edges
from jaxmatch._sparse_assignment.problem import SparseProblem


# An assignment, and for each row the edge of its pair (−1 if unmatched).
Solution = tuple[Assignment, Int[Array, "... n"]]


def solve_maximum(
    solve: Callable[[BipartiteGraph, SparseProblem], Solution],
    match: Callable[[BipartiteGraph], Matching],
    graph: BipartiteGraph,
    problem: SparseProblem,
    *,
    maximize: bool,
) -> Solution:
    """Solves with `solve`, which must match all of the smaller side, and `match`.

    Both take batches, in NumPy or in JAX as the arrays of the problem.
    """
    xp, batch, (n, m) = module_of(problem.cost), problem.cost.shape[:-1], graph.shape
    rows = xp.ones((*batch, n), bool) if problem.row_mask is None else problem.row_mask
    cols = xp.ones((*batch, m), bool) if problem.col_mask is None else problem.col_mask

    def each(function: Callable[..., Any], *arrays: Any) -> Any:
        if graph.batch_shape:
            return over_problems(function, batch, graph, *arrays)
        return over_problems(partial(function, graph), batch, *arrays)

    live, lacks, invalid = each(partial(_allowed, maximize=maximize), problem.cost, rows, cols)
    matching = _match(match, graph, live, lacks.any(), each)
    row_cover, col_cover = each(_cover, live, rows & (matching.col4row < 0), matching.col4row)
    first, edge = solve(
        graph, problem._replace(row_mask=rows & row_cover, col_mask=cols & ~col_cover)
    )
    second, other = solve(
        graph, problem._replace(row_mask=rows & ~row_cover, col_mask=cols & col_cover)
    )

    failure = xp.where(invalid, np.int32(Status.INVALID_COST), np.int32(Status.OPTIMAL))
    failure = xp.where(matching.status == Status.INVALID_GRAPH, matching.status, failure)
    res = joined(first, second, row_cover, col_cover, failure)
    solved = (res.status == Status.OPTIMAL)[..., None]
    return res, xp.where(solved, xp.maximum(edge, other), np.int32(-1))


def _allowed(
    graph: BipartiteGraph, cost: Array, rows: Array, cols: Array, *, maximize: bool
) -> tuple[Bool[Array, " e"], Bool[Array, ""], Bool[Array, ""]]:
    """Which edges a matching may contain, whether it may not contain some, and whether some cost
    is invalid.
    """
    xp, edges = module_of(cost), Edges.of(graph)
    size = edges.row.shape[0]
    live = edges.live & rows[edges.row] & cols[edges.col] if size else edges.live
    allowed, invalid = live, xp.zeros((), bool)
    if jnp.issubdtype(cost.dtype, jnp.floating):
        never = -np.inf if maximize else np.inf
        own = cost[:size]
        allowed = live & (own != never)
        invalid = (live & (xp.isnan(own) | (own == -never))).any()
    rest = xp.zeros(cost.shape[-1] - size, bool)
    return xp.concatenate([allowed, rest]), (edges.live & ~allowed).any(), invalid


def _match(
    match: Callable[[BipartiteGraph], Matching],
    graph: BipartiteGraph,
    live: Bool[Array, "... e"],
    lacks: Bool[Array, ""],
    each: Callable[..., Any],
) -> Matching:
    """A maximum matching of the live edges. `lacks`: whether some edges of some graph are not live.

    A graph that problems share is solved once for all of them if it lacks none.
    """
    xp, batch = module_of(live), live.shape[:-1]

    def of_all() -> Matching:
        res = match(graph)
        if graph.batch_shape:
            return res
        return jax.tree.map(lambda x: xp.broadcast_to(x, (*batch, *x.shape)), res)

    def of_some() -> Matching:
        return match(each(_subgraph, live))

    if xp is np:
        return of_some() if lacks else of_all()
    if jax.sharding.get_abstract_mesh().manual_axes:
        return of_some()  # in a `shard_map`, where branches may vary over different axes
    return lax.cond(lacks, of_some, of_all)


def _subgraph(graph: BipartiteGraph, live: Bool[Array, " e"]) -> BipartiteGraph:
    """The graph of the live edges alone."""
    edges, xp = Edges.of(graph), module_of(live)
    if edges.row.shape[0] == 0:
        return graph
    order = xp.argsort(xp.where(edges.live, edges.col, graph.shape[1]), stable=True)
    row_ptr, col_ind = kept(graph.row_ptr, edges.col, live)
    col_ptr, row_ind = kept(graph.col_ptr, edges.row[order], live[order])
    return dataclasses.replace(
        graph, row_ptr=row_ptr, col_ind=col_ind, col_ptr=col_ptr, row_ind=row_ind
    )


def _cover(
    graph: BipartiteGraph,
    live: Bool[Array, " e"],
    unmatched: Bool[Array, " n"],
    col4row: Int[Array, " n"],
) -> tuple[Bool[Array, " n"], Bool[Array, " m"]]:
    edges, m, xp = Edges.of(graph), graph.shape[1], module_of(live)
    live = live[: edges.row.shape[0]]

    def reached_from(rows: Bool[Array, " n"]) -> Bool[Array, " m"]:
        from_row = live & rows[edges.row]
        if xp is np:
            cols: Any = np.zeros(m, bool)
            cols[edges.col[from_row]] = True
            return cols
        return jnp.zeros((m,), bool).at[edges.col].max(from_row)

    if edges.row.shape[0] == 0:
        return ~unmatched, xp.zeros((m,), bool)
    return cover_of(unmatched, col4row, m, reached_from)
