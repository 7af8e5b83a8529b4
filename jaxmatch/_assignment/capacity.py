"""Assignments with capacities: transport problems of whole units, with a dummy row and column.

The dummy column takes what rows leave, the dummy row fills what columns lack. A column with a
minimum is split into a part that the dummy row must not fill and one that it may.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.capacity_problem import CapacityProblem
from jaxmatch._common.result import CapacitatedAssignment, Transport
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Bool, Float, Int, Num
from jaxmatch._transport.dummies import shift_duals
from jaxmatch._transport.problem import TransportProblem


# Totals of capacities saturate here. At most so many pairs are matched.
_MOST_PAIRS = 2**30
# NumPy takes ten times as long for a member of an enumeration.
_OPTIMAL, _INFEASIBLE = int(Status.OPTIMAL), int(Status.INFEASIBLE)
_INVALID_COST, _INVALID_CAPACITY = int(Status.INVALID_COST), int(Status.INVALID_CAPACITY)
_OVERFLOW = int(Status.OVERFLOW)


def by_transport(
    solve: Callable[[Any], Transport],
    with_dummies: Callable[..., tuple[Any, Array]],
    problem: CapacityProblem,
    *,
    as_plan: bool,
    xp: Any = jnp,
) -> CapacitatedAssignment | Transport:
    """Solves a problem as a transport problem, which `with_dummies` makes balanced.

    `with_dummies(problem, units, xp=xp)` also tells whether integer costs do not fit their dtype.
    """
    units = _in_units(problem, xp)
    balanced, too_wide = with_dummies(problem, units, xp=xp)
    res = solve(balanced)
    # What the transport problem does not show, but for invalid costs, which come first.
    status = xp.where(too_wide, _OVERFLOW, units.status)
    solved = (status == _OPTIMAL) | (res.status == _INVALID_COST)
    status = xp.where(solved, res.status, status).astype(np.int32)
    solved = status == _OPTIMAL
    all_solved = xp is np and bool(solved.all())
    u, v = _duals(res, problem, units, xp)
    n, m = problem.transport.supply.shape[-1], problem.transport.demand.shape[-1]
    parts = 1 if problem.col_minimum is None else 2
    own = solved[..., None] & (res.rows >= 0) & (res.rows < n) & (res.cols < m * parts)
    # By a shift: programs for several GPUs that divide do not compile (JAX 0.11.2).
    cols = res.cols if parts == 1 else res.cols >> 1

    def number(x: Array) -> Array:
        """NaN where a problem is not solved."""
        if all_solved:
            return x
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
        rows, cols, mass = _merged(res.rows, cols, res.mass, own, max(n + m * parts - 1, 0), xp)
        return Transport(rows=rows, cols=cols, mass=mass, **common)
    # Each row that exists has one entry, of one unit. Entries are ordered by row.
    exists, cols = units.rows > 0, xp.where(own, cols, -1).astype(np.int32)
    if xp is np and exists.all():
        col4row = cols[..., :n].copy()
    else:
        at = xp.maximum(xp.cumsum(exists, -1, dtype=np.int32) - 1, 0)
        col4row = xp.where(exists, xp.take_along_axis(cols, at, -1), -1)
    return CapacitatedAssignment(col4row=col4row, col_count=_counts(col4row, m, xp), **common)


# ---------------------------------------------------------------------------------------------
# The transport problem


class Units(NamedTuple):
    """Capacities that are sound, 0 where masked, and what is wrong with the given ones."""

    rows: Int[Array, "... n"]
    cols: Int[Array, "... m"]
    least: Int[Array, "... m"] | None
    of_rows: Int[Array, "... 1"]  # total
    of_cols: Int[Array, "... 1"]
    status: Int[Array, "..."]


def _in_units(problem: CapacityProblem, xp: Any) -> Units:
    given = problem.transport
    rows, cols, row_mask, col_mask = given.supply, given.demand, given.row_mask, given.col_mask
    rows = rows if row_mask is None else xp.where(row_mask, rows, 0)
    cols = cols if col_mask is None else xp.where(col_mask, cols, 0)
    negative = (rows < 0).any(-1) | (cols < 0).any(-1)
    rows, cols = xp.maximum(rows, 0), xp.maximum(cols, 0)
    of_rows, of_cols = _total(rows, xp), _total(cols, xp)
    least, missed = problem.col_minimum, False
    if least is not None:
        least = least if col_mask is None else xp.where(col_mask, least, 0)
        least = xp.maximum(least, 0)
        missed = (least > cols).any(-1) | (_total(least, xp) > of_rows)[..., 0]
        least = xp.minimum(least, cols)
    # Capacities above the total of the other side are all alike, which keeps sums small. But a row
    # pays for all units that stay.
    rows = xp.minimum(rows, of_cols + 1) if problem.unmatched_cost is None else rows
    cols = xp.minimum(cols, of_rows + 1)
    least = None if least is None else xp.minimum(least, cols)
    status = xp.where(missed, _INFEASIBLE, _OPTIMAL)
    most = xp.minimum(of_rows, of_cols)[..., 0]
    status = xp.where(most >= _MOST_PAIRS, _OVERFLOW, status)
    status = xp.where(negative, _INVALID_CAPACITY, status)
    return Units(rows, cols, least, of_rows, of_cols, status)


def _total(x: Int[Array, "... k"], xp: Any) -> Int[Array, "... 1"]:
    """Saturates: the sum of int32 may wrap around, and a float tells whether it did."""
    if xp is np:
        wide: Any = x.sum(-1, dtype=np.int64, keepdims=True)
        return np.minimum(wide, _MOST_PAIRS).astype(np.int32)
    near = x.sum(-1, dtype=np.float32, keepdims=True)
    exact = x.sum(-1, dtype=np.int32, keepdims=True)
    return xp.where(near > _MOST_PAIRS, np.int32(_MOST_PAIRS), exact)


def with_dummies(
    problem: CapacityProblem, units: Units, *, maximize: bool, xp: Any
) -> tuple[TransportProblem, Bool[Array, "..."]]:
    """The balanced problem; and whether its integer costs do not fit their dtype."""
    assert isinstance(problem.transport, TransportProblem)
    own = problem.transport
    cost, row_mask, col_mask, col_dual = own.cost, own.row_mask, own.col_mask, own.col_dual
    unmatched = problem.unmatched_cost
    *batch, n, m = cost.shape
    cols, too_wide = units.cols, xp.zeros(batch, bool)
    cost = cost if unmatched is None else cost.astype(unmatched.dtype)
    if units.least is not None and cost.dtype == np.int32:
        # What forbids a unit of the dummy row may be twice the greatest cost.
        wide = np.int64 if xp is np else jax.dtypes.canonicalize_dtype(np.int64)
        cost = cost.astype(wide)
        unmatched = None if unmatched is None else unmatched.astype(wide)
    last = xp.zeros((*batch, m), cost.dtype)
    if units.least is not None:
        never, too_wide = _forbidding(cost, unmatched, problem, maximize, xp)
        last = interleaved(xp.broadcast_to(never[..., None], last.shape), last, xp)
        cols = interleaved(units.least, units.cols - units.least, xp)
        cost = doubled(cost, xp)
        col_mask = None if col_mask is None else doubled(col_mask, xp)
        col_dual = None if col_dual is None else doubled(col_dual, xp)
    unmatched = xp.zeros((*batch, n), cost.dtype) if unmatched is None else unmatched
    last = xp.concatenate([last, xp.zeros((*batch, 1), cost.dtype)], -1)
    cost = xp.concatenate([cost, unmatched[..., None]], -1)
    cost = xp.concatenate([cost, last[..., None, :]], -2)

    def wider(x: Array | None, value: bool | int) -> Any:
        if x is None:
            return None
        return xp.concatenate([x, xp.full((*batch, 1), value, x.dtype)], -1)

    moved = units_moved(problem, units, xp)
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


def units_moved(problem: CapacityProblem, units: Units, xp: Any) -> Int[Array, "..."]:
    """All of the lesser total, and one of the dummies has no mass; or 0, and costs decide."""
    moved = xp.minimum(units.of_rows, units.of_cols)[..., 0]
    return moved if problem.unmatched_cost is None else xp.zeros_like(moved)


def interleaved(one: Array, other: Array, xp: Any) -> Num[Array, "... 2*m"]:
    *batch, m = one.shape
    return xp.stack([one, other], -1).reshape(*batch, 2 * m)


def doubled(x: Array, xp: Any) -> Num[Array, "... 2*m"]:
    """Each entry twice in a row."""
    return xp.repeat(x, 2, -1)


def _forbidding(
    cost: Array, unmatched: Array | None, problem: CapacityProblem, maximize: bool, xp: Any
) -> tuple[Num[Array, "..."], Bool[Array, "..."]]:
    """What a unit of the dummy row costs where it must not go, and whether that does not fit.

    For integers, more than any exchange with a row that is elsewhere can cost: if minima can be met
    at all, such a row exists.
    """
    batch = cost.shape[:-2]
    if jnp.issubdtype(cost.dtype, jnp.floating):
        return xp.full(batch, -np.inf if maximize else np.inf, cost.dtype), xp.zeros(batch, bool)
    row_mask, col_mask = problem.transport.row_mask, problem.transport.col_mask
    if row_mask is not None:
        cost = xp.where(row_mask[..., :, None], cost, 0)
        unmatched = None if unmatched is None else xp.where(row_mask, unmatched, 0)
    if col_mask is not None:
        cost = xp.where(col_mask[..., None, :], cost, 0)
    least, most = cost.min((-2, -1), initial=0), cost.max((-2, -1), initial=0)
    if unmatched is not None:
        least = xp.minimum(least, unmatched.min(-1, initial=0))
        most = xp.maximum(most, unmatched.max(-1, initial=0))
    too_wide = most > np.iinfo(cost.dtype).max - 1 + least
    never = xp.where(too_wide, 0, most) - xp.where(too_wide, 0, least) + 1
    return (-never if maximize else never).astype(cost.dtype), too_wide


# ---------------------------------------------------------------------------------------------
# Its result


def _duals(
    res: Transport, problem: CapacityProblem, units: Units, xp: Any
) -> tuple[Float[Array, "... n"], Float[Array, "... m"]]:
    """Shifted so that the dual of the dummy, if it has mass, becomes 0."""
    n = problem.transport.supply.shape[-1]
    u, of_row = res.row_dual[..., :n], res.row_dual[..., n:]
    v, of_col = res.col_dual[..., :-1], res.col_dual[..., -1:]
    if problem.unmatched_cost is None:
        of_col = xp.where(units.of_rows > units.of_cols, of_col, 0)
        of_col = xp.where(units.of_rows < units.of_cols, -of_row, of_col)
        of_row = -of_col
    u, v = shift_duals(u, of_col, xp), shift_duals(v, of_row, xp)
    if units.least is not None:
        v = xp.where(units.least > 0, v[..., 0::2], v[..., 1::2])
    row_mask, col_mask = problem.transport.row_mask, problem.transport.col_mask
    u = u if row_mask is None else xp.where(row_mask, u, 0)
    v = v if col_mask is None else xp.where(col_mask, v, 0)
    return u, v


def _counts(col4row: Int[Array, "... n"], m: int, xp: Any) -> Int[Array, "... m"]:
    """How many rows each column has."""
    batch = col4row.shape[:-1]
    if xp is np:
        first = np.arange(int(np.prod(batch, dtype=np.int64)), dtype=np.int64) * m
        at = (col4row + first.reshape(*batch, 1))[col4row >= 0]
        counts = np.bincount(at, minlength=len(first) * m)
        return counts.reshape(*batch, m).astype(np.int32)  # type: ignore[return-value]

    def count(cols: Array) -> Array:
        return jnp.zeros(m, jnp.int32).at[jnp.where(cols < 0, m, cols)].add(1, mode="drop")

    # A batch that is divided over devices stays so under `vmap`.
    for _ in batch:
        count = jax.vmap(count)
    return count(col4row)


def _merged(
    rows: Array, cols: Array, mass: Array, own: Bool[Array, "... k"], size: int, xp: Any
) -> tuple[Array, Array, Array]:
    """The `size` first own entries, with the two parts of a column as one."""

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
    pairs = (xp.where(own, x, -1).astype(np.int32) for x in (rows, cols))
    return *pairs, xp.where(own, mass, 0).astype(np.int32)
