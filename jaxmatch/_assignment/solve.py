"""Dense assignment: the public functions, the choice of a method, and the gradient rule."""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import jax
import jax.core
import jax.numpy as jnp

from jaxmatch._assignment import native_large
from jaxmatch._assignment.both_sides import solve_both_sides
from jaxmatch._assignment.maximum import is_maximum, solve_maximum
from jaxmatch._assignment.methods import (
    HERE,
    METHODS,
    UNSIZED,
    check_goes_with_limit,
    method_with_limit,
)
from jaxmatch._assignment.one_matrix import pairs_of_matrix
from jaxmatch._assignment.problem import AssignmentProblem, as_int32, as_problem
from jaxmatch._assignment.sharded import solve_sharded
from jaxmatch._assignment.stepping import Progress
from jaxmatch._common.arguments import as_count, as_seconds, check_name
from jaxmatch._common.cost_arguments import as_cost
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import apart, envelope_value, is_constant, sum_where
from jaxmatch._common.place import place_of
from jaxmatch._common.result import Assignment, first_failure
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import is_at_most
from jaxmatch._common.typing import Array, ArrayLike, Float, Int
from jaxmatch._ffi.repeated import repeated
from jaxmatch._matching.solve import solve_by_platform, solve_on_host


@repeated()
@unchecked
def solve_assignment(
    cost: ArrayLike,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    unmatched_col_cost: ArrayLike | None = None,
    cardinality: Literal["full", "maximum"] = "full",
    warm_start: Assignment | ArrayLike | None = None,
    method: str = "auto",
    steps_per_call: int | None = None,
    progress: Progress | None = None,
    time_limit: float | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
) -> Assignment:
    """Solve dense linear assignment problems exactly, inside or outside of `jax.jit`.

    Finds pairs (i, j) of least total cost that match all of the smaller side. Each row and each
    column is in at most one pair. Leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jax.jit(jm.solve_assignment)(cost)
    >>> res.col4row, res.cost, int(res.status) == jm.Status.OPTIMAL
    (Array([1, 0, 2], dtype=int32), Array(5., dtype=float32), True)
    >>> jax.grad(lambda c: jm.solve_assignment(c).cost)(cost)[0]
    Array([0., 1., 0.], dtype=float32)

    **Arguments:**

    - `cost`: `[..., n, m]`, bfloat16 to float64, int32 or int64. +inf forbids a pair.
    - `maximize`: find the greatest total. Then −inf forbids a pair, and the inequalities of duals
      are reversed.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`. False: the row or column
      does not exist. Masks allow different sizes in a batch.
    - `unmatched_cost`: broadcasts to `[..., n]`, the cost of leaving a row unmatched. Columns may
      then stay unmatched, at no cost. +inf: the row must be matched.
    - `unmatched_col_cost`: broadcasts to `[..., m]`, the same for columns, only with the former.
    - `cardinality`: `"maximum"` finds the cheapest of the assignments with most pairs, where
      forbidden pairs allow no complete one. These two limit [other options][assignment-methods].
    - `warm_start`: an earlier result, or column duals `[..., m]`, to start the search from.
    - `method`: `"auto"`, or a name of [Methods][assignment-methods].
    - `steps_per_call`, `progress`: for one large problem, the steps in each native call, and a
      function of (matched rows, rows to match) that runs after each; see `jaxmatch.stepping`.
    - `time_limit`: for one large problem, a number of seconds, after which the pairs found so far
      are completed, with a proved gap; see [A limit of time][time-limit].
    - `row_axis`, `col_axis`: the mesh axis over which the rows or columns of one problem are
      sharded, see [One problem on several devices][sharded-costs].

    **Returns:** an [`Assignment`][jaxmatch.Assignment], verified by `check_assignment`.

    **Status:** `OPTIMAL`, `TIME_LIMIT`, `INFEASIBLE`, `INVALID_COST`, `OVERFLOW`; see [statuses][].

    **Gradient:** of `res.cost`: the permutation matrix for `cost`, and 1 for the unmatched cost of
    each row and column left unmatched.

    **Raises:** `ValueError` for shapes that do not fit and options that exclude each other,
    `TypeError` for other dtypes.

    **Source:** Jonker and Volgenant, Computing 38 (1987); others: [Papers][papers-assignment].
    """
    in_calls: dict[str, Any] = {
        "steps_per_call": steps_per_call,
        "progress": progress,
        "time_limit": time_limit,
    }
    axes = {"row_axis": row_axis, "col_axis": col_axis}
    staying = {"unmatched_cost": unmatched_cost, "unmatched_col_cost": unmatched_col_cost}
    maximum = is_maximum(cardinality, method, {**staying, **in_calls, **axes})
    if unmatched_col_cost is not None:
        return solve_both_sides(
            cost,
            maximize=bool(maximize),
            method=method,
            duals=getattr(warm_start, "col_dual", warm_start),
            unsupported={**in_calls, **axes},
            row_mask=row_mask,
            col_mask=col_mask,
            **staying,
        )
    if row_axis is not None or col_axis is not None:
        cost = as_cost(cost, symbolic=False)
        unsupported = {"unmatched_cost": unmatched_cost, "warm_start": warm_start, **in_calls}
        return solve_sharded(
            cost,
            row_mask,
            col_mask,
            row_axis,
            col_axis,
            maximize=bool(maximize),
            method=method,
            unsupported=unsupported,
        )
    check_name("method", method, METHODS)
    if steps_per_call is not None:
        steps_per_call = as_count("steps_per_call", steps_per_call)
    if progress is not None and not callable(progress):
        raise TypeError(
            f"`progress` must be a function of (matched rows, rows), got {type(progress).__name__}."
        )
    in_steps = steps_per_call is not None or progress is not None
    if in_steps and method not in native_large.LARGE_METHODS:
        raise ValueError(
            "`steps_per_call` and `progress` belong to the methods that work in steps, "
            f"{[*native_large.LARGE_METHODS]}; got method={method!r}."
        )
    if time_limit is not None:
        time_limit = as_seconds("time_limit", time_limit)
        method = method_with_limit(method, in_steps)
    cost = as_given("cost", cost)
    duals: Any = getattr(warm_start, "col_dual", warm_start)
    row_mask, col_mask, unmatched_cost, duals = all_given(
        row_mask=row_mask,
        col_mask=col_mask,
        unmatched_cost=unmatched_cost,
        warm_start=duals,
    )
    arrays = (cost, row_mask, col_mask, unmatched_cost, duals)
    maximize = bool(maximize)
    native = method in HERE and not in_steps
    place = place_of(*arrays, options=(maximize, method, maximum), native=native)
    with place.precision():
        problem = as_problem(*arrays, place=place, symbolic=method in UNSIZED)
        if place.x64 and (not place.native or method in native_large.LARGE_METHODS):
            problem = problem._replace(cost=as_int32(problem.cost))
        if time_limit is not None:
            check_goes_with_limit(problem.cost, problem.unmatched_cost)
        if place.native:
            limit = {} if time_limit is None else {"time_limit": time_limit}
            solve = partial(HERE[method], maximize=maximize, **limit)
            if maximum:
                solve = partial(solve_maximum, solve, solve_on_host, maximize=maximize)
            return place.bring_home(solve(problem))
        res = _solve(
            problem,
            maximize=maximize,
            maximum=maximum,
            method=method,
            steps_per_call=steps_per_call,
            progress=progress,
            time_limit=time_limit,
        )
        return place.bring_home(res)


