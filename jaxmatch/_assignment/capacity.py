"""Assignments with capacities as transport problems of whole units, with a dummy row and column.

The dummy column takes the unused capacities of rows, and the dummy row those of columns. If there
are minima, each column is split into two parts. The capacity of the first part is the minimum, and
the dummy row must not fill it. The second part has the remaining capacity.

This module is for compiled programs, and for NumPy arrays where columns may stay at a cost. Outside
of a trace, `native_capacities` does the rest in one native call, see
ffi/transport/cpu/capacities_handler.cc.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.capacity_problem import CapacityProblem
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.proof import module_of
from jaxmatch._common.result import CapacitatedAssignment, Transport
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._transport.dummies import shift_duals
from jaxmatch._transport.problem import TransportProblem


# The limit on the number of pairs. Greater totals of capacities are replaced by it.
_MOST_PAIRS = 2**30
# Plain integers, because NumPy takes ten times as long for members of an enumeration.
_OPTIMAL, _INFEASIBLE = int(Status.OPTIMAL), int(Status.INFEASIBLE)
_INVALID_COST, _INVALID_CAPACITY = int(Status.INVALID_COST), int(Status.INVALID_CAPACITY)
_OVERFLOW = int(Status.OVERFLOW)


def by_transport(
    solve: Callable[[Any], Transport],
    with_dummies: Callable[..., tuple[Any, Array]],
    problem: CapacityProblem,
    *,
    as_plan: bool,
) -> CapacitatedAssignment | Transport:
    """Solves a problem as a balanced transport problem, by `solve`.

    `with_dummies(problem, units)` returns the transport problem, and whether its integer costs do
    not fit their dtype.
    """
    xp, units = module_of(problem.transport.supply), _in_units(problem)
    balanced, too_wide = with_dummies(problem, units)
    res = solve(balanced)
    # `too_wide` and `units.status` are errors that `solve` does not detect. Invalid costs, which it
    # does detect, take precedence.
    status = xp.where(too_wide, _OVERFLOW, units.status)
    solved = (status == _OPTIMAL) | (res.status == _INVALID_COST)
    status = xp.where(solved, res.status, status).astype(np.int32)
    solved = status == _OPTIMAL
    u, v = _duals(res, problem, units)
    n, m = problem.transport.supply.shape[-1], problem.transport.demand.shape[-1]
    parts = 1 if problem.col_minimum is None or problem.limit is not None else 2
    own = solved[..., None] & (res.rows >= 0) & (res.rows < n) & (res.cols < m * parts)
    # A shift, because a division does not compile for several GPUs (JAX 0.11.2).
    cols = res.cols if parts == 1 else res.cols >> 1

    def number(x: Array) -> Array:
        """x in the dtype of results, NaN where a problem is not solved."""
        ok = solved[..., None] if x.ndim > solved.ndim else solved
        return xp.where(ok, x, np.nan).astype(res.cost.dtype)

    common = {
        "cost": number(res.cost),
        "row_dual": number(u),
        "col_dual": number(v),
        "gap": number(res.gap),
        "status": status,
    }
    if as_plan:
        size = max(n + m * parts - 1, 0) if problem.limit is None else n * m
        rows, cols, mass = _merged(res.rows, cols, res.mass, own, size)
        return Transport(rows=rows, cols=cols, mass=mass, **common)
    # In the plan, each row that exists has one entry, of one unit. Entries are ordered by row.
    exists, cols = units.rows > 0, xp.where(own, cols, -1).astype(np.int32)
    at = xp.maximum(xp.cumsum(exists, -1, dtype=np.int32) - 1, 0)
    col4row = xp.where(exists, xp.take_along_axis(cols, at, -1), -1)
    return CapacitatedAssignment(col4row=col4row, col_count=_counts(col4row, m), **common)


# ---------------------------------------------------------------------------------------------
# The transport problem


class Units(NamedTuple):
    """Capacities, 0 where masked or negative, and the status of a problem with these capacities."""

    rows: Int[Array, "... n"]
    cols: Int[Array, "... m"]
    least: Int[Array, "... m"] | None  # minima of columns
    of_rows: Int[Array, "... 1"]  # total capacity of rows, at most `_MOST_PAIRS`
    of_cols: Int[Array, "... 1"]
    status: Int[Array, "..."]


def _in_units(problem: CapacityProblem) -> Units:
    xp, given = module_of(problem.transport.supply), problem.transport
    rows, cols, row_mask, col_mask = given.supply, given.demand, given.row_mask, given.col_mask
    rows = rows if row_mask is None else xp.where(row_mask, rows, 0)
    cols = cols if col_mask is None else xp.where(col_mask, cols, 0)
    negative = (rows < 0).any(-1) | (cols < 0).any(-1)
    rows, cols = xp.maximum(rows, 0), xp.maximum(cols, 0)
    of_rows, of_cols = _total(rows), _total(cols)
    least, missed = problem.col_minimum, False
    if least is not None:
        least = least if col_mask is None else xp.where(col_mask, least, 0)
        least = xp.maximum(least, 0)
        missed = (least > cols).any(-1) | (_total(least) > of_rows)[..., 0]
        least = xp.minimum(least, cols)
    # A capacity above the total of the other side can never be used up. To keep sums small, it is
    # cut to that total plus 1. But if a row or column pays for each unmatched unit, it keeps its
    # capacity.
    rows = xp.minimum(rows, of_cols + 1) if problem.unmatched_cost is None else rows
    cols = xp.minimum(cols, of_rows + 1) if problem.unmatched_col_cost is None else cols
    least = None if least is None else xp.minimum(least, cols)
    status = xp.where(missed, _INFEASIBLE, _OPTIMAL)
    most = xp.minimum(of_rows, of_cols)[..., 0]
    status = xp.where(most >= _MOST_PAIRS, _OVERFLOW, status)
    status = xp.where(negative, _INVALID_CAPACITY, status)
    return Units(rows, cols, least, of_rows, of_cols, status)


def _total(x: Int[Array, "... k"]) -> Int[Array, "... 1"]:
    """The sum, or `_MOST_PAIRS` if the sum is greater.

    A sum of int32 may wrap around, so a sum of floats tells whether it is too great.
    """
    near = x.sum(-1, dtype=np.float32, keepdims=True)
    exact = x.sum(-1, dtype=np.int32, keepdims=True)
    xp = module_of(x)
    return xp.where(near > _MOST_PAIRS, np.int32(_MOST_PAIRS), exact)


def with_dummies(
    problem: CapacityProblem, units: Units, *, maximize: bool
) -> tuple[TransportProblem, Bool[Array, "..."]]:
    """The balanced transport problem, and whether its integer costs do not fit their dtype."""
    assert isinstance(problem.transport, TransportProblem)
    xp, own = module_of(problem.transport.supply), problem.transport
    cost, row_mask, col_mask, col_dual = own.cost, own.row_mask, own.col_mask, own.col_dual
    unmatched, of_cols = problem.unmatched_cost, problem.unmatched_col_cost
    *batch, n, m = cost.shape
    cols, too_wide = units.cols, xp.zeros(batch, bool)
    if unmatched is not None:
        dtype = unmatched.dtype if of_cols is None else common_dtype(unmatched, of_cols)
        cost, unmatched = cost.astype(dtype), unmatched.astype(dtype)
        of_cols = None if of_cols is None else of_cols.astype(dtype)
    if units.least is not None and cost.dtype == np.int32:
        # The cost that forbids pairs of the dummy row may be twice the greatest cost.
        wide = jax.dtypes.canonicalize_dtype(np.int64)
        cost = cost.astype(wide)
        unmatched = None if unmatched is None else unmatched.astype(wide)
        of_cols = None if of_cols is None else of_cols.astype(wide)
    last = xp.zeros((*batch, m), cost.dtype) if of_cols is None else of_cols
    if units.least is not None:
        never, too_wide = _forbidding(cost, unmatched, of_cols, problem, maximize)
        last = interleaved(xp.broadcast_to(never[..., None], last.shape), last)
        cols = interleaved(units.least, units.cols - units.least)
        cost = doubled(cost)
        col_mask = None if col_mask is None else doubled(col_mask)
        col_dual = None if col_dual is None else doubled(col_dual)
    unmatched = xp.zeros((*batch, n), cost.dtype) if unmatched is None else unmatched
    last = xp.concatenate([last, xp.zeros((*batch, 1), cost.dtype)], -1)
    cost = xp.concatenate([cost, unmatched[..., None]], -1)
    cost = xp.concatenate([cost, last[..., None, :]], -2)

    def wider(x: Array | None, value: bool | int) -> Any:
        if x is None:
            return None
        return xp.concatenate([x, xp.full((*batch, 1), value, x.dtype)], -1)

    moved = units_moved(problem, units)
    balanced = TransportProblem(
        cost,
        wider(units.rows, 0),
        wider(cols, 0),
        wider(row_mask, True),
        wider(col_mask, True),
        moved,
        wider(col_dual, 0),
    )
    return balanced, too_wide


def units_moved(problem: CapacityProblem, units: Units) -> Int[Array, "..."]:
    """How many units rows must send to columns: the lesser total, or 0 with unmatched costs."""
    xp = module_of(problem.transport.supply)
    moved = xp.minimum(units.of_rows, units.of_cols)[..., 0]
    return moved if problem.unmatched_cost is None else xp.zeros_like(moved)


def interleaved(one: Array, other: Array) -> Num[Array, "... 2*m"]:
    *batch, m = one.shape
    xp = module_of(one)
    return xp.stack([one, other], -1).reshape(*batch, 2 * m)


def doubled(x: Array) -> Num[Array, "... 2*m"]:
    """Repeats each entry: x_1, x_1, x_2, x_2, ..."""
    return x.repeat(2, -1)


def _forbidding(
    cost: Array,
    unmatched: Array | None,
    of_cols: Array | None,
    problem: CapacityProblem,
    maximize: bool,
) -> tuple[Num[Array, "..."], Bool[Array, "..."]]:
    """The cost at which the dummy row never fills a minimum, and whether it does not fit the dtype.

    For floats this cost is infinite. For integers it exceeds the cost of replacing the dummy row by
    a unit of any real row. If the minima can be met at all, there is such a unit.
    """
    xp, batch = module_of(problem.transport.supply), cost.shape[:-2]
    if jnp.issubdtype(cost.dtype, xp.floating):
        return xp.full(batch, -np.inf if maximize else np.inf, cost.dtype), xp.zeros(batch, bool)
    row_mask, col_mask = problem.transport.row_mask, problem.transport.col_mask
    if row_mask is not None:
        cost = xp.where(row_mask[..., :, None], cost, 0)
        unmatched = None if unmatched is None else xp.where(row_mask, unmatched, 0)
    if col_mask is not None:
        cost = xp.where(col_mask[..., None, :], cost, 0)
        of_cols = None if of_cols is None else xp.where(col_mask, of_cols, 0)
    least, most = cost.min((-2, -1), initial=0), cost.max((-2, -1), initial=0)
    for x in (unmatched, of_cols):
        if x is not None:
            least = xp.minimum(least, x.min(-1, initial=0))
            most = xp.maximum(most, x.max(-1, initial=0))
    greatest = np.iinfo(cost.dtype).max
    too_wide = most > greatest - 1 + least
    never = xp.where(too_wide, 0, most) - xp.where(too_wide, 0, least) + 1
    if of_cols is not None:  # the dummy row may have to fill another column instead
        more = xp.where(too_wide, 0, xp.maximum(most, -least))
        too_wide |= never > greatest - more
        never += xp.where(too_wide, 0, more)
    return (-never if maximize else never).astype(cost.dtype), too_wide


# ---------------------------------------------------------------------------------------------
# The result


def _duals(
    res: Transport, problem: CapacityProblem, units: Units
) -> tuple[Float[Array, "... n"], Float[Array, "... m"]]:
    """The duals of rows and of columns, shifted so that a dummy with mass would have the dual 0."""
    xp, n = module_of(problem.transport.supply), problem.transport.supply.shape[-1]
    u, of_row = res.row_dual[..., :n], res.row_dual[..., n:]
    v, of_col = res.col_dual[..., :-1], res.col_dual[..., -1:]
    if problem.unmatched_cost is None:
        of_col = xp.where(units.of_rows > units.of_cols, of_col, 0)
        of_col = xp.where(units.of_rows < units.of_cols, -of_row, of_col)
        of_row = -of_col
    u, v = shift_duals(u, of_col, xp), shift_duals(v, of_row, xp)
    if units.least is not None and problem.limit is None:
        v = xp.where(units.least > 0, v[..., 0::2], v[..., 1::2])
    row_mask, col_mask = problem.transport.row_mask, problem.transport.col_mask
    u = u if row_mask is None else xp.where(row_mask, u, 0)
    v = v if col_mask is None else xp.where(col_mask, v, 0)
    return u, v


def _counts(col4row: Int[Array, "... n"], m: int) -> Int[Array, "... m"]:
    """The number of rows matched to each column."""
    batch = col4row.shape[:-1]
    if isinstance(col4row, np.ndarray):
        found: Any = np.zeros((*batch, m + 1), np.int32)
        *places, _ = np.indices(col4row.shape, sparse=True)
        np.add.at(found, (*places, col4row), 1)  # the last one counts rows that stay
        return found[..., :m]

    def count(cols: Array) -> Array:
        return jnp.zeros(m, jnp.int32).at[jnp.where(cols < 0, m, cols)].add(1, mode="drop")

    # Use `vmap`, because it keeps the sharding of a batch.
    for _ in batch:
        count = jax.vmap(count)
    return count(col4row)


def _merged(
    rows: Array, cols: Array, mass: Array, own: Bool[Array, "... k"], size: int
) -> tuple[Array, Array, Array]:
    """The entries in `own`, at most `size`. Entries of a row for both parts of a column are merged.

    `own`: the plan entries that are between real rows and columns.
    """
    xp = module_of(own)

    def first(own: Array, *xs: Array) -> tuple[Array, ...]:
        order = xp.argsort(~own, axis=-1, stable=True)[..., :size]
        return tuple(xp.take_along_axis(x, order, -1) for x in (own, *xs))

    own, rows, cols, mass = first(own, rows, cols, mass)
    again = own[..., 1:] & (rows[..., 1:] == rows[..., :-1]) & (cols[..., 1:] == cols[..., :-1])
    end = xp.zeros_like(own[..., :1])
    more = xp.concatenate([xp.where(again, mass[..., 1:], 0), end.astype(mass.dtype)], -1)
    own, rows, cols, mass = first(
        own & ~xp.concatenate([end, again], -1), rows, cols, mass + more.astype(mass.dtype)
    )
    rows, cols, mass = (xp.where(own, *x) for x in ((rows, -1), (cols, -1), (mass, 0)))
    return rows.astype(np.int32), cols.astype(np.int32), mass.astype(np.int32)
