"""Assignments between points with capacities: transport problems whose costs are not stored."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment.capacity import (
    Units,
    by_transport,
    doubled,
    interleaved,
    units_moved,
)
from jaxmatch._assignment.capacity_check import as_claim, check_pairs
from jaxmatch._assignment.capacity_problem import CapacityProblem, as_capacities, check_minimum
from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._assignment.native_capacities import capacities as native
from jaxmatch._common.arguments import check_name
from jaxmatch._common.cost_arguments import as_mask, broadcast
from jaxmatch._common.distances import Metric, as_point_sets, directions
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.place import Place, current_place, in_full_precision, place_of
from jaxmatch._common.result import CapacitatedAssignment, Transport
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import Array, ArrayLike, Bool
from jaxmatch._ffi.repeated import repeated
from jaxmatch._transport.check_costs import PointCosts
from jaxmatch._transport.check_plan import existing
from jaxmatch._transport.point_problem import PointProblem, with_point_dummies
from jaxmatch._transport.points import balanced
from jaxmatch._transport.solve import METHODS


Capacities = tuple[Array | None, Array | None, Array | None]  # of rows, of columns; column minima


@overload
def solve_capacitated_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    *,
    metric: Metric = "sqeuclidean",
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
) -> CapacitatedAssignment: ...
@overload
def solve_capacitated_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    *,
    metric: Metric = "sqeuclidean",
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: ArrayLike,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
) -> Transport: ...
@repeated(col_minimum="col_capacity")
@unchecked
def solve_capacitated_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    *,
    metric: Metric = "sqeuclidean",
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: ArrayLike | None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    method: str = "auto",
) -> CapacitatedAssignment | Transport:
    """Solve one assignment problem with capacities between points, without a cost matrix.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jax.random.uniform(jax.random.key(0), (300, 2))
    >>> y = jax.random.uniform(jax.random.key(1), (10, 2))
    >>> res = jm.solve_capacitated_assignment_points(x, y, col_capacity=30)
    >>> int(res.col_count.max())
    30

    **Arguments:**

    - `x`, `y`, `metric`: as in [`solve_assignment_points`][jaxmatch.solve_assignment_points].
    - `col_capacity` to `col_mask`: as in `solve_capacitated_assignment`.
    - `method`: `"auto"`, `"network_simplex"` or `"xla"`, see [Methods][transport-methods].

    **Returns:** as [`solve_capacitated_assignment`][jaxmatch.solve_capacitated_assignment],
    verified by `check_capacitated_assignment_points`.

    **Gradient:** of `res.cost`, with respect to the points: the gradient of the sum of the matched
    distances.

    **Time and memory:** O((n + m)·d) memory on the CPU.

    **Raises:** `ValueError` for shapes that do not fit and unknown metrics or methods, `TypeError`
    for points that are not real.
    """
    check_name("method", method, METHODS)
    x = as_given("x", x)
    y, row_mask, col_mask = all_given(y=y, row_mask=row_mask, col_mask=col_mask)
    capacities = as_capacities(
        row_capacity=row_capacity, col_capacity=col_capacity, col_minimum=col_minimum
    )
    maximize, as_plan = bool(maximize), row_capacity is not None
    options = ("capacities of points", metric, maximize, method, as_plan)
    place = place_of(x, y, *capacities, row_mask, col_mask, options=options, native=method != "xla")
    with place.precision():
        problem = _as_problem(x, y, metric, capacities, row_mask, col_mask, place)
        if place.native:
            given = (row_capacity, col_capacity, col_minimum)
            res = native(problem, given, as_plan=as_plan, metric=metric, maximize=maximize)
        else:
            res = _solve(problem, metric=metric, maximize=maximize, method=method, as_plan=as_plan)
        return place.bring_home(res)


def _as_problem(
    x: ArrayLike,
    y: ArrayLike,
    metric: str,
    capacities: Capacities,
    row_mask: ArrayLike | None,
    col_mask: ArrayLike | None,
    place: Place,
) -> CapacityProblem:
    x, y = as_point_sets(x, y, metric, "solve_capacitated_assignment", place)
    if metric == "cosine":
        x, y = directions(x), directions(y)
    names, xp = ("row_capacity", "col_capacity", "col_minimum"), place.xp

    def expand(k: int, size: int) -> Array:
        each = xp.asarray(np.int32(1) if capacities[k] is None else capacities[k])
        return broadcast(names[k], each, (size,), xp)

    n, m = len(x), len(y)
    problem = PointProblem(
        x,
        y,
        expand(0, n),
        expand(1, m),
        as_mask("row_mask", row_mask, (n,), place),
        as_mask("col_mask", col_mask, (m,), place),
    )
    least = None if capacities[2] is None else expand(2, m)
    check_minimum(*capacities[1:])
    return CapacityProblem(problem, least)


@compiled(static_argnames=("metric", "maximize", "method", "as_plan"))
def _solve(
    problem: CapacityProblem, *, metric: str, maximize: bool, method: str, as_plan: bool
) -> CapacitatedAssignment | Transport:
    solve = partial(balanced, metric=metric, maximize=maximize, method=method)
    return by_transport(solve, partial(_with_dummies, maximize=maximize), problem, as_plan=as_plan)


def _with_dummies(
    problem: CapacityProblem, units: Units, *, maximize: bool
) -> tuple[PointProblem, Bool[Array, ""]]:
    """The balanced transport problem, and False: its costs are floats, which always fit."""
    points = problem.transport
    assert isinstance(points, PointProblem)
    cols, last_row = units.cols, jnp.zeros_like(points.y, shape=points.demand.shape)
    y, col_mask = points.y, points.col_mask
    if units.least is not None:
        never = jnp.full_like(last_row, -np.inf if maximize else np.inf)
        last_row = interleaved(never, last_row)
        cols = interleaved(units.least, units.cols - units.least)
        y = jnp.repeat(y, 2, -2)
        col_mask = None if col_mask is None else doubled(col_mask)
    last_row = jnp.concatenate([last_row, jnp.zeros_like(last_row, shape=(1,))])
    moved = units_moved(problem, units)
    own = points._replace(y=y, supply=units.rows, demand=cols, col_mask=col_mask)
    return with_point_dummies(own, last_row, None, moved), jnp.zeros_like(moved, bool)


@unchecked
@in_full_precision("x", "y", "row_mask", "col_mask", on_host=True)
def check_capacitated_assignment_points(
    x: ArrayLike,
    y: ArrayLike,
    result: CapacitatedAssignment | Transport,
    *,
    metric: Metric = "sqeuclidean",
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: ArrayLike | None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> AssignmentCheck:
    """Verify a result of `solve_capacitated_assignment_points`, in jit or out of it.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> x = jax.random.uniform(jax.random.key(0), (300, 2))
    >>> y = jax.random.uniform(jax.random.key(1), (10, 2))
    >>> res = jm.solve_capacitated_assignment_points(x, y, col_capacity=30)
    >>> bool(jm.check_capacitated_assignment_points(x, y, res, col_capacity=30).optimal)
    True

    **Arguments:**

    - `x` to `col_mask`: as they were passed to the solver.
    - `result`: the solver's result, read as by `check_capacitated_assignment`.

    **Returns:** an [`AssignmentCheck`][jaxmatch.AssignmentCheck]. Distances are computed anew, see
    [`check_assignment_points`][jaxmatch.check_assignment_points].

    **Raises:** as the solver, and `ValueError` for results of other shapes.
    """
    place = current_place()
    capacities = as_capacities(
        row_capacity=row_capacity, col_capacity=col_capacity, col_minimum=col_minimum
    )
    problem = _as_problem(x, y, metric, capacities, row_mask, col_mask, place)
    claim = as_claim(result, problem, as_plan=row_capacity is not None, place=place)
    if place.native:
        return _check_one(problem, claim, metric=metric, maximize=bool(maximize))
    return _check(*lax.stop_gradient((problem, claim)), metric=metric, maximize=bool(maximize))


@compiled(static_argnames=("metric", "maximize"))
def _check(problem: CapacityProblem, claim: Any, *, metric: str, maximize: bool) -> AssignmentCheck:
    return _check_one(problem, claim, metric=metric, maximize=maximize)


def _check_one(
    problem: CapacityProblem, claim: Any, *, metric: str, maximize: bool
) -> AssignmentCheck:
    points = problem.transport
    assert isinstance(points, PointProblem)
    costs = PointCosts(points.x, points.y, *existing(points), maximize, metric, 1)
    return check_pairs(costs, problem, claim, maximize=maximize)
