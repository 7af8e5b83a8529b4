"""Problems too large for one thread block of a GPU, rewritten for solvers that use the whole GPU.

With unmatched costs, each row gets an extra column, its gate: a match with it means that the row
stays unmatched. The result is a problem without unmatched costs, for the method `"core"`. The
transport solver solves what `"core"` does not take: 64-bit integers, problems with unmatched costs
and far more rows than columns, and the longest sides.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jaxmatch._assignment import native_large
from jaxmatch._assignment.capacity import by_transport, with_dummies
from jaxmatch._assignment.capacity_problem import CapacityProblem
from jaxmatch._assignment.problem import AssignmentProblem
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.result import Assignment, CapacitatedAssignment, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, DTypeLike, Int, Num
from jaxmatch._ffi.dispatch import rebatch
from jaxmatch._transport.native import transport
from jaxmatch._transport.problem import TransportProblem


Solver: TypeAlias = Callable[[AssignmentProblem], Assignment]
# A solver that takes no unmatched costs, but costs, a row mask and a column mask.
Ungated: TypeAlias = Callable[..., Assignment]

# With more rows per column than this, gates would make up most of the costs. Then the transport
# solver is used.
_MOST_ROWS_PER_COLUMN = 3
# Sums of integers below this are exact in float64. The native solvers have the same limit.
_MOST_INTEGER = 2**45


def solve_beyond_blocks(
    problem: AssignmentProblem, *, maximize: bool, platform: Literal["cpu", "cuda"], twin: Solver
) -> Assignment:
    """Solves the problems of a batch one after the other. A warm start is ignored.

    The pure-JAX `twin` solves problems whose unmatched costs are floats and whose costs are 64-bit
    integers too large for a float.
    """
    core = partial(_core, maximize=maximize)
    by_gates = partial(solve_gated, solve=core, maximize=maximize)
    by_units = partial(_by_units, maximize=maximize, platform=platform)

    def solve(problem: AssignmentProblem) -> Assignment:
        cost, r = problem.cost, problem.unmatched_cost
        if r is None:
            fits = native_large.fits_large(cost, None)
            return core(cost, *problem.masks) if fits else by_units(problem)
        solve = by_gates if _fits_gates(problem) else by_units
        if jnp.issubdtype(cost.dtype, jnp.floating):
            return solve(_as(problem, common_dtype(cost, r)))
        if jnp.issubdtype(r.dtype, jnp.floating):
            return _with_float_gates(problem, solve, twin)
        if solve is by_units or cost.dtype == jnp.int64:
            return by_units(problem)
        if r.dtype == jnp.int32:
            return by_gates(problem)
        narrow = jnp.iinfo(jnp.int32)
        fits = ((r >= narrow.min) & (r <= narrow.max)).all()
        return lax.cond(fits, lambda p: by_gates(_as(p, jnp.int32)), by_units, problem)

    return rebatch(solve)(problem._replace(col_dual=None))


def solve_gated(problem: AssignmentProblem, *, solve: Ungated, maximize: bool) -> Assignment:
    """Solves a problem with unmatched costs by `solve`, which takes none.

    Unmatched costs must have the dtype of the costs. Row i gets an extra column behind all others,
    its gate, and matching the row to its gate costs r_i, its unmatched cost. Pairs of the gate with
    other rows are forbidden for floats. For integers these pairs cost more than all others, so an
    unmatched row costs least in its own gate. Nothing is subtracted, so nothing is rounded.

    With gates there are more columns than rows, unless all columns are gates. So free columns have
    the dual 0, and all column duals are at most 0. The gate of a row with another column is free,
    so the dual of the row is at most r_i. An unmatched row is matched to its gate, so its dual is
    r_i minus the gate's dual, and thus at least r_i. Lowering it to r_i, and raising the gate's
    dual to 0, keeps all inequalities and the sum of the duals.
    """
    cost, row_mask, col_mask, r, _ = problem
    assert r is not None and r.dtype == cost.dtype
    *_, n, m = cost.shape
    own = jnp.eye(n, dtype=bool)
    own = jnp.broadcast_to(own, (*cost.shape[:-2], n, n))
    gates = jnp.where(own, r[..., None], _beyond(cost, r, maximize)[..., None, None])
    if row_mask is not None or col_mask is not None:
        cols = jnp.ones_like(cost, bool, shape=(*cost.shape[:-2], m))
        cols = cols if col_mask is None else col_mask
        rows = jnp.ones_like(r, bool) if row_mask is None else row_mask
        col_mask = jnp.concatenate([cols, rows], -1)
    res = solve(jnp.concatenate([cost, gates], -1), row_mask, col_mask)
    left = res.col4row >= m
    return res.replace(
        col4row=jnp.where(left, -1, res.col4row),
        row4col=res.row4col[..., :m],
        row_dual=jnp.where(left, r.astype(res.row_dual.dtype), res.row_dual),
        col_dual=res.col_dual[..., :m],
    )


def _beyond(cost: Num[Array, "... n m"], r: Array, maximize: bool) -> Num[Array, "..."]:
    """The cost that forbids a pair; for integers, one more than the greatest cost."""
    batch = cost.shape[:-2]
    if jnp.issubdtype(cost.dtype, jnp.floating):
        return jnp.full_like(cost, -jnp.inf if maximize else jnp.inf, shape=batch)
    info = jnp.iinfo(cost.dtype)
    if maximize:
        least = jnp.minimum(cost.min((-2, -1), initial=info.max), r.min(-1, initial=info.max))
        return jnp.maximum(least, info.min + 1) - 1
    most = jnp.maximum(cost.max((-2, -1), initial=info.min), r.max(-1, initial=info.min))
    return jnp.minimum(most, info.max - 1) + 1


def _core(
    cost: Array, row_mask: Array | None, col_mask: Array | None, *, maximize: bool
) -> Assignment:
    return native_large.large(cost, row_mask, col_mask, maximize=maximize, method="core")[0]


def _fits_gates(problem: AssignmentProblem) -> bool:
    *_, n, m = problem.cost.shape
    return n <= _MOST_ROWS_PER_COLUMN * m and 0 < n and n + m <= native_large.longest_side()


def _as(problem: AssignmentProblem, dtype: DTypeLike) -> AssignmentProblem:
    r = problem.unmatched_cost
    assert r is not None
    return problem._replace(cost=problem.cost.astype(dtype), unmatched_cost=r.astype(dtype))


def _with_float_gates(problem: AssignmentProblem, solve: Solver, twin: Solver) -> Assignment:
    """Solves a problem with integer costs and unmatched costs that are floats, all in float64.

    The `twin` solves it instead if 64-bit costs are too large for float64.
    """
    real = result_float()

    def in_float64(problem: AssignmentProblem) -> Assignment:
        with jax.enable_x64(True):
            return _narrowed(solve(_as(problem, jnp.float64)), real)

    if problem.cost.dtype != jnp.int64:
        res = in_float64(problem)
    else:
        least, most = problem.cost.min(initial=0), problem.cost.max(initial=0)
        small = (least > -_MOST_INTEGER) & (most < _MOST_INTEGER)
        res = lax.cond(small, in_float64, twin, problem)
    return _overflowed(res, _overflows(problem))


def _narrowed(res: Assignment, dtype: DTypeLike) -> Assignment:
    """Converts a result to the dtype of results. The gap is rounded upwards: it stays a bound."""
    fields = {name: x.astype(dtype) for name, x in _numbers(res).items()}
    above = res.gap > fields["gap"].astype(res.gap.dtype)
    up = jnp.nextafter(fields["gap"], jnp.full_like(fields["gap"], jnp.inf))
    return res.replace(**fields | {"gap": jnp.where(above, up, fields["gap"])})


def _overflows(problem: AssignmentProblem) -> Bool[Array, "..."]:
    """Whether sums of unmatched costs may reach 2^61, the limit for problems of integer costs."""
    cost, row_mask, col_mask, r, _ = problem
    *batch, n, m = cost.shape
    assert r is not None
    finite = jnp.isfinite(r) if row_mask is None else jnp.isfinite(r) & row_mask
    most = jnp.where(finite, jnp.abs(r), 0).max(-1, initial=0)
    rows, cols = (
        jnp.full(batch, size, jnp.int32) if mask is None else mask.sum(-1, dtype=jnp.int32)
        for size, mask in ((n, row_mask), (m, col_mask))
    )
    pairs = jnp.maximum(jnp.minimum(rows, cols), 1)
    return most * pairs.astype(most.dtype) >= 2.0**61


def _overflowed(res: Assignment, where: Bool[Array, "..."]) -> Assignment:
    where &= res.status != Status.INVALID_COST
    each = where[..., None]
    numbers = _numbers(res)
    numbers = {
        name: jnp.where(each if x.ndim > where.ndim else where, jnp.nan, x)
        for name, x in numbers.items()
    }
    return res.replace(
        **numbers,
        col4row=jnp.where(each, -1, res.col4row),
        row4col=jnp.where(each, -1, res.row4col),
        status=jnp.where(where, Status.OVERFLOW, res.status).astype(jnp.int32),
    )


def _numbers(res: Assignment) -> dict[str, Array]:
    return {name: getattr(res, name) for name in ("cost", "row_dual", "col_dual", "gap")}


def _by_units(
    problem: AssignmentProblem, *, maximize: bool, platform: Literal["cpu", "cuda"]
) -> Assignment:
    """Solves a problem as transport of one unit from each row, with a dummy row and column."""
    cost, row_mask, col_mask, r, _ = problem
    *batch, n, m = cost.shape
    rows, cols = (jnp.ones((*batch, size), jnp.int32) for size in (n, m))
    units = CapacityProblem(
        TransportProblem(cost, rows, cols, row_mask, col_mask), unmatched_cost=r
    )
    native = partial(transport, maximize=maximize, platform=platform)
    dense = partial(with_dummies, maximize=maximize)
    res = by_transport(native, dense, units, as_plan=False)
    assert isinstance(res, CapacitatedAssignment)
    return as_assignment_of_units(res, m)


def as_assignment_of_units(res: CapacitatedAssignment, m: int) -> Assignment:
    """The result of a problem whose capacities are 1."""
    return Assignment(
        col4row=res.col4row,
        row4col=_rows_of_columns(res.col4row, m),
        cost=res.cost,
        row_dual=res.row_dual,
        col_dual=res.col_dual,
        gap=res.gap,
        status=res.status,
    )


def _rows_of_columns(col4row: Int[Array, "... n"], m: int) -> Int[Array, "... m"]:
    if isinstance(col4row, np.ndarray):
        found: Any = np.full((*col4row.shape[:-1], m + 1), -1, np.int32)
        *places, rows = np.indices(col4row.shape, np.int32, sparse=True)
        found[(*places, col4row)] = rows  # rows that stay write the last one
        return found[..., :m]

    def invert(cols: Array) -> Array:
        rows = jnp.arange(len(cols), dtype=jnp.int32)
        at = jnp.where(cols < 0, m, cols)
        return jnp.full_like(cols, -1, shape=(m,)).at[at].set(rows, mode="drop")

    # Use `vmap`, because it keeps the sharding of a batch.
    for _ in col4row.shape[:-1]:
        invert = jax.vmap(invert)
    return invert(col4row)
