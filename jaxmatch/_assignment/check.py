"""Proofs that a result is optimal, checked without trusting the solver that returned it.

Nothing is shared with a solver: a mistake would have to be made twice.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jax import lax

from jaxmatch._assignment.certificate import AssignmentCheck, Claim, look_at_costs
from jaxmatch._assignment.problem import AssignmentProblem, as_cost, as_problem
from jaxmatch._assignment.sharded_check import check_divided
from jaxmatch._common.arguments import as_assignment
from jaxmatch._common.result import Assignment
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._ffi.place import in_full_precision


if TYPE_CHECKING:
    from jax.typing import ArrayLike


@unchecked
@in_full_precision("cost", "row_mask", "col_mask", "unmatched_cost")
def check_assignment(
    cost: ArrayLike,
    result: Assignment,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
) -> AssignmentCheck:
    r"""Verify a result of [`solve_assignment`][jaxmatch.solve_assignment], in jit or out of it.

    Costs one pass over `cost` and trusts nobody: `result` may come from any solver.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jm.solve_assignment(cost)
    >>> check = jm.check_assignment(cost, res)
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, True, 0.0)
    >>> other = res.replace(col4row=jnp.array([0, 1, 2]), row4col=jnp.array([0, 1, 2]))
    >>> check = jm.check_assignment(cost, other)  # an assignment too, which costs 6 and not 5
    >>> bool(check.valid), bool(check.optimal), float(check.gap)
    (True, False, 1.0)

    **Arguments:**

    - `cost`, `maximize`, `row_mask`, `col_mask`, `unmatched_cost`, `row_axis`, `col_axis`: as they
      were passed to the solver. Divided costs are looked at where they are, by blocks of rows.
    - `result`: what it returned. The proof takes `col4row` and `col_dual`, and compares `row4col`
      with them; `cost`, `row_dual`, `gap` and `status` are not looked at.

    **Returns:**

    An [`AssignmentCheck`][jaxmatch.AssignmentCheck]. A result is proved optimal where `optimal`,
    and proved good enough where `gap <= tolerance`: where costs have many digits, see below.

    - `valid`: `col4row` and `row4col` are one and the same matching, its pairs are neither masked
      nor forbidden, and whatever must be matched is: the smaller side, or with `unmatched_cost` the
      rows for which that is infinite. Nothing is said of what it costs.
    - `optimal`: `valid`, and `gap` is 0.
    - `gap`: float64 under `jax_enable_x64` and for NumPy's float64 and int64, else float32. It is
      what the column duals v prove: with v_j ≤ 0 enforced where the column may stay unmatched, u_i
      = min_j C_ij − v_j (at most r_i where the row may stay unmatched) is feasible by construction,
      so Σu + Σv is no more than the optimum. +inf where `valid` is false, where an unmasked cost is
      NaN or infinite on the wrong side, where a dual is not finite, and where the difference of a
      cost and a dual or the sum of all slacks exceeds the range of the dtype.

    **Exact:** the bound holds for the numbers passed in. Differences are split into a float and
    its rounding error, both exact, and what must be rounded is rounded up: 0 means 0. Yet the duals
    of a result were rounded to its dtype. Where the exact ones do not fit, as in float32 with
    costs of many digits, the rounded ones prove a little less: the gap grows by up to one rounding
    of a dual per row and column, while `result.gap` comes from the solver's own, longer duals.
    In float64 both agree in all but extreme cases. XLA takes denormal numbers for zero.
    Where a cost or a dual is small enough to make one (non-zero and below 1e-30 in float32, 1e-290
    in float64), the gap is widened by what this may have hidden, at most 1e-36 (1e-305) per row and
    column. On a TPU float64 costs that are denormal themselves are read as zero.

    **Time and memory:** O(n·m) operations, and up to two temporary arrays of the size of `cost`,
    in the dtype of results, where XLA does not fuse them away.

    **Raises:** `ValueError` for shapes that do not fit, `TypeError` for other dtypes.
    """
    if row_axis is not None or col_axis is not None:
        if unmatched_cost is not None:
            raise ValueError("`unmatched_cost` does not go with divided costs; leave it out.")
        how = {"row_axis": row_axis, "col_axis": col_axis, "maximize": bool(maximize)}
        return check_divided(as_cost(cost), result, row_mask, col_mask, **how)
    problem = as_problem(cost, row_mask, col_mask, unmatched_cost)
    *batch, n, m = problem.cost.shape
    result = as_assignment(result, (*batch, n), (*batch, m), "`cost`")
    return _check(*lax.stop_gradient((problem, result)), maximize=bool(maximize))


@compiled(static_argnames="maximize")
def _check(problem: AssignmentProblem, result: Assignment, *, maximize: bool) -> AssignmentCheck:
    check = partial(_check_batch, maximize=maximize)
    return over_batch_shards(check, problem, result, core_dims=2)


def _check_batch(
    problem: AssignmentProblem, result: Assignment, *, maximize: bool
) -> AssignmentCheck:
    cost, row_mask, col_mask, unmatched_cost, _ = problem
    col4row, row4col, col_dual = result.col4row, result.row4col, result.col_dual
    claim = Claim.of(cost.shape, row_mask, col_mask, unmatched_cost, col_dual, maximize, cost.dtype)
    seen = look_at_costs(cost, claim.rows, claim.cols, claim.v, col4row, maximize)
    return claim.judge(seen, col4row, row4col, col_dual)
