"""Checks assignments with capacities and a limit for each pair, as flows.

It shares no code with the solvers, so that it does not repeat their errors. The matrix gets a
border. One more row brings to each column what of its capacity is unused, at most the capacity
minus the minimum, and one more column takes what rows do not use. Prices are costs of the border.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jaxmatch._assignment.capacity_problem import CapacityProblem
from jaxmatch._assignment.certificate import AssignmentCheck
from jaxmatch._common.promotion import common_dtype
from jaxmatch._common.proof import add_at, module_of
from jaxmatch._common.typing import Array, Bool, Int, Num
from jaxmatch._sparse_transport.check import check_one
from jaxmatch._sparse_transport.problem import SparseTransportProblem
from jaxmatch._sparse_transport.result import SparseTransport
from jaxmatch._transport.check_masses import Entries, left_of
from jaxmatch._transport.check_plan import are_different, existing, in_range
from jaxmatch._transport.limited_check import every_pair
from jaxmatch._transport.problem import TransportProblem


_ENDLESS = 2**31 - 1
_MOST_UNITS = 2**30  # so that sums fit into int32


def check_limited(problem: CapacityProblem, claim: Any, *, maximize: bool) -> AssignmentCheck:
    """Checks the `Claim` for one problem."""
    own, (rows, cols) = problem.transport, existing(problem.transport)
    assert isinstance(own, TransportProblem)
    assert own.limit is not None
    xp, (n, m), there = module_of(own.supply), own.cost.shape, rows[:, None] & cols[None]
    entries, valid = _entries(claim, n, m)
    of_row, of_col, fits = _capacities(problem, rows, cols)
    left, of_rows_fit = left_of(entries.mass, entries.i, of_row)
    room, of_cols_fit = left_of(entries.mass, entries.j, of_col)
    valid &= fits & of_rows_fit & of_cols_fit

    # Limits of the border: of its column, and of its row.
    least = xp.zeros_like(of_col) if problem.col_minimum is None else problem.col_minimum
    spare = of_col - xp.where(cols, xp.maximum(least, 0), 0)
    valid &= (spare >= 0).all()
    endless, corner = xp.full_like(left, _ENDLESS), xp.zeros((1,), np.int32)
    if problem.unmatched_cost is None:
        all_rows, all_cols = (left == 0).all(), (room == 0).all()
        valid &= all_rows | all_cols
        endless = xp.where(all_rows, 0, endless)
        spare = xp.where(all_cols, 0, spare)
    else:
        corner = corner + _ENDLESS
    moved = xp.where(corner > 0, entries.mass.sum(dtype=np.int32), 0)

    cost, sane = _costs(problem, there, maximize)
    size = n * m
    mass = add_at(size, entries.i * np.int32(m) + entries.j, entries.mass).reshape(n, m)
    limit = xp.where(there, own.limit, 0)

    def dual(x: Array, exists: Array) -> Array:
        x = xp.where(exists, -x if maximize else x, xp.zeros_like(x))
        return xp.concatenate([x, xp.zeros((1,), x.dtype)])

    def total(x: Array, more: Array) -> Array:
        return x.sum(dtype=np.int32) + more

    pairs = SparseTransportProblem(
        cost=cost,
        supply=xp.concatenate([of_row, total(room, moved)]),
        demand=xp.concatenate([of_col, total(left, moved)]),
        limit=_bordered(limit, endless, spare, corner),
    )
    result = SparseTransport(
        mass=_bordered(mass, left, room, moved),
        row_dual=dual(claim.row_dual, rows),
        col_dual=dual(claim.col_dual, cols),
        row_side=xp.zeros((n + 1,), bool),
        col_side=xp.zeros((m + 1,), bool),
        **dict.fromkeys(("cost", "gap", "status")),  # type: ignore[arg-type]
    )
    graph = every_pair(n + 1, m + 1, xp)
    check = check_one(graph, pairs, result, tolerance=0.0, rounded=True)
    valid &= check.valid & sane
    gap = xp.where(valid, check.gap, xp.full_like(check.gap, xp.inf))
    return AssignmentCheck(valid=valid, optimal=valid & check.optimal, gap=gap)


def _entries(claim: Any, n: int, m: int) -> tuple[Entries, Bool[Array, ""]]:
    """The pairs that are used, and whether they are different pairs in range."""
    xp, used = module_of(claim.times), claim.times > 0
    inside = in_range(claim.rows, n) & in_range(claim.cols, m)
    valid, used = claim.consistent & (~used | inside).all(), used & inside
    i, j = xp.where(used, claim.rows, 0), xp.where(used, claim.cols, 0)
    entries = Entries(i, j, used, xp.where(used, claim.times, 0))
    return entries, valid & are_different(i, j, used)


def _capacities(
    problem: CapacityProblem, rows: Bool[Array, " n"], cols: Bool[Array, " m"]
) -> tuple[Int[Array, " n"], Int[Array, " m"], Bool[Array, ""]]:
    """The capacities, and whether their sums fit into int32.

    A side that pays nothing for what is unused cannot use more than the other side has.
    """
    xp, own = module_of(rows), problem.transport
    of_row, of_col = xp.where(rows, own.supply, 0), xp.where(cols, own.demand, 0)

    def most(other: Array) -> Array:
        """More than the sum of the other side, or than all that fits."""
        fits = xp.maximum(other, 0).astype(np.float32).sum() <= _MOST_UNITS
        return xp.where(fits, other.sum(dtype=np.int32), _MOST_UNITS) + 1

    cut_row, cut_col = most(of_col), most(of_row)
    if problem.unmatched_cost is None:
        of_row = xp.minimum(of_row, cut_row)
    if problem.unmatched_col_cost is None:
        of_col = xp.minimum(of_col, cut_col)
    sums = [xp.maximum(x, 0).astype(np.float32).sum() for x in (of_row, of_col)]
    return of_row, of_col, (sums[0] <= _MOST_UNITS) & (sums[1] <= _MOST_UNITS)


def _costs(
    problem: CapacityProblem, there: Bool[Array, "n m"], maximize: bool
) -> tuple[Num[Array, " k"], Bool[Array, ""]]:
    """The costs with the border, to be minimised, and whether each has a negative."""
    cost, r, s = problem.transport.cost, problem.unmatched_cost, problem.unmatched_col_cost  # type: ignore[union-attr]
    xp, (n, m) = module_of(cost), there.shape
    rows, cols = problem.transport.row_mask, problem.transport.col_mask
    r = xp.zeros((n,), cost.dtype) if r is None else r
    s = xp.zeros((m,), cost.dtype) if s is None else s
    r = r if rows is None else xp.where(rows, r, xp.zeros_like(r))
    s = s if cols is None else xp.where(cols, s, xp.zeros_like(s))
    dtype = common_dtype(cost, r, s)
    cost, r, s = (x.astype(dtype) for x in (xp.where(there, cost, xp.zeros_like(cost)), r, s))
    whole = _bordered(cost, r, s, xp.zeros((1,), dtype))
    if not maximize:
        return whole, xp.ones((), bool)
    if jnp.issubdtype(dtype, jnp.integer):
        return -whole, (whole > jnp.iinfo(dtype).min).all()
    return -whole, xp.ones((), bool)


def _bordered(x: Array, last_col: Array, last_row: Array, corner: Array) -> Num[Array, " k"]:
    """The matrix x with one more column and one more row, as pairs row by row."""
    xp = module_of(x)
    x = xp.concatenate([x, last_col[:, None]], 1)
    last = xp.concatenate([last_row, corner])
    return xp.concatenate([x.reshape(-1), last.astype(x.dtype)])