@unchecked
def linear_sum_assignment(
    cost_matrix: ArrayLike, maximize: bool = False
) -> tuple[Int[Array, "... k"], Int[Array, "... k"]]:
    """A drop-in replacement for `scipy.optimize.linear_sum_assignment` and `optax.assignment`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
    >>> row_ind, col_ind = jm.linear_sum_assignment(cost)
    >>> col_ind, cost[row_ind, col_ind].sum()
    (Array([1, 0, 2], dtype=int32), Array(5, dtype=int32))

    **Arguments:**

    - `cost_matrix`: `[..., n, m]`, leading dimensions are batch. +inf forbids a pair (−inf when
      maximising).
    - `maximize`: find the greatest total instead.

    **Returns:**

    `(row_ind, col_ind)`, each `i32[..., min(n, m)]`, with rows in increasing order. They are NumPy
    arrays if the input is a NumPy array or a list and the CPU solves it, else JAX arrays. NumPy's
    float64 is solved without rounding. But JAX rounds float64 arguments of `jit` and `vmap` to
    float32, unless `jax_enable_x64` is set.

    **Raises:** outside of a trace, `ValueError` as in scipy: for NaN, an infinity of the wrong
    sign, and infeasible input. Inside `jit` or `vmap` nothing can be raised, so the indices of such
    a problem are −1. [`solve_assignment`][jaxmatch.solve_assignment] also returns status and duals
    and takes masks. Its documentation covers gradient, cost and exactness.
    """
    pairs = pairs_of_matrix(cost_matrix, bool(maximize), _pairs_in_trace)
    if pairs is not None:
        return pairs
    cost_matrix = as_given("cost_matrix", cost_matrix)
    place = place_of(cost_matrix, options=(bool(maximize), "sorted"))
    with place.precision():
        problem = as_problem(cost_matrix, place=place, name="cost_matrix")
        if place.native:
            res = HERE["auto"](problem, maximize=bool(maximize))
        else:
            res = _solve(problem, maximize=bool(maximize), method="auto")
    if not isinstance(res.status, jax.core.Tracer):
        if (failed := first_failure(res.status)) is not None:
            status, where = failed
            raise ValueError(f"{_SCIPY_SAYS[status]}{where}. {status.advice}")
    return place.bring_home(_sorted_pairs(res, place.xp))


