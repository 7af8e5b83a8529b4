"""`check_assignment`: verifies the certificate of an assignment.

It shares no code with the solvers, so that it does not repeat their errors.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment.capacity_check import Claim, check_claim
from jaxmatch._assignment.capacity_problem import as_capacity_problem
from jaxmatch._assignment.certificate import AssignmentCheck, DualBound, passes
from jaxmatch._assignment.maximum import is_maximum
from jaxmatch._assignment.maximum_check import check_maximum
from jaxmatch._assignment.problem import AssignmentProblem, as_problem
from jaxmatch._assignment.sharded_check import check_sharded
from jaxmatch._common.arguments import as_assignment
from jaxmatch._common.cost_arguments import as_cost
from jaxmatch._common.gradient import apart
from jaxmatch._common.place import Place, current_place, in_full_precision
from jaxmatch._common.proof import is_inverse
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.typing import ArrayLike


@unchecked
@in_full_precision(
    "cost", "row_mask", "col_mask", "unmatched_cost", "unmatched_col_cost", on_host=True
)
def check_assignment(
    cost: ArrayLike,
    result: Assignment,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    cardinality: Literal["full", "maximum"] = "full",
    row_axis: str | None = None,
    col_axis: str | None = None,
) -> AssignmentCheck:
    """Verify a result of [`solve_assignment`][jaxmatch.solve_assignment], in jit or out of it.

    Makes one pass over `cost`. `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jm.solve_assignment(cost)
    >>> check = jm.check_assignment(cost, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> other = res.replace(col4row=jnp.array([0, 1, 2]), row4col=jnp.array([0, 1, 2]))
    >>> check = jm.check_assignment(cost, other)  # also an assignment, of cost 6 instead of 5
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, False, 1.0)

    **Arguments:**

    - `cost`, `maximize`, masks, unmatched costs, `cardinality` and axes: as they were passed to the
      solver. Each device reads its own shard of the costs, in blocks of rows.
    - `result`: the solver's result. The check reads only `col4row`, `row4col` and `col_dual`.

    **Returns:** an [`AssignmentCheck`][jaxmatch.AssignmentCheck].

    - `valid`: `col4row` and `row4col` describe the same matching, its pairs are neither masked nor
      forbidden, and the matching is complete. Its cost does not matter, nor the number of pairs
      with `cardinality="maximum"`.
    - `optimal`: the assignment is `valid`, and `gap` is no larger than the rounding of costs and
      duals can explain, which proves it optimal; see [Checks][optimal].
    - `gap`: a bound on cost − optimum that the column duals prove, or +inf if they prove none, see
      [Checks][check-assignment].

    **Exact:** the bound holds for the numbers passed in. Differences are exact, and all other
    roundings are upwards, so a gap of 0 is exact.

    **Time and memory:** O(n·m) operations, and up to two temporary arrays of the size of `cost`, in
    the dtype of results, unless XLA fuses them away.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    axes = {"row_axis": row_axis, "col_axis": col_axis}
    unsupported = {"unmatched_cost": unmatched_cost, "unmatched_col_cost": unmatched_col_cost}
    maximum = is_maximum(cardinality, "auto", {**unsupported, **axes})
    if row_axis is not None or col_axis is not None:
        for name, x in unsupported.items():
            if x is not None:
                raise ValueError(f"`{name}` does not go with sharded costs; leave it out.")
        return check_sharded(
            as_cost(cost, symbolic=False),
            result,
            row_mask,
            col_mask,
            **axes,
            maximize=bool(maximize),
        )
    place = current_place()
    if unmatched_col_cost is not None:
        return _check_both_sides(
            cost,
            result,
            maximize=bool(maximize),
            place=place,
            row_mask=row_mask,
            col_mask=col_mask,
            unmatched_cost=unmatched_cost,
            unmatched_col_cost=unmatched_col_cost,
        )
    problem = as_problem(cost, row_mask, col_mask, unmatched_cost, place=place)
    *batch, n, m = problem.cost.shape
    result = as_assignment(result, (*batch, n), (*batch, m), "`cost`", place)
    options = {"maximize": bool(maximize), "maximum": maximum}
    if place.native:
        return _check_batch(problem, result, **options)
    return _check(*lax.stop_gradient((problem, result)), **options)


def _check_both_sides(
    cost: ArrayLike,
    result: Assignment,
    *,
    maximize: bool,
    place: Place,
    **given: ArrayLike | None,
) -> AssignmentCheck:
    """As capacities of one unit."""
    problem = as_capacity_problem(cost, None, None, None, **given, place=place)
    supply, demand = problem.transport.supply, problem.transport.demand
    result = as_assignment(result, supply.shape, demand.shape, "`cost`", place)
    xp, col4row, row4col = place.xp, result.col4row, result.row4col
    consistent = is_inverse(col4row, row4col) & is_inverse(row4col, col4row)
    rows = xp.broadcast_to(xp.arange(col4row.shape[-1], dtype=jnp.int32), col4row.shape)
    matched = (col4row != -1).astype(jnp.int32)
    claim = Claim(rows, col4row, matched, consistent, result.col_dual)
    return check_claim(problem, claim, maximize=maximize, place=place)


@compiled(static_argnames=("maximize", "maximum"))
def _check(
    problem: AssignmentProblem, result: Assignment, *, maximize: bool, maximum: bool
) -> AssignmentCheck:
    check = partial(_check_batch, maximize=maximize, maximum=maximum)
    return over_batch_shards(apart(check), problem, result, core_dims=2)


def _check_batch(
    problem: AssignmentProblem, result: Assignment, *, maximize: bool, maximum: bool
) -> AssignmentCheck:
    if maximum:
        full = partial(_check_batch, maximize=maximize, maximum=False)
        return check_maximum(full, problem, result, maximize=maximize)
    cost, row_mask, col_mask, unmatched_cost, _ = problem
    col4row, row4col, col_dual = result.col4row, result.row4col, result.col_dual
    bound = DualBound.of(
        cost.shape, row_mask, col_mask, unmatched_cost, col_dual, maximize, cost.dtype
    )

    reduce, blocks = passes(cost, bound, col4row, maximize)
    return bound.verify(reduce, col4row, row4col, col_dual, blocks)
