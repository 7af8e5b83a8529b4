"""Assignment with capacities: the public function and the gradient rule."""

from __future__ import annotations

from functools import partial
from typing import Any, overload

import numpy as np

from jaxmatch._assignment.capacity import by_transport, with_dummies
from jaxmatch._assignment.capacity_limited import by_limited_transport
from jaxmatch._assignment.capacity_problem import (
    CapacityProblem,
    as_capacities,
    as_capacity_problem,
)
from jaxmatch._assignment.native_capacities import capacities as native
from jaxmatch._common.arguments import check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, envelope_value
from jaxmatch._common.place import place_of
from jaxmatch._common.result import Assignment, CapacitatedAssignment, Transport
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import ArrayLike
from jaxmatch._ffi.repeated import repeated
from jaxmatch._transport.limited import flows_in_jax, flows_on_host
from jaxmatch._transport.native import transport
from jaxmatch._transport.problem import TransportProblem
from jaxmatch._transport.solve import METHODS, value_jvp


WarmStart = Assignment | CapacitatedAssignment | Transport | ArrayLike


@overload
def solve_capacitated_assignment(
    cost: ArrayLike,
    *,
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: None = None,
    limit: ArrayLike | None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    warm_start: WarmStart | None = None,
    method: str = "auto",
) -> CapacitatedAssignment: ...
@overload
def solve_capacitated_assignment(
    cost: ArrayLike,
    *,
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: ArrayLike,
    limit: ArrayLike | None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    warm_start: WarmStart | None = None,
    method: str = "auto",
) -> Transport: ...
@repeated(col_minimum="col_capacity")
@unchecked
def solve_capacitated_assignment(
    cost: ArrayLike,
    *,
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
    row_capacity: ArrayLike | None = None,
    limit: ArrayLike | None = None,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    warm_start: WarmStart | None = None,
    method: str = "auto",
) -> CapacitatedAssignment | Transport:
    """Solve dense assignment problems exactly, with columns or rows that match several times.

    Of rows and columns, the side with the lesser total capacity is matched in full, at the least
    total cost. Leading dimensions are batch, solved by one native call.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jm.solve_capacitated_assignment(cost, col_capacity=2)  # up to two rows a column
    >>> res.col4row, res.col_count, res.cost
    (Array([1, 1, 2], dtype=int32), Array([0, 2, 1], dtype=int32), Array(3., dtype=float32))
    >>> jm.solve_capacitated_assignment(cost, row_capacity=2, col_capacity=[1, 1, 3]).todense()
    Array([[0, 0, 1],
           [1, 1, 0],
           [0, 0, 2]], dtype=int32)
    >>> # Two different columns of each row, as reviewers of papers.
    >>> jm.solve_capacitated_assignment(cost, row_capacity=2, col_capacity=3, limit=1).todense()
    Array([[0, 1, 1],
           [1, 1, 0],
           [0, 1, 1]], dtype=int32)

    **Arguments:**

    - `cost`: `[..., n, m]`, bfloat16 to float64, int32 or int64. +inf forbids a pair.
    - `col_capacity`, `row_capacity`: integers, broadcast to `[..., m]` and `[..., n]`: how often a
      column or row may be matched; the default is 1. A pair may be used several times.
    - `limit`: integers, `[..., n, m]` or fewer: the [most uses of each pair][transport-limits].
    - `col_minimum`: integers, broadcast to `[..., m]`: how often a column must be matched.
    - `maximize`, `row_mask`, `col_mask`, `warm_start`: as in `solve_assignment`.
    - `unmatched_cost`: broadcasts to `[..., n]`, the cost of each unit of a row that stays
      unmatched. Columns may then stay unmatched, too. With integer costs it must be an integer.
    - `unmatched_col_cost`: broadcasts to `[..., m]`, the cost of each unit of a column that stays
      unmatched, only together with `unmatched_cost`; 0 by default.
    - `method`: `"auto"`, `"network_simplex"` or `"xla"`, see [Methods][transport-methods].

    **Returns:** a [`CapacitatedAssignment`][jaxmatch.CapacitatedAssignment], or with `row_capacity`
    a [`Transport`][jaxmatch.Transport], whose `mass` says how often each pair is used.
    `check_capacitated_assignment` verifies either.

    **Status:** see [`CapacitatedAssignment`][jaxmatch.CapacitatedAssignment].

    **Gradient:** of `res.cost`; see [`CapacitatedAssignment`][jaxmatch.CapacitatedAssignment].

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    check_name("method", method, METHODS)
    cost = as_given("cost", cost)
    capacities = as_capacities(
        row_capacity=row_capacity, col_capacity=col_capacity, col_minimum=col_minimum
    )
    duals: Any = getattr(warm_start, "col_dual", warm_start)
    others = all_given(
        row_mask=row_mask,
        col_mask=col_mask,
        unmatched_cost=unmatched_cost,
        warm_start=duals,
        unmatched_col_cost=unmatched_col_cost,
    )
    limit = as_capacities(limit=limit)[0]
    maximize, as_plan = bool(maximize), row_capacity is not None
    options = ("capacities", maximize, method, as_plan)
    given = (cost, *capacities, *others, limit)
    place = place_of(*given, options=options, native=method != "xla")
    with place.precision():
        *others, of_cols = others
        problem = as_capacity_problem(
            cost, *capacities, *others, unmatched_col_cost=of_cols, limit=limit, place=place
        )
        if place.native and limit is not None:
            flows = flows_on_host(method, wide=place.numpy)
            res = by_limited_transport(flows, problem, as_plan=as_plan, maximize=maximize)
        elif place.native and of_cols is not None:
            res = solve_on_host(problem, as_plan=as_plan, maximize=maximize)
        elif place.native:
            given = (row_capacity, col_capacity, col_minimum)
            res = native(problem, given, as_plan=as_plan, maximize=maximize)
        else:
            res = solve_compiled(problem, maximize=maximize, method=method, as_plan=as_plan)
        return place.bring_home(res)


def solve_on_host(
    problem: CapacityProblem, *, maximize: bool, as_plan: bool
) -> CapacitatedAssignment | Transport:
    """Solves NumPy arrays on this host by the native solver of transport."""
    solve = partial(transport, maximize=maximize, platform="cpu")
    dense = partial(with_dummies, maximize=maximize)
    with np.errstate(all="ignore"):
        return by_transport(solve, dense, problem, as_plan=as_plan)


@compiled(static_argnames=("maximize", "method", "as_plan"))
def solve_compiled(
    problem: CapacityProblem, *, maximize: bool, method: str, as_plan: bool
) -> CapacitatedAssignment | Transport:
    def balanced(problem: TransportProblem) -> Transport:
        res = apart(METHODS[method])(problem, maximize=maximize)
        return res.replace(cost=envelope_value(res.cost, problem, res, value_jvp))

    def solve(problem: CapacityProblem) -> CapacitatedAssignment | Transport:
        if problem.limit is not None:
            flows = flows_in_jax(method)
            return by_limited_transport(flows, problem, as_plan=as_plan, maximize=maximize)
        dense = partial(with_dummies, maximize=maximize)
        return by_transport(balanced, dense, problem, as_plan=as_plan)

    return over_batch_shards(solve, problem, core_dims=2)