@compiled(static_argnames="maximize")
def _pairs_in_trace(cost: Array, maximize: bool) -> tuple[Array, Array]:
    return linear_sum_assignment(cost, maximize)


def _sorted_pairs(res: Assignment, xp: Any) -> tuple[Array, Array]:
    """The matched rows in increasing order, and their columns."""
    n, m = res.col4row.shape[-1], res.row4col.shape[-1]
    if is_at_most("cost_matrix", n, m):
        row_ind = xp.arange(n, dtype=xp.int32)
        if not res.col4row.ndim == 1:
            row_ind = xp.broadcast_to(row_ind, res.col4row.shape)
        return xp.where(res.col4row < 0, -1, row_ind), res.col4row
    col_ind = xp.argsort(res.row4col, axis=-1).astype(xp.int32)
    row_ind = xp.take_along_axis(res.row4col, col_ind, axis=-1)
    return row_ind, xp.where(row_ind < 0, -1, col_ind)


_SCIPY_SAYS = {
    Status.INFEASIBLE: "cost matrix is infeasible",
    Status.INVALID_COST: "matrix contains invalid numeric entries",
    Status.OVERFLOW: "cost matrix is too large for exact 64-bit sums",
    Status.INTERRUPTED: "the solve was interrupted",
}


# ---------------------------------------------------------------------------------------------
# Solving


@compiled(
    static_argnames=("maximize", "maximum", "method", "steps_per_call", "progress", "time_limit")
)
def _solve(
    problem: AssignmentProblem,
    *,
    maximize: bool,
    method: str,
    maximum: bool = False,
    steps_per_call: int | None = None,
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> Assignment:
    solver = METHODS[method]
    if time_limit is not None:
        solver = partial(solver, time_limit=time_limit)
    if steps_per_call is not None or progress is not None:
        solver = partial(solver, steps=steps_per_call or 1, progress=progress)

    solver = partial(solver, maximize=maximize)
    if maximum:
        match = partial(solve_by_platform, start=None, method=method)
        solver = partial(solve_maximum, solver, match, maximize=maximize)

    def solve(problem: AssignmentProblem) -> Assignment:
        res = apart(solver)(problem)
        return res.replace(cost=envelope_value(res.cost, problem, res, _value_jvp))

    return over_batch_shards(solve, problem, core_dims=2)


def _value_jvp(
    problem: AssignmentProblem, tangents: AssignmentProblem, res: Assignment
) -> Float[Array, "..."]:
    solved, matched = (res.status == Status.OPTIMAL)[..., None], res.col4row >= 0
    dot = jnp.zeros_like(res.cost)
    if not is_constant(tangents.cost) and problem.cost.shape[-1]:
        at = jnp.maximum(res.col4row, 0)[..., None]
        of_pairs = jnp.take_along_axis(tangents.cost, at, axis=-1)[..., 0]
        dot += sum_where(solved & matched, of_pairs.astype(dot.dtype))
    if tangents.unmatched_cost is not None and not is_constant(tangents.unmatched_cost):
        alone = solved & ~matched
        if problem.row_mask is not None:
            alone &= problem.row_mask
        dot += sum_where(alone, tangents.unmatched_cost.astype(dot.dtype))
    return dot
