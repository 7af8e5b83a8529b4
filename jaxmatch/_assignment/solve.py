"""Dense assignment: the public functions, the choice of a method, and the gradient rule."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, overload

import jax
import jax.core
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment import native_large
from jaxmatch._assignment.capacity import solve_with_capacities
from jaxmatch._assignment.methods import HERE, METHODS, UNSIZED, method_with_limit
from jaxmatch._assignment.problem import AssignmentProblem, as_cost, as_int32, as_problem
from jaxmatch._assignment.sharded import solve_sharded
from jaxmatch._assignment.stepping import Progress
from jaxmatch._common.arguments import as_count, as_seconds, check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import envelope_value, is_constant, sum_where
from jaxmatch._common.result import Assignment, CapacitatedAssignment, Transport, first_failure
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._common.symbolic import is_at_most
from jaxmatch._ffi.place import place_of


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Float, Int

    from jaxmatch._assignment.capacity_problem import OfColumns, Options


@overload
def solve_assignment(cost: ArrayLike, **options: Unpack[Options]) -> Assignment: ...
@overload
def solve_assignment(cost: ArrayLike, **options: Unpack[OfColumns]) -> CapacitatedAssignment: ...
@overload
def solve_assignment(
    cost: ArrayLike, *, row_capacity: ArrayLike, **options: Unpack[OfColumns]
) -> Transport: ...
@unchecked
def solve_assignment(
    cost: ArrayLike,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    warm_start: Assignment | CapacitatedAssignment | Transport | ArrayLike | None = None,
    method: str = "auto",
    steps_per_call: int | None = None,
    progress: Progress | None = None,
    time_limit: float | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
    row_capacity: ArrayLike | None = None,
    col_capacity: ArrayLike | None = None,
    col_minimum: ArrayLike | None = None,
) -> Assignment | CapacitatedAssignment | Transport:
    r"""Solve dense linear assignment problems exactly, inside or outside of `jax.jit`.

    Finds pairs (i, j) of least total cost, with each row and each column in at most one pair. All
    of the smaller side is matched, unless `unmatched_cost` sets a cost for leaving a row unmatched.
    Leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jax.jit(jm.solve_assignment)(cost)
    >>> res.col4row, res.cost, int(res.status) == jm.Status.OPTIMAL
    (Array([1, 0, 2], dtype=int32), Array(5., dtype=float32), True)
    >>> jax.grad(lambda c: jm.solve_assignment(c).cost)(cost)
    Array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 1.]], dtype=float32)
    >>> res = jm.solve_assignment(cost, col_capacity=2)  # a column takes up to two rows
    >>> res.col4row, res.col_count
    (Array([1, 1, 2], dtype=int32), Array([0, 2, 1], dtype=int32))

    **Arguments:**

    - `cost`: `[..., n, m]` in bfloat16, float16, float32, float64, int32 or int64, read in place
      (bool and 8- and 16-bit integers are widened to int32). +inf forbids a pair (−inf when
      maximising).
    - `maximize`: find the greatest total instead; all inequalities below are reversed.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`, any pattern. False: the
      row or column does not exist. Its costs may be anything, even NaN, and take no time. Use masks
      for problems of different sizes in one batch.
    - `unmatched_cost`: a scalar or an array that broadcasts to `[..., n]`, the cost of leaving a
      row unmatched (a score when maximising). Columns may then stay unmatched too, at no cost.
      +inf (−inf when maximising): the row must be matched. With integer costs of 2^45 or more it
      must be an integer.
    - `warm_start`: an earlier result or any column duals `[..., m]`. The optimum stays the same,
      ties may be broken differently. Similar costs are solved 2 to 3.5 times faster if the problem
      is square (on CPU also if nearly square). With more columns than rows, with `unmatched_cost`
      and for non-finite duals a cold start is used. No gradient flows through it.
    - `method`: a name of this table. `"auto"` is `"jonker_volgenant"` on CPU. On CUDA:
      `"jonker_volgenant"` for batches with sides up to 4096 (2048 for int64); `"core"` for longer
      sides, and from 512 rows on for at most n²/200,000 problems, including those under `vmap`.
      Square problems below 1536 rows, and others of at most 1024 rows and columns, go to
      `"jonker_volgenant"` where the bids of `"core"` call for an auction.

      | `method` | algorithm | parallelism |
      | --- | --- | --- |
      | `"jonker_volgenant"` | shortest augmenting paths | CUDA: a warp or block per problem |
      | `"core"` | augmentation on a core of candidate pairs | the whole GPU, or all CPU threads |
      | `"auction"` | the same, after an auction | as `"core"` |
      | `"classical"`, `"tree"` | Hungarian algorithms of Date and Nagi | as `"core"` |
      | `"xla"` | the pure-JAX twin, for any platform | `vmap` |

      Where searches for paths would be long, as for point clouds that move far,
      `"jonker_volgenant"` and `"core"` start them from the prices of an auction with ε-scaling.
      `"jonker_volgenant"` does it on CPU from 64 unmasked rows on; on CUDA without `warm_start`,
      for arrays whose shorter side is at least 192 and at least half of the longer one.

      `"core"`, `"auction"`, `"classical"` and `"tree"` solve one problem at a time; by name they
      take no int64 and no `unmatched_cost`; they ignore a warm start. Sides that are too long for
      `"jonker_volgenant"` on CUDA are solved by `"core"`: with `unmatched_cost` on a copy of the
      costs with one column more for each row. What `"core"` does not take is solved as transport,
      as by [`solve_transport`][jaxmatch.solve_transport]: int64, sides of 2^18 or more, and with
      `unmatched_cost` more than three rows for each column. The twin is left with int64 costs of
      2^45 and more beside an `unmatched_cost` of floats. The side limit of 4096 is that of an H100;
      an A100 reaches about 3000 and other GPUs about 1900. A larger batch raises an error that says
      so; use `"core"` or `"xla"` then.
    - `steps_per_call`: for `"core"`, `"auction"`, `"classical"` and `"tree"`, the number of steps
      in each native call, in a `jax.lax.while_loop`. By default one call takes all steps.
      [`jaxmatch.stepping`][jaxmatch.stepping] defines a step, and takes single ones.
    - `progress`: a function of (matched rows, rows), called after each native call by
      `jax.debug.callback`. The default of `steps_per_call` is then 1.
    - `time_limit`: seconds for the whole call, a Python number. Then the status is `TIME_LIMIT`:
      the pairs found so far are completed, the duals are feasible, and `gap` bounds what the cost
      exceeds the optimum by. Where forbidden pairs leave rows without a column, cost and gap are
      infinite. For `"core"`, which is then also `"auto"`, `"auction"`, `"classical"` and `"tree"`;
      the twin has no limit. The call takes a few scans of the costs longer.
    - `row_axis`, `col_axis`: for one problem that is too large for a device: the mesh axis, of at
      most 32 devices, over which the rows or the columns of `cost` are sharded. Their number must
      be divisible by that of the devices; pad, and mask the padding. Sharding by rows is faster.

      The mesh is that of the array, or in a jitted function that of `jax.set_mesh`. Inside a
      `shard_map` over the axis, `cost` is the device's own shard, and masks are those of the whole
      problem. Costs are not moved if they are sharded as the axis says; otherwise JAX reshards
      them. On platforms without a native library the twin gathers them. Under `vmap` problems are
      solved one at a time. `"auto"` means `"core"`, which holds an auction here only if there are
      as many unmasked rows as columns. Batches, int64, `"jonker_volgenant"`, `"xla"`,
      `unmatched_cost`, `warm_start`, `steps_per_call`, `progress` and `time_limit` are not
      supported.

      All devices solve the same core. They gather O(n) numbers a few times, and the candidate sets
      of rows (1.5 KB each) when these change: for an auction often some hundred times. Other
      searches follow tight pairs (slack 0): up to 15 per row are gathered for each search, and for
      rows with more, the columns that each level reaches. Besides its shard a device needs O(n + m)
      memory, of which 80 bytes per row or column for each device. The result is the same on all
      devices. With `row_axis`, and no more unmasked rows than columns, it is bitwise equal to the
      single-device result, unless there is an auction, whose bids are not those of one device:
      after it, duals may differ, and ties may be broken differently.
    - `row_capacity`, `col_capacity`: integers that broadcast to `[..., n]` and `[..., m]`: a row is
      matched to up to so many columns, a column to up to so many rows; 1 by default. The lesser of
      the two totals is matched in full, unless `unmatched_cost` sets what each unit of a row costs
      that stays. If both exceed 1, a pair may be used more than once.
    - `col_minimum`: integers that broadcast to `[..., m]`: a column is matched to at least so many
      rows, or the status is `INFEASIBLE`. Give `col_capacity=n` for columns without upper bound.

      The result is then a [`CapacitatedAssignment`][jaxmatch.CapacitatedAssignment], whose
      docstring lists the differences, or with `row_capacity` a [`Transport`][jaxmatch.Transport],
      whose `mass` is the number of times that a pair is used. With integer costs `unmatched_cost`
      must be one, too. `method` is one of [`solve_transport`][jaxmatch.solve_transport];
      `steps_per_call`, `progress`, `time_limit`, `row_axis` and `col_axis` are not supported.

    **Returns:**

    An [`Assignment`][jaxmatch.Assignment]. Its numbers are float32, or float64 under
    `jax_enable_x64`, for any dtype of `cost`; indices and status are int32. For NumPy's float64 and
    int64 (as constants inside `jit`, too) they are float64 even without x64. On the CPU, outside of
    a trace, NumPy arguments give NumPy results, and nothing is traced or compiled.

    **Status:** `OPTIMAL`; `TIME_LIMIT` (see `time_limit`); `INFEASIBLE` if the smaller side, or a
    row with unmatched cost +inf, cannot be matched; `INVALID_COST` if an unmasked cost or an
    unmatched cost is NaN or infinite on the wrong side; `OVERFLOW` for integers if min(n, m)·max|C|
    ≥ 2^61 (unmatched costs are included in C, and min(n, m) is at least 1 here). No exception is
    raised: that problem has indices −1 and numbers NaN, and the rest of the batch is unaffected.
    Transport on CUDA (see `method`) is `OVERFLOW` if 2 (min(n, m) + 2)·max|C| exceeds 2^61.

    **Certificate:** for unmasked rows and columns u_i + v_j ≤ C_ij, with equality on matched pairs.
    A row that may stay unmatched has u_i ≤ r_i, with equality if it does; r_i is its unmatched
    cost, or 0 if there are more rows than columns. Likewise v_j ≤ 0 for columns that may stay
    unmatched. Σu + Σv is the optimum. [`check_assignment`][jaxmatch.check_assignment] verifies it.

    **Exact:** for the numbers passed in; for traced values, for what JAX makes of them: without x64
    it rounds float64 to float32. Integers are exact. Floating-point costs are solved in float64 (on
    CUDA in float32 where that provably does not round). `gap` is a proved bound on cost − optimum:
    0 if no rounding occurred, else a few roundings. The twin is exact for integers below 2^23/n
    (2^52/n under x64) and reads denormal numbers as zero.

    **Deterministic:** the same call gives the same bits, whatever the rest of the batch. Another
    platform may break ties differently.

    **Gradient:** the gradient of `res.cost`, forward and reverse, is the permutation matrix with
    respect to `cost`, and the indicator of unmatched rows with respect to `unmatched_cost`. Second
    derivatives are zero, and so are all gradients of a problem that is not `OPTIMAL`. If several
    assignments are optimal, this is one of several supergradients.

    **Time and memory:** O(n²m) operations at worst for n ≤ m, in practice a small multiple of n·m.
    Costs are read in place with O(n + m) extra memory. A problem with more rows than columns or
    with a column mask first copies its unmasked costs to a buffer of the same dtype; on CPU so does
    one of floats in which some costs are far above all others, as 1e9 in place of +inf. On CUDA a
    call allocates such a buffer, 4 or 8 bytes per cost, for tall problems, with masks and for
    16-bit costs, unless the problem is small. The time of a masked problem is that of its unmasked
    size.

    `"core"` reads the costs in place, usually less than three times in all, and needs 2 KB per row.
    It solves exactly a core of 128 candidates per row: the best 4 of every 32nd column. Rows whose
    price has risen so far that a column outside of their candidates might be better are priced
    against all costs, until no candidate set changes. If bids leave more than one in 13 rows free
    (one in 7 where integer costs span a smaller range than there are rows), or if this stalls, an
    auction with ε-scaling supplies prices and most pairs, which price refinement makes tight, and
    candidates are chosen anew. An auction reads each row 30 to 200 times. If the method stalls
    again, forests of shortest paths from all free rows read all costs. `"tree"` needs O(n + m)
    memory besides the costs, `"classical"` one bit per pair; both read all costs many times.

    **Raises:** `ValueError` for shapes that do not fit, unknown methods, problems that a named
    method does not take (int64, `unmatched_cost` or sides of 2^18 or more for large problems), and
    integers that JAX would truncate to 32 bits; `TypeError` for other dtypes, and a `progress` that
    is no function.

    **Source:** Jonker and Volgenant, *A shortest augmenting path algorithm for dense and sparse
    linear assignment problems*, Computing 38 (1987). `"core"`: Volgenant, *Linear and
    semi-assignment problems: a core oriented approach*, Computers & Operations Research 23 (1996).
    Auction: Bertsekas and Castañon, *Parallel synchronous and asynchronous implementations of the
    auction algorithm*, Parallel Computing 17 (1991). Price refinement: Goldberg, *An efficient
    implementation of a scaling minimum-cost flow algorithm*, Journal of Algorithms 22 (1997).
    `"classical"` and `"tree"`: Date and Nagi, *GPU-accelerated Hungarian algorithms for the linear
    assignment problem*, Parallel Computing 57 (2016).
    """
    capacities = (row_capacity, col_capacity, col_minimum)
    in_calls: dict[str, Any] = {
        "steps_per_call": steps_per_call,
        "progress": progress,
        "time_limit": time_limit,
    }
    if any(x is not None for x in capacities):
        return solve_with_capacities(
            cost,
            *capacities,
            *(row_mask, col_mask, unmatched_cost, warm_start),
            maximize=maximize,
            method=method,
            unsupported={**in_calls, "row_axis": row_axis, "col_axis": col_axis},
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
    place = place_of(*arrays, options=(maximize, method))
    if in_steps or method not in HERE:
        place = place.by_jax()
    with place.precision():
        problem = as_problem(*arrays, place=place, symbolic=method in UNSIZED)
        if place.x64 and (not place.native or method in native_large.LARGE_METHODS):
            problem = problem._replace(cost=as_int32(problem.cost))
        if place.native:
            limit = {} if time_limit is None else {"time_limit": time_limit}
            return place.bring_home(HERE[method](problem, maximize=maximize, **limit))
        res = _solve(
            problem,
            maximize=maximize,
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

    `(row_ind, col_ind)`, each `i32[..., min(n, m)]`, rows in increasing order: NumPy arrays for
    NumPy arrays and lists on the CPU, else JAX arrays. NumPy's float64 is solved as it is; as
    an argument of `jit` or `vmap` JAX rounds it to float32, unless `jax_enable_x64` is set.

    **Raises:** outside of a trace, `ValueError` as in scipy: for NaN, an infinity of the wrong
    sign, and infeasible input. Inside `jit` or `vmap` nothing can be raised: the indices of that
    problem are −1. [`solve_assignment`][jaxmatch.solve_assignment] gives the status,
    duals, masks and everything else, and documents gradient, cost and exactness.
    """
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


@compiled(static_argnames=("maximize", "method", "steps_per_call", "progress", "time_limit"))
def _solve(
    problem: AssignmentProblem,
    *,
    maximize: bool,
    method: str,
    steps_per_call: int | None = None,
    progress: Progress | None = None,
    time_limit: float | None = None,
) -> Assignment:
    solver = METHODS[method]
    if time_limit is not None:
        solver = partial(solver, time_limit=time_limit)
    if steps_per_call is not None or progress is not None:
        solver = partial(solver, steps=steps_per_call or 1, progress=progress)

    def solve(problem: AssignmentProblem) -> Assignment:
        res = solver(lax.stop_gradient(problem), maximize=maximize)
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
