"""Assignments between points where only pairs within a radius exist."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment.partition import Partition
from jaxmatch._assignment.sharded_check import check_shards
from jaxmatch._assignment_points.near_both import as_sparse, by_matrix
from jaxmatch._assignment_points.near_pairs import near_graph, room_for
from jaxmatch._assignment_points.near_problem import NearProblem
from jaxmatch._common.distances import distances, recomputed
from jaxmatch._common.gradient import apart, envelope_value, instantiated, is_constant
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, Float, Int
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._sparse_assignment.large_numbers import solve_without_large_numbers
from jaxmatch._sparse_assignment.native import near_assignment, sparse_assignment
from jaxmatch._sparse_assignment.problem import SparseProblem


NEAR_METHODS = ("auto", "xla")


def solve_near(
    problem: NearProblem, *, metric: str, method: str, max_pairs: int | None, cardinality: str
) -> Assignment:
    """`solve_assignment_points` with a radius."""
    room = 1
    if method == "auto":
        most = len(problem.x) * len(problem.y)
        room = min(max_pairs or room_for(problem, metric), most)
    options = {"metric": metric, "method": method, "cardinality": cardinality}
    return _solve(problem, **options, room=room)


def near_on_host(problem: NearProblem, metric: str) -> Assignment:
    """Solves a problem of NumPy or JAX arrays by the native solver for CPUs."""
    given: dict[str, Any] = problem._asdict()
    x, y, radius = (given.pop(name) for name in ("x", "y", "radius"))
    assert given.pop("unmatched_col_cost") is None
    return near_assignment(x, y, radius, metric=metric, **given)


@compiled(static_argnames=("metric", "method", "cardinality", "room"))
def _solve(
    problem: NearProblem, *, metric: str, method: str, cardinality: str, room: int
) -> Assignment:
    twin = partial(_by_matrix, metric=metric, cardinality=cardinality)
    cpu: Any = partial(near_on_host, metric=metric)
    if cardinality == "maximum" or problem.unmatched_col_cost is not None:
        cpu = None  # the native solver does not know these options
    # The kernels need at least one coordinate.
    cuda: Any = None
    if problem.x.shape[-1] and cardinality == "full":
        cuda = partial(_by_pairs, metric=metric, room=room)
    solver = twin if method == "xla" else partial(by_platform, twin, cpu=cpu, cuda=cuda)
    res = apart(solver)(problem)
    jvp = partial(_value_jvp, metric)
    return res.replace(cost=envelope_value(res.cost, problem, res, jvp))


def gated(
    problem: NearProblem, x: Array, metric: str, col4row: Int[Array, " n"] | None = None
) -> Float[Array, "n m"]:
    """The costs of some rows against all columns: +inf beyond the radius, NaN if invalid.

    `x`: the points of these rows. `col4row`: the columns to which a result matches the rows. With
    it, a pair whose distance is within rounding of the radius exists if and only if it is matched.
    """
    real, dims = result_float(), x.shape[-1]
    mine, others = x[:, None].astype(real), problem.y[None].astype(real)
    cost, most = distances(mine, others, metric), problem.radius
    apart, unit = cost, most
    if metric in ("sqeuclidean", "euclidean"):
        # Coordinates are scaled so that their squares stay in range.
        scale = _scale_of(most)
        apart = distances((mine - others) * scale, jnp.zeros_like(scale), metric)
        most = (most * scale) ** 2 if metric == "sqeuclidean" else most * scale
        unit = most
    elif metric == "cosine":
        unit = 1
    far = apart > most
    if col4row is not None:
        undecided = jnp.abs(apart - most) <= (2 * dims + 6) * jnp.finfo(real).eps * unit
        matched = jnp.arange(len(problem.y), dtype=jnp.int32)[None] == col4row[:, None]
        far = jnp.where(undecided, ~matched, far)
    valid = jnp.isfinite(x).all(-1)[:, None] & jnp.isfinite(problem.y).all(-1)[None]
    valid &= problem.radius >= 0  # a square hides the sign
    return jnp.where(valid, jnp.where(far, jnp.inf, cost), jnp.nan).astype(x.dtype)


def _scale_of(radius: Float[Array, ""]) -> Float[Array, ""]:
    """A power of two that scales the radius to about 1, as far as the dtype allows."""
    most = jnp.finfo(radius.dtype).maxexp * 3 // 4
    exponent = jnp.where(radius == 0, most, jnp.clip(-jnp.frexp(radius)[1], -most, most))
    return jnp.ldexp(jnp.ones_like(radius), exponent)


def _by_matrix(problem: NearProblem, *, metric: str, cardinality: str) -> Assignment:
    return by_matrix(problem, gated(problem, problem.x, metric), cardinality)


def _by_pairs(problem: NearProblem, *, metric: str, room: int) -> Assignment:
    graph, cost, fits = near_graph(problem, metric=metric, room=room)
    sparse = as_sparse(problem, cost)
    # A batch of one problem: without batch dimensions, the graph would count as shared by all
    # problems of a `vmap`.
    graph, sparse = jax.tree.map(lambda a: a[None], (graph, sparse))
    res = solve_without_large_numbers(_pairs_on_cuda, graph, sparse, maximize=False)[0][0]
    sound = problem.radius >= 0
    for points, mask in ((problem.x, problem.row_mask), (problem.y, problem.col_mask)):
        finite = jnp.isfinite(points).all(-1)
        sound &= (finite if mask is None else finite | ~mask).all()
    status = jnp.where(fits, res.status, Status.OVERFLOW)
    return _unless_failed(res, jnp.where(sound, status, Status.INVALID_COST))


def _pairs_on_cuda(
    graph: BipartiteGraph, problem: SparseProblem
) -> tuple[Assignment, Int[Array, "1 n"]]:
    cost, *others = problem
    optional: dict[str, Any] = dict(zip(problem._fields[1:], others, strict=True))
    res, edge, _ = sparse_assignment(graph, cost, **optional, maximize=False, platform="cuda")
    return res, edge


def _unless_failed(res: Assignment, status: Array) -> Assignment:
    """The result with this status. Unless it is `OPTIMAL`, indices are −1 and numbers NaN."""
    solved = status == Status.OPTIMAL

    def field(x: Array) -> Array:
        return jnp.where(solved, x, -1 if jnp.issubdtype(x.dtype, jnp.integer) else jnp.nan)

    return jax.tree.map(field, res).replace(status=status.astype(res.status.dtype))


def _value_jvp(
    metric: str, problem: NearProblem, tangents: NearProblem, res: Assignment
) -> Float[Array, ""]:
    solved = res.status == Status.OPTIMAL
    paired = solved & (res.col4row >= 0)

    def total(x: Array, y: Array) -> Array:
        partner = y[jnp.maximum(res.col4row, 0)]
        x, partner = (jnp.where(paired[:, None], p, k) for p, k in ((x, 1), (partner, 0)))
        return jnp.where(paired, distances(x, partner, metric), 0).sum()

    points = problem.x, problem.y
    dot = jax.jvp(total, points, instantiated((tangents.x, tangents.y), points))[1]
    for price, pairs, mask in (
        (tangents.unmatched_cost, res.col4row, problem.row_mask),
        (tangents.unmatched_col_cost, res.row4col, problem.col_mask),
    ):
        if price is not None and not is_constant(price):
            left = solved & (pairs < 0) & (True if mask is None else mask)
            dot += jnp.where(left, price, 0).sum().astype(dot.dtype)
    return dot


@compiled(static_argnames=("metric",))
def check_near(problem: NearProblem, result: Assignment, *, metric: str) -> AssignmentCheck:
    """`check_assignment_points` with a radius, inside a trace and on other devices."""
    problem, result = lax.stop_gradient((problem, result))

    def rows_of(points: tuple[Array, ...], first: Array, count: int) -> Array:
        x, col4row = (lax.dynamic_slice_in_dim(a, first, count) for a in points)
        return gated(problem, x, metric, col4row)

    return check_shards(
        rows_of,
        (problem.x, result.col4row),
        (PartitionSpec(), PartitionSpec()),
        (problem.row_mask, problem.col_mask),
        result,
        sides=(len(problem.x), len(problem.y)),
        dtype=problem.x.dtype,
        partition=Partition(None, True, None),
        maximize=False,
        unmatched_cost=problem.unmatched_cost,
        recomputed=recomputed(problem.x.shape[-1], metric),
    )
