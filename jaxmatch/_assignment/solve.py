"""Dense assignment: the public functions, the choice of a method, and the gradient rule."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import jax
import jax.core
import jax.numpy as jnp
from jax import lax

from jaxmatch._assignment import native_large
from jaxmatch._assignment.methods import HERE, METHODS
from jaxmatch._assignment.problem import AssignmentProblem, as_cost, as_int32, as_problem
from jaxmatch._assignment.sharded import solve_divided
from jaxmatch._assignment.stepping import Progress
from jaxmatch._common.arguments import as_count, check_name
from jaxmatch._common.given import all_given, as_given
from jaxmatch._common.gradient import envelope_value, is_constant, sum_where
from jaxmatch._common.result import Assignment, first_failure
from jaxmatch._common.sharding import over_batch_shards
from jaxmatch._common.status import Status
from jaxmatch._common.switches import compiled, unchecked
from jaxmatch._ffi.place import place_of


if TYPE_CHECKING:
    from jax.typing import ArrayLike
    from jaxtyping import Array, Float, Int


@unchecked
def solve_assignment(
    cost: ArrayLike,
    *,
    maximize: bool = False,
    row_mask: ArrayLike | None = None,
    col_mask: ArrayLike | None = None,
    unmatched_cost: ArrayLike | None = None,
    warm_start: Assignment | ArrayLike | None = None,
    method: str = "auto",
    steps_per_call: int | None = None,
    progress: Progress | None = None,
    row_axis: str | None = None,
    col_axis: str | None = None,
) -> Assignment:
    r"""Solve dense linear assignment problems exactly, inside or outside of `jax.jit`.

    Chooses pairs (i, j), each row and each column at most once, of least total cost. As many
    pairs are chosen as the smaller side has rows or columns, unless `unmatched_cost` says what
    leaving a row unmatched costs. All leading dimensions are batch, solved by one native call.

    >>> import jax, jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4.0, 1.0, 3.0], [2.0, 0.0, 5.0], [3.0, 2.0, 2.0]])
    >>> res = jax.jit(jm.solve_assignment)(cost)
    >>> res.col4row, res.cost, int(res.status) == jm.Status.OPTIMAL
    (Array([1, 0, 2], dtype=int32), Array(5., dtype=float32), True)
    >>> jax.grad(lambda c: jm.solve_assignment(c).cost)(cost)
    Array([[0., 1., 0.],
           [1., 0., 0.],
           [0., 0., 1.]], dtype=float32)

    **Arguments:**

    - `cost`: `[..., n, m]` in bfloat16, float16, float32, float64, int32 or int64, read in place
      (bool and 8- and 16-bit integers are widened to int32). +inf forbids a pair (−inf when
      maximising).
    - `maximize`: look for the greatest total instead; all inequalities below turn round.
    - `row_mask`, `col_mask`: bool, broadcast to `[..., n]` and `[..., m]`, any pattern. A row or
      column that is False does not exist: its costs may be anything, NaN included, and it costs
      no time. Per-problem sizes are masks.
    - `unmatched_cost`: a scalar or an array that broadcasts to `[..., n]`, the cost of leaving that
      row unmatched (a score when maximising). With it, columns may stay unmatched too, at no cost.
      +inf (−inf when maximising) means that the row must be matched. Beside integer costs of 2^45
      or more it must be a whole number.
    - `warm_start`: an earlier result or any column duals `[..., m]`. The optimum stays the same,
      ties may fall differently. Similar costs are solved 2 to 3.5 times faster where the problem is
      square (on CPU also where it is nearly so); with more columns than rows, or with
      `unmatched_cost`, a cold start is as fast and is used. Non-finite duals mean a cold start
      too. No gradient flows through it.
    - `method`: `"auto"`; `"jonker_volgenant"` (C++ on CPU, one warp or block for each problem on
      NVIDIA GPUs); `"core"`, for one large problem (the whole GPU, or the threads of the CPU, solve
      one problem after another); `"classical"` and `"tree"`, the Hungarian algorithms of Date and
      Nagi, solved in the same way; or `"xla"`, the pure-JAX twin for any platform. `"auto"` is
      `"jonker_volgenant"` on CPU. On CUDA it is that too for batches of up to 4096 rows and columns
      (2048 for int64), and `"core"` for longer sides and, from 512 rows on, for few problems: at
      most n²/200,000, those under `vmap` counted. With sides up to 1800 it is `"jonker_volgenant"`
      after all where cores lead nowhere, as with point clouds of different shape. The methods for
      large problems take no int64 and no `unmatched_cost`, and have no use for a warm start; what
      neither kind takes is left to the twin. GPUs with less shared memory than an H100 do not reach
      4096, an A100 about 3000 and others about 1900: beyond, a batch fails with an error that says
      so, and `"core"` or `"xla"` is what remains.

    - `steps_per_call`: `"core"`, `"classical"` or `"tree"` by native calls of so many steps each,
      in a `jax.lax.while_loop`, instead of all in one call.
      [`jaxmatch.stepping`][jaxmatch.stepping] holds the steps, and says what one is.
    - `progress`: a function of (matched rows, rows) that is called after each native call, by
      `jax.debug.callback`; one step a call if `steps_per_call` does not say.
    - `row_axis`, `col_axis`: one problem that is too large for a device. The name of the mesh axis
      over which the rows of `cost`, or its columns, are divided; they must divide evenly (pad, and
      mask the padding), and the axis has at most 32 devices. All devices solve the same core; they
      exchange O(n) numbers a few times, and the cores of rows (1.5 KB each) whenever these change.
      The searches of `"classical"` and `"tree"`, and those that finish for `"core"`, go along pairs
      without slack: up to 15 for each row are exchanged for a search, and where rows have more, the
      columns that each of its levels reaches. Beside its part of the costs a device needs O(n + m),
      of which 80 bytes a row or column for each device. Costs stay where they lie, if they lie as
      the axis says (else JAX moves them), and but for platforms without a native library, where the
      twin gathers them. The result is the same on all devices. `"auto"` is `"core"` here;
      `"jonker_volgenant"` and `"xla"` are not for divided costs, nor is int64. The mesh is that of
      the array, or in a jitted function that of `jax.set_mesh`; within a `shard_map` over the axis
      `cost` is the device's own part, and masks are those of the whole problem. Under `vmap`
      problems are solved one after another. Dividing by rows is faster. Bit for bit the same result
      as on one device where the rows are divided and of those that exist are not the longer side.
      Batch dimensions, `unmatched_cost`, `warm_start`, `steps_per_call` and `progress` do not go
      with it.

    **Returns:**

    An [`Assignment`][jaxmatch.Assignment]. Its numbers are float32, or float64 under
    `jax_enable_x64`, whatever the dtype of `cost`; indices and status are int32. NumPy's float64
    and int64 (constants, if within `jit`) have float64 results without x64, too. Outside of a
    trace, on the CPU, NumPy arrays come out where they went in, and nothing is traced or compiled.

    **Status:** `OPTIMAL`; `INFEASIBLE` where something that must be matched (the smaller side, or a
    row with unmatched cost +inf) has no partner left; `INVALID_COST` where an unmasked cost or an
    unmatched cost is NaN or infinite on the wrong side; `OVERFLOW` where min(n, m)·max|C| ≥ 2^61
    for integers (an unmatched cost counts as one, also where there is no column). Never an
    exception: indices are −1 and numbers NaN for that problem, and the others of the batch are not
    touched.

    **Certificate:** over unmasked rows and columns u_i + v_j ≤ C_ij, with equality on matched
    pairs; a row that may stay unmatched has u_i ≤ r_i, with equality if it does (r_i is its
    unmatched cost, or 0 where there are more rows than columns); likewise v_j ≤ 0 for columns. Σu +
    Σv is the optimum. [`check_assignment`][jaxmatch.check_assignment] verifies this.

    **Exact:** for the numbers that were passed, and where those are traced for what JAX makes
    of them: without x64 it rounds float64 to float32. Integers are exact. Floating-point costs are
    solved in float64 (on CUDA in float32 where that provably does not round), and `gap` is a proved
    bound on cost − optimum: 0 where no rounding occurred, else a few roundings. The twin is exact
    for integers below 2^23/n (2^52/n under x64) and reads denormal numbers as zero.

    **Deterministic:** the same call gives the same bits, whatever else is in the batch. On another
    platform ties may fall differently.

    **Gradient:** `res.cost` differentiates to the permutation matrix, in reverse and forward mode,
    and with respect to `unmatched_cost` to the indicator of the unmatched rows; second derivatives
    are zero, and so are all gradients of a problem that is not `OPTIMAL`. Where several assignments
    are optimal this is one supergradient among several.

    **Time and memory:** O(n²m) operations at worst for n ≤ m, in practice a small multiple of n·m.
    The costs are read in place with O(n + m) extra memory; a problem with more rows than columns
    or with a column mask first gathers its used part into a buffer of the same dtype. On CUDA such
    a buffer, of 4 or 8 bytes for each cost, is part of the call wherever it may be needed: for
    tall problems, with masks and for 16-bit costs; small problems do without. A masked problem
    costs what its real size costs.

    `"core"` reads the costs in place, usually less than three times in all, and needs 2 KB for each
    row: for a matrix of 128 candidates a row, the best 4 of every 32nd column, which is solved
    exactly. Rows whose price has come so far that a column outside of their candidates might be
    better are held against all costs, until none asks for a change. Where candidates lead nowhere
    (rows of few classes, clusters with more rows than columns, products), the tree variant goes on
    from what there is: up to a read of all costs for each of its searches. `"tree"` needs O(n + m)
    beside the costs, `"classical"` a bit for each pair; both read all costs many times.

    **Raises:** `ValueError` for shapes that do not fit, unknown methods, what a named method does
    not take (those for large problems: int64, `unmatched_cost`, sides of 2^18 or more), and
    integers that JAX would cut to 32 bits; `TypeError` for other dtypes.

    **Source:** Jonker and Volgenant, *A shortest augmenting path algorithm for dense and sparse
    linear assignment problems*, Computing 38 (1987). `"core"`: Volgenant, *Linear and
    semi-assignment problems: a core oriented approach*, Computers & Operations Research 23 (1996).
    `"classical"` and `"tree"`: Date and Nagi, *GPU-accelerated Hungarian algorithms for the linear
    assignment problem*, Parallel Computing 57 (2016).
    """
    if row_axis is not None or col_axis is not None:
        cost = as_cost(cost)
        others = {
            "unmatched_cost": unmatched_cost,
            "warm_start": warm_start,
            "steps_per_call": steps_per_call,
            "progress": progress,
        }
        how = {"maximize": bool(maximize), "method": method, "others": others}
        return solve_divided(cost, row_mask, col_mask, row_axis, col_axis, **how)
    check_name("method", method, METHODS)
    if steps_per_call is not None:
        steps_per_call = as_count("steps_per_call", steps_per_call)
    in_steps = steps_per_call is not None or progress is not None
    if in_steps and method not in native_large.LARGE_METHODS:
        raise ValueError(
            "`steps_per_call` and `progress` belong to the methods that work in steps, "
            f"{[*native_large.LARGE_METHODS]}; got method={method!r}."
        )
    cost = as_given("cost", cost)
    row_mask, col_mask, unmatched_cost, duals = all_given(
        row_mask=row_mask,
        col_mask=col_mask,
        unmatched_cost=unmatched_cost,
        warm_start=warm_start.col_dual if isinstance(warm_start, Assignment) else warm_start,
    )
    arrays = (cost, row_mask, col_mask, unmatched_cost, duals)
    how = {"maximize": bool(maximize), "method": method}
    place = place_of(*arrays, options=(*how.values(),))
    if in_steps or method not in HERE:
        place = place.by_jax()
    with place.precision():
        problem = as_problem(*arrays, place=place)
        if place.x64 and (not place.native or method in native_large.LARGE_METHODS):
            problem = problem._replace(cost=as_int32(problem.cost))
        if place.native:
            return place.bring_home(HERE[method](problem, maximize=bool(maximize)))
        res = _solve(problem, **how, steps_per_call=steps_per_call, progress=progress)
        return place.bring_home(res)


@unchecked
def linear_sum_assignment(
    cost_matrix: ArrayLike, maximize: bool = False
) -> tuple[Int[Array, "... k"], Int[Array, "... k"]]:
    """The drop-in for `scipy.optimize.linear_sum_assignment` and `optax.assignment`.

    >>> import jax.numpy as jnp, jaxmatch as jm
    >>> cost = jnp.array([[4, 1, 3], [2, 0, 5], [3, 2, 2]])
    >>> row_ind, col_ind = jm.linear_sum_assignment(cost)
    >>> col_ind, cost[row_ind, col_ind].sum()
    (Array([1, 0, 2], dtype=int32), Array(5, dtype=int32))

    **Arguments:**

    - `cost_matrix`: `[..., n, m]`, leading dimensions are batch. +inf forbids a pair (−inf when
      maximising).
    - `maximize`: look for the greatest total instead.

    **Returns:**

    `(row_ind, col_ind)`, each `i32[..., min(n, m)]`, rows in increasing order: NumPy arrays for
    NumPy arrays and lists on the CPU, else JAX arrays. NumPy's float64 is solved as it is; as
    an argument of `jit` or `vmap` JAX rounds it to float32, unless `jax_enable_x64` is set.

    **Raises:** outside of a trace, `ValueError` as scipy does, for NaN, for an infinity of the
    wrong sign and for infeasible input. Inside `jit` or `vmap` nothing can be raised: the indices
    of that problem are −1. [`solve_assignment`][jaxmatch.solve_assignment] gives the status,
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
    """The rows that are matched, in increasing order, and the column of each."""
    n, m = res.col4row.shape[-1], res.row4col.shape[-1]
    if n <= m:
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
}


