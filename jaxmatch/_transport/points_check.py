"""`check_transport_points`: verifies a plan between points, without a cost matrix."""

from __future__ import annotations

import math
from functools import partial as bind

from jaxmatch._common.distances import Metric
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import current_place, in_full_precision
from jaxmatch._common.proof import constant, over_problems
from jaxmatch._common.result import Transport
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import is_symbolic
from jaxmatch._common.typing import Array, ArrayLike
from jaxmatch._transport.check import as_claim
from jaxmatch._transport.check_costs import PointCosts
from jaxmatch._transport.check_plan import TransportCheck, check_plan, existing
from jaxmatch._transport.point_problem import PointProblem, as_point_problem
from jaxmatch._transport.points import ARGUMENTS


_MANY = 1 << 10  # the assumed number of problems if the batch size is symbolic


@unchecked
@in_full_precision("x", *ARGUMENTS, on_host=True)
def check_transport_points(
    x: ArrayLike,
    y: ArrayLike,
    supply: ArrayLike,
    demand: ArrayLike,
    result: Transport,
    *,
    metric: Metric = "sqeuclidean",
    maximize: bool = False,
    partial: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
) -> TransportCheck:
    """Verify a result of [`solve_transport_points`][jaxmatch.solve_transport_points].

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> x, y = jnp.array([[0.0, 0.0], [4.0, 0.0]]), jnp.array([[1.0, 0.0], [5.0, 0.0]])
    >>> supply, demand = jnp.array([3, 1]), jnp.array([2, 2])
    >>> res = jm.solve_transport_points(x, y, supply, demand)
    >>> check = jm.check_transport_points(x, y, supply, demand, res)
    >>> bool(check.valid), bool(check.optimal)
    (True, True)

    **Arguments:**

    - `x` to `col_mask`: as they were passed to the solver.
    - `result`: the solver's result, read as by [`check_transport`][jaxmatch.check_transport].

    **Returns:** a [`TransportCheck`][jaxmatch.TransportCheck] with the same bound as
    `check_transport`. Distances are computed anew and rounded to the dtype of the points. The
    computation is in float64 with `jax_enable_x64`, for 64-bit NumPy arrays, and outside of a trace
    on one CPU device; elsewhere it is in float32. Distances may differ from those of the solver by
    a few roundings. The gap then grows by these roundings for each unit of mass, and `optimal`
    allows for that.

    **Time and memory:** one pass over all pairs, in blocks of 4 million pairs (under an outer
    `vmap`, 4 million of each problem). Besides these blocks, O((n + m)·d) memory.

    **Raises:** as the solver, and `ValueError` for results of other shapes.
    """
    place, masses, masks = current_place(), (supply, demand), (row_mask, col_mask)
    problem, unmatched = as_point_problem(
        x, y, metric, masses, masks, partial, unmatched_cost, place=place
    )
    result = as_claim(result, problem, "`x`, `y`", place)
    given = constant((problem, unmatched, result))
    check = _check_batch if place.native else _check
    return check(*given, metric=metric, maximize=bool(maximize))


@compiled(static_argnames=("metric", "maximize"))
def _check(
    problem: PointProblem,
    unmatched_cost: Array | None,
    result: Transport,
    *,
    metric: str,
    maximize: bool,
) -> TransportCheck:
    check = apart(bind(_check_batch, metric=metric, maximize=maximize))
    return over_batch_shards(check, problem, unmatched_cost, result, core_dims=2)


def _check_batch(
    problem: PointProblem,
    unmatched_cost: Array | None,
    result: Transport,
    *,
    metric: str,
    maximize: bool,
) -> TransportCheck:
    batch = problem.x.shape[:-2]
    problems = _MANY if is_symbolic(batch) else math.prod(batch)
    one = bind(_check_one, metric=metric, maximize=maximize, problems=problems)
    return over_problems(one, batch, problem, unmatched_cost, result)


def _check_one(
    problem: PointProblem,
    unmatched_cost: Array | None,
    result: Transport,
    *,
    metric: str,
    maximize: bool,
    problems: int,
) -> TransportCheck:
    rows, cols = existing(problem)
    costs = PointCosts(problem.x, problem.y, rows, cols, maximize, metric, problems)
    return check_plan(costs, problem, unmatched_cost, result, maximize=maximize)
