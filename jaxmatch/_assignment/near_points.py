"""Assignments between points of which only pairs within a radius exist."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax
from jax.sharding import PartitionSpec

from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment.methods import METHODS
from jaxmatch._assignment.partition import Partition
from jaxmatch._assignment.problem import AssignmentProblem, as_mask
from jaxmatch._assignment.sharded_check import check_shards
from jaxmatch._common.arguments import as_array
from jaxmatch._common.distances import distances
from jaxmatch._common.gradient import envelope_value, instantiated, is_constant
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled
from jaxmatch._ffi.dispatch import by_platform
from jaxmatch._sparse_assignment.native import near_assignment


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Bool, Float

NEAR_METHODS = ("auto", "xla")


class NearProblem(NamedTuple):
    """The checked arguments of one problem, as a pytree."""

    x: Float[Array, "n d"]
    y: Float[Array, "m d"]
    radius: Float[Array, ""]
    row_mask: Bool[Array, " n"] | None
    col_mask: Bool[Array, " m"] | None
    unmatched_cost: Float[Array, " n"] | None


def as_near_problem(
    x: Array,
    y: Array,
    radius: ArrayLike | None,
    unmatched_cost: ArrayLike | None,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
) -> NearProblem:
    """Checks what goes with a radius. Points are as the solvers take them."""
    if radius is None:
        raise ValueError(
            "`unmatched_cost` needs a `radius`; for the costs of all pairs call "
            "`solve_assignment` or `solve_transport_points`."
        )
    n, m, real = len(x), len(y), result_float()
    radius = as_array("radius", radius).astype(real)
    if radius.ndim:
        raise ValueError(f"`radius` must be one number, got shape {[*radius.shape]}.")
    if unmatched_cost is not None:
        unmatched_cost = as_array("unmatched_cost", unmatched_cost).astype(real)
        if unmatched_cost.shape not in ((), (n,)):
            raise ValueError(
                f"`unmatched_cost` must be a number or [n], here [{n}], got shape "
                f"{[*unmatched_cost.shape]}."
            )
        unmatched_cost = jnp.broadcast_to(unmatched_cost, (n,))
    masks = as_mask("row_mask", row_mask, (n,)), as_mask("col_mask", col_mask, (m,))
    return NearProblem(x, y, radius, *masks, unmatched_cost)


@compiled(static_argnames=("metric", "method"))
def solve_near(problem: NearProblem, *, metric: str, method: str) -> Assignment:
    """As documented in `solve_assignment_points`."""

    def by_grid(problem: NearProblem) -> Assignment:
        x, y, radius, *optional = problem
        names = ("row_mask", "col_mask", "unmatched_cost")
        given: dict[str, Any] = dict(zip(names, optional, strict=True))
        return near_assignment(x, y, radius, metric=metric, **given)

    fixed = lax.stop_gradient(problem)
    twin = partial(_by_matrix, metric=metric)
    res = twin(fixed) if method == "xla" else by_platform(twin, fixed, cpu=by_grid)
    jvp = partial(_value_jvp, metric)
    return res.replace(cost=envelope_value(res.cost, problem, res, jvp))


def _gated(problem: NearProblem, x: Array, metric: str) -> Array:
    """The costs of some rows against all columns, +inf beyond the radius."""
    real = result_float()
    apart = distances(x[:, None].astype(real), problem.y[None].astype(real), metric)
    most = problem.radius**2 if metric == "sqeuclidean" else problem.radius
    # Points that are not finite are invalid, not far away.
    far = (apart > most) & jnp.isfinite(x).all(-1)[:, None] & jnp.isfinite(problem.y).all(-1)[None]
    return jnp.where(far, jnp.inf, jnp.where(jnp.isinf(apart), jnp.nan, apart)).astype(x.dtype)


def _by_matrix(problem: NearProblem, *, metric: str) -> Assignment:
    cost = _gated(problem, problem.x, metric)
    dense = AssignmentProblem(cost, *problem[3:5], problem.unmatched_cost)
    return METHODS["auto"](dense, maximize=False)


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
    price = tangents.unmatched_cost
    if price is None or is_constant(price):
        return dot
    rows = True if problem.row_mask is None else problem.row_mask
    left = solved & (res.col4row < 0) & rows
    return dot + jnp.where(left, price, 0).sum().astype(dot.dtype)


@compiled(static_argnames=("metric",))
def check_near(problem: NearProblem, result: Assignment, *, metric: str) -> AssignmentCheck:
    """As documented in `check_assignment_points`."""

    def rows_of(points: tuple[Array, ...], first: Array, count: int) -> Array:
        return _gated(problem, lax.dynamic_slice_in_dim(points[0], first, count), metric)

    problem = lax.stop_gradient(problem)
    return check_shards(
        rows_of,
        (problem.x,),
        (PartitionSpec(),),
        (problem.row_mask, problem.col_mask),
        result,
        sides=(len(problem.x), len(problem.y)),
        dtype=problem.x.dtype,
        partition=Partition(None, True, None),
        maximize=False,
        unmatched_cost=problem.unmatched_cost,
    )
