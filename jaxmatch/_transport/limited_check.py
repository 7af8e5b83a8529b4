"""Checks plans with a limit for each pair, as flows from rows to columns.

It shares no code with the solvers, so a wrong result passes only if check and solver make the same
error.
"""

from __future__ import annotations

from functools import partial as bind
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from jaxmatch._common.proof import add_at, module_of, over_problems
from jaxmatch._common.result import Transport
from jaxmatch._common.typing import Array, Bool, Num
from jaxmatch._matching.graph import BipartiteGraph
from jaxmatch._min_cost_flow.problem import forgiven_to
from jaxmatch._sparse_transport.check import check_one
from jaxmatch._sparse_transport.problem import SparseTransportProblem, settled
from jaxmatch._sparse_transport.result import SparseTransport
from jaxmatch._transport.check_plan import TransportCheck, entries_of
from jaxmatch._transport.problem import TransportProblem


class _Claim(NamedTuple):
    """What a plan claims about one problem."""

    mass: Num[Array, "... e"]  # of all pairs, in the order of the matrix
    row_dual: Num[Array, "... n"]
    col_dual: Num[Array, "... m"]
    valid: Bool[Array, "..."]  # whether entries are different pairs of positive mass, or empty


def check_limited(
    problem: TransportProblem, unmatched_cost: Array | None, result: Transport, *, maximize: bool
) -> TransportCheck:
    """Checks a batch. Float masses of the result have the dtype of results."""
    (*batch, n, m), xp = problem.cost.shape, module_of(problem.cost)
    read = bind(_read, n=n, m=m, maximize=maximize)
    fields = (result.rows, result.cols, result.mass, result.row_dual, result.col_dual)
    claim = over_problems(read, tuple(batch), *fields)
    pairs, sane = _as_pairs(problem, unmatched_cost, maximize)
    tolerance = forgiven_to(n + m, problem.supply.dtype, problem.origin)
    pairs = settled(pairs, xp)._replace(origin=None)
    claim = claim._replace(valid=claim.valid & sane)
    return over_problems(bind(_check_one, tolerance=tolerance), tuple(batch), pairs, claim)


def _read(
    rows: Array,
    cols: Array,
    mass: Array,
    row_dual: Array,
    col_dual: Array,
    *,
    n: int,
    m: int,
    maximize: bool,
) -> _Claim:
    fields = dict.fromkeys(("cost", "gap", "status"))
    entries, valid = entries_of(
        Transport(rows, cols, mass, row_dual=row_dual, col_dual=col_dual, **fields),  # type: ignore[arg-type]
        n,
        m,
    )
    of_pairs = add_at(n * m, entries.i * np.int32(m) + entries.j, entries.mass)
    if maximize:
        row_dual, col_dual = -row_dual, -col_dual
    return _Claim(of_pairs, row_dual, col_dual, valid)


def _as_pairs(
    problem: TransportProblem, unmatched_cost: Array | None, maximize: bool
) -> tuple[SparseTransportProblem, Bool[Array, "..."]]:
    """The problem of the least total on the pairs of the matrix, and whether costs make sense.

    Masked pairs carry nothing.
    """
    xp, (*batch, n, m) = module_of(problem.cost), problem.cost.shape
    rows = xp.ones((*batch, n), bool) if problem.row_mask is None else problem.row_mask
    cols = xp.ones((*batch, m), bool) if problem.col_mask is None else problem.col_mask
    there = (rows[..., :, None] & cols[..., None, :]).reshape(*batch, n * m)
    assert problem.limit is not None

    def existing(x: Array, mask: Array) -> Array:
        x = x.reshape(mask.shape)
        return xp.where(mask, x, xp.zeros_like(x))

    cost, limit = existing(problem.cost, there), existing(problem.limit, there)
    price = None if unmatched_cost is None else existing(unmatched_cost, rows)
    sane = xp.ones(batch, bool)
    if maximize:
        for x in (cost, price):
            if x is not None and jnp.issubdtype(x.dtype, jnp.integer):
                sane &= (x > jnp.iinfo(x.dtype).min).all(-1)  # so that it has a negative
        cost, price = -cost, None if price is None else -price
    pairs = SparseTransportProblem(
        cost=cost,
        supply=existing(problem.supply, rows),
        demand=existing(problem.demand, cols),
        limit=limit,
        moved=problem.moved,
        unmatched_cost=price,
        row_mask=rows,
        col_mask=cols,
        origin=problem.origin,
    )
    return pairs, sane


def _check_one(
    problem: SparseTransportProblem, claim: _Claim, *, tolerance: float
) -> TransportCheck:
    xp, n, m = module_of(problem.cost), problem.supply.size, problem.demand.size
    rows, cols, mass = problem.row_mask, problem.col_mask, claim.mass
    assert rows is not None
    assert cols is not None
    assert problem.limit is not None
    # Float masses of a result have the dtype of results. What rounding explains depends on the
    # dtype in which supplies were given.
    within = (mass <= problem.limit).all()
    if jnp.issubdtype(mass.dtype, jnp.floating):
        mass = mass.astype(problem.supply.dtype)
    result = SparseTransport(
        mass=mass,
        row_dual=xp.where(rows, claim.row_dual, xp.zeros_like(claim.row_dual)),
        col_dual=xp.where(cols, claim.col_dual, xp.zeros_like(claim.col_dual)),
        row_side=xp.zeros((n,), bool),
        col_side=xp.zeros((m,), bool),
        **dict.fromkeys(("cost", "gap", "status")),  # type: ignore[arg-type]
    )
    check = check_one(every_pair(n, m, xp), problem, result, tolerance=tolerance, rounded=True)
    valid = check.valid & claim.valid & within
    gap = xp.where(valid, check.gap, xp.full_like(check.gap, xp.inf))
    return TransportCheck(valid=valid, optimal=valid & check.optimal, gap=gap)


def every_pair(n: int, m: int, xp: object) -> BipartiteGraph:
    """The graph of all pairs, row by row. The check reads no edges by column."""
    xp = np if xp is np else jnp
    ptr = xp.arange(n + 1, dtype=np.int32) * np.int32(m)
    ind = xp.tile(xp.arange(m, dtype=np.int32), n)
    none = xp.zeros(m + 1, np.int32)
    return BipartiteGraph(ptr, ind, none, ind[:0], xp.int32(n), xp.int32(m))  # type: ignore[arg-type]
