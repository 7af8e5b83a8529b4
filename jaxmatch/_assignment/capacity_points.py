"""Assignments between points with capacities: transport problems whose costs are not stored."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.capacity import (
    Units,
    by_transport,
    interleaved,
    units_moved,
)
from jaxmatch._assignment.capacity_check import as_claim, check_pairs
from jaxmatch._assignment.capacity_problem import CapacityProblem, as_capacities, check_minimum
from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._common.cost_arguments import as_mask, broadcast
from jaxmatch._common.result import CapacitatedAssignment, Transport
from jaxmatch._common.switches import compiled
from jaxmatch._common.typing import Array, ArrayLike, Bool, Float
from jaxmatch._transport.check import existing
from jaxmatch._transport.check_costs import PointCosts
from jaxmatch._transport.point_problem import PointProblem, with_point_dummies
from jaxmatch._transport.points import balanced


Capacities = tuple[ArrayLike | None, ArrayLike | None, ArrayLike | None]


def as_problem(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    capacities: Capacities,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
) -> CapacityProblem:
    names = ("row_capacity", "col_capacity", "col_minimum")
    given = as_capacities(**dict(zip(names, capacities, strict=True)))

    def expand(k: int, size: int) -> Array:
        each = jnp.asarray(np.int32(1) if given[k] is None else given[k])
        return broadcast(names[k], each, (size,), jnp)

    n, m = len(x), len(y)
    problem = PointProblem(
        x,
        y,
        expand(0, n),
        expand(1, m),
        as_mask("row_mask", row_mask, (n,)),
        as_mask("col_mask", col_mask, (m,)),
    )
    least = None if given[2] is None else expand(2, m)
    check_minimum(given[1], given[2])
    return CapacityProblem(problem, least)


def solve_points_with_capacities(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    capacities: Capacities,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    *,
    metric: str,
    maximize: bool,
    method: str,
) -> CapacitatedAssignment | Transport:
    """As documented in `solve_assignment_points`, for points as the solvers take them."""
    problem = as_problem(x, y, capacities, row_mask, col_mask)
    as_plan = capacities[0] is not None
    return _solve(problem, metric=metric, maximize=maximize, method=method, as_plan=as_plan)


@compiled(static_argnames=("metric", "maximize", "method", "as_plan"))
def _solve(
    problem: CapacityProblem, *, metric: str, maximize: bool, method: str, as_plan: bool
) -> CapacitatedAssignment | Transport:
    solve = partial(balanced, metric=metric, maximize=maximize, method=method)
    return by_transport(solve, partial(_with_dummies, maximize=maximize), problem, as_plan=as_plan)


def _with_dummies(
    problem: CapacityProblem, units: Units, *, maximize: bool, xp: Any = jnp
) -> tuple[PointProblem, Bool[Array, ""]]:
    """The balanced problem; and that its costs fit their dtype."""
    points = problem.transport
    assert isinstance(points, PointProblem)
    cols, last_row = units.cols, jnp.zeros_like(points.y, shape=points.demand.shape)
    y, col_mask = points.y, points.col_mask
    if units.least is not None:
        never = jnp.full_like(last_row, -jnp.inf if maximize else jnp.inf)
        last_row = interleaved(never, last_row, xp)
        cols = interleaved(units.least, units.cols - units.least, xp)
        y = jnp.repeat(y, 2, -2)
        col_mask = None if col_mask is None else jnp.repeat(col_mask, 2, -1)
    last_row = jnp.concatenate([last_row, jnp.zeros_like(last_row, shape=(1,))])
    moved = units_moved(problem, units, xp)
    own = points._replace(y=y, supply=units.rows, demand=cols, col_mask=col_mask)
    return with_point_dummies(own, last_row, None, moved), jnp.zeros_like(moved, bool)


def check_points_with_capacities(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    result: Any,
    capacities: Capacities,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    *,
    metric: str,
    maximize: bool,
) -> AssignmentCheck:
    """As documented in `check_assignment_points`, for points as the solvers take them."""
    problem = as_problem(x, y, capacities, row_mask, col_mask)
    claim = as_claim(result, problem, as_plan=capacities[0] is not None)
    return _check(*lax.stop_gradient((problem, claim)), metric=metric, maximize=maximize)


@compiled(static_argnames=("metric", "maximize"))
def _check(problem: CapacityProblem, claim: Any, *, metric: str, maximize: bool) -> AssignmentCheck:
    points = problem.transport
    assert isinstance(points, PointProblem)
    costs = PointCosts(points.x, points.y, *existing(points), maximize, metric, 1)
    return check_pairs(costs, problem, claim, maximize=maximize)