# ---------------------------------------------------------------------------------------------
# Solving


@compiled(static_argnames=("maximize", "method", "steps_per_call", "progress"))
def _solve(
    problem: AssignmentProblem,
    *,
    maximize: bool,
    method: str,
    steps_per_call: int | None = None,
    progress: Progress | None = None,
) -> Assignment:
    solver = METHODS[method]
    if steps_per_call is not None or progress is not None:
        solver = partial(solver, steps=steps_per_call or 1, progress=progress)

    def solve(problem: AssignmentProblem) -> Assignment:
        res = solver(lax.stop_gradient(problem), maximize=maximize)
        return res.replace(cost=envelope_value(res.cost, problem, res, _slope))

    return over_batch_shards(solve, problem, core_dims=2)


def _slope(
    problem: AssignmentProblem, tangents: AssignmentProblem, res: Assignment
) -> Float[Array, "..."]:
    solved, matched = (res.status == Status.OPTIMAL)[..., None], res.col4row >= 0
    dot = jnp.zeros_like(res.cost)
    if not is_constant(tangents.cost) and problem.cost.shape[-1]:
        at = jnp.maximum(res.col4row, 0)[..., None]
        along = jnp.take_along_axis(tangents.cost, at, axis=-1)[..., 0]
        dot += sum_where(solved & matched, along.astype(dot.dtype))
    if tangents.unmatched_cost is not None and not is_constant(tangents.unmatched_cost):
        alone = solved & ~matched
        if problem.row_mask is not None:
            alone &= problem.row_mask
        dot += sum_where(alone, tangents.unmatched_cost.astype(dot.dtype))
    return dot
