"""Checks points within a radius whose columns may stay at a cost, or of which most are matched.

The check of graphs reads the pairs that `near_check` finds, or in a trace all pairs.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment_points.near_check import pairs_and_own
from jaxmatch._assignment_points.near_points import gated
from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.distances import recomputed
from jaxmatch._common.result import Assignment
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.check import check_of_cardinality
from jaxmatch._sparse_assignment.problem import SparseProblem


def check_edges_on_host(
    problem: NearProblem, result: Assignment, *, metric: str, cardinality: str
) -> AssignmentCheck:
    """For NumPy arrays. The pair of a row comes twice, which changes nothing."""
    n, m = len(problem.x), len(problem.y)
    row, col, cost, sound = pairs_and_own(problem, result.col4row, metric)
    order = np.argsort(row, kind="stable")
    counts = np.bincount(row, minlength=n)
    ptr: Any = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    graph = _graph(ptr, col[order].astype(np.int32), m)
    check = _check(problem, result, graph, cost[order], metric, cardinality)
    if sound:
        return check
    nothing: Any = np.zeros_like(check.optimal), np.full_like(check.gap, np.inf)
    return AssignmentCheck(check.valid, *nothing)


@compiled(static_argnames=("metric", "cardinality"))
def check_every_pair(
    problem: NearProblem, result: Assignment, *, metric: str, cardinality: str
) -> AssignmentCheck:
    """Inside a trace and on other devices, by the matrix of all pairs."""
    problem, result = lax.stop_gradient((problem, result))
    n, m = len(problem.x), len(problem.y)
    cost = gated(problem, problem.x, metric, result.col4row)
    ptr = jnp.arange(n + 1, dtype=jnp.int32) * np.int32(m)
    graph = _graph(ptr, jnp.tile(jnp.arange(m, dtype=jnp.int32), n), m)
    return _check(problem, result, graph, cost.reshape(-1), metric, cardinality)


def _graph(ptr: Array, ind: Array, m: int) -> BipartiteGraph:
    """The edges by row, which are all that the check reads."""
    xp: Any = np if isinstance(ptr, np.ndarray) else jnp
    sides = xp.asarray(len(ptr) - 1, np.int32), xp.asarray(m, np.int32)
    return BipartiteGraph(ptr, ind, xp.zeros(m + 1, np.int32), ind[:0], *sides)


def _check(
    problem: NearProblem,
    result: Assignment,
    graph: BipartiteGraph,
    cost: Array,
    metric: str,
    cardinality: str,
) -> AssignmentCheck:
    prices = problem.unmatched_cost, problem.unmatched_col_cost
    sparse = SparseProblem(cost, problem.row_mask, problem.col_mask, *prices)
    more = recomputed(problem.x.shape[-1], metric)
    check = partial(check_of_cardinality(cardinality), maximize=False, recomputed=more)
    return check(graph, sparse, result)
