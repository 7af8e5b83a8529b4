"""Points within a radius where columns stay at a cost, or as many pairs as possible are made.

Outside of a trace on a CPU and on CUDA, a graph of the pairs is solved. Elsewhere the matrix is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.maximum import solve_maximum
from jaxmatch._assignment.methods import METHODS
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._assignment_points.near_edges import near_edges
from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.result import Assignment
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Float
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._matching.solve import solve_by_platform, solve_on_host
from jaxmatch._sparse_assignment.maximum import solve_maximum as solve_maximum_of_graph
from jaxmatch._sparse_assignment.native import sparse_assignment
from jaxmatch._sparse_assignment.problem import SparseProblem
from jaxmatch._sparse_assignment.solve import METHODS as SPARSE_METHODS
from jaxmatch._transport.limited import complete_graph


def as_sparse(problem: NearProblem, cost: Array) -> SparseProblem:
    prices = problem.unmatched_cost, problem.unmatched_col_cost
    return SparseProblem(cost, problem.row_mask, problem.col_mask, *prices)


def by_edges_on_host(problem: NearProblem, metric: str, cardinality: str) -> Assignment:
    """Solves NumPy arrays by the native solver of graphs."""
    edges = near_edges(problem, metric)
    sparse = as_sparse(problem, edges.cost)

    def solve(graph: BipartiteGraph, problem: SparseProblem) -> tuple[Assignment, Array]:
        optional: dict[str, Any] = problem._asdict()
        cost = optional.pop("cost")
        given = {**optional, "maximize": False}
        return sparse_assignment(graph, cost, **given, platform="cpu")[:2]

    if cardinality == "maximum":
        res = solve_maximum_of_graph(solve, solve_on_host, edges.graph, sparse, maximize=False)[0]
    else:
        res = solve(edges.graph, sparse)[0]
    if edges.status == Status.OPTIMAL:
        return res

    def failed(x: Any) -> Any:
        return np.full_like(x, -1 if np.issubdtype(x.dtype, np.integer) else np.nan)

    return jax.tree.map(failed, res).replace(status=np.full_like(res.status, edges.status))


def by_matrix(problem: NearProblem, cost: Float[Array, "n m"], cardinality: str) -> Assignment:
    """Solves a matrix of costs, +inf beyond the radius, in JAX."""
    masks = problem.row_mask, problem.col_mask
    if problem.unmatched_col_cost is not None:
        n, m = cost.shape
        graph = complete_graph(n, m, jnp)
        sparse = as_sparse(problem, cost.reshape(-1))
        # One problem as a batch of it, as for a graph that problems share.
        sparse = jax.tree.map(lambda a: a[None], sparse)
        return SPARSE_METHODS["auto"](graph, sparse, maximize=False)[0][0]
    solve = partial(METHODS["auto"], maximize=False)
    dense = AssignmentProblem(cost, *masks, problem.unmatched_cost)
    if cardinality == "maximum":
        match = partial(solve_by_platform, start=None, method="auto")
        return solve_maximum(solve, match, dense, maximize=False, lacks_some=True)
    return solve(dense)
