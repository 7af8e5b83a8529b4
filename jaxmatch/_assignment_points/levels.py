"""Assignments between many points in the plane or in space, by levels of resolution.

Groups of four neighbouring points, as single points at their means, are assigned first, and these
in the same way. The duals of the groups predict which pairs of points may be used. Only these pairs
are solved, as a sparse problem. Then all pairs are compared with the duals of the points, and those
that could improve the solution take part in the next solve, until there are none. So the result is
exact for all pairs, whatever the prediction was worth.

Merigot (A multiscale approach to optimal transport, 2011) and Schmitzer (A sparse multiscale
algorithm for dense optimal transport, 2016) solve coarse problems first, too.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jaxmatch._assignment import native_large
from jaxmatch._assignment_points.curve import orders_along_curve
from jaxmatch._assignment_points.level_arrays import first_false, put
from jaxmatch._assignment_points.nearest import nearest
from jaxmatch._assignment_points.pricing import (
    Platform,
    by_rank,
    most_excess,
    solve_level,
    window,
)
from jaxmatch._common.promotion import module_of
from jaxmatch._common.result import Assignment, result_float
from jaxmatch._common.status import Status
from jaxmatch._common.typing import Array, Float, Int


_MOST_DIMENSIONS = 3  # as in ffi/nearest/problem.h
_GROUP = 4  # points
_DENSE = {"cpu": 1024, "cuda": 4096}  # at most this many points are assigned with all pairs
_COARSE_SOLVES, _COARSE_GAP = 10, 2.0**-10  # of each level but the last
_MOST_SOLVES, _GAP = 48, 2.0**-36  # of the last level; the gap as a part of the cost
NAME = "levels"  # of the method
_LEAST = 1025  # points
_PAYS = {"cpu": 4000, "cuda": 20_000}  # points from which on this pays
_MOST_RATIO = 32  # of the longer side to the shorter one
_MOST = (1 << 24) - 1  # points of a side
TAKES = f"from {_LEAST} to {_MOST} points a side, of which one is at most {_MOST_RATIO} times "
TAKES += f"longer than the other, in up to {_MOST_DIMENSIONS} dimensions"


def fit(n: int, m: int, dims: int) -> bool:
    """Whether `solve` takes problems of this size."""
    few, many = sorted((n, m))
    return 0 < dims <= _MOST_DIMENSIONS and _LEAST <= few and many <= min(_MOST_RATIO * few, _MOST)


def pay(n: int, m: int, dims: int, platform: Platform) -> bool:
    """Whether `solve` takes such problems, and is faster than a solver that uses all pairs."""
    return fit(n, m, dims) and min(n, m) >= _PAYS[platform]


def with_status(res: Assignment, solved: Array) -> Assignment:
    """The result with the status that its gap asks for, where no other method solves the problem.

    A sparse problem that has no solution says nothing about all pairs: cost and gap are infinite.
    """
    xp = module_of(res.col4row)
    found = res.status == Status.OPTIMAL
    failed = (res.status == Status.INVALID_COST) | (res.status == Status.INTERRUPTED)

    def field(a: Array) -> Array:
        return xp.where(found, a, -1 if jnp.issubdtype(a.dtype, jnp.integer) else xp.nan)

    status = xp.where(found & solved, Status.OPTIMAL, Status.TIME_LIMIT)
    status = xp.where(failed, res.status, status).astype(res.status.dtype)
    unknown = found | failed
    cost, gap = (xp.where(unknown, field(a), xp.inf) for a in (res.cost, res.gap))
    return jax.tree.map(field, res).replace(status=status, cost=cost, gap=gap)


def solve(
    x: Float[Array, "n d"],
    y: Float[Array, "m d"],
    *,
    metric: str,
    platform: Platform,
) -> tuple[Assignment, Array]:
    """The assignment, and whether it is optimal: if not, its gap is that of the last solve.

    Computes in 64 bits, whatever the configuration. No point may be masked. Arrays of NumPy are
    solved on this host, and nothing is compiled.
    """
    xp, real = module_of(x), result_float()
    with jax.enable_x64(True):
        few, many = (x, y) if len(x) <= len(y) else (y, x)
        res, solved = _solve(few, many, metric, platform)
        gap = res.gap.astype(real)
        gap = xp.where(
            gap.astype(res.gap.dtype) < res.gap, xp.nextafter(gap, xp.asarray(xp.inf, real)), gap
        )
        cost, row_dual, col_dual = (a.astype(real) for a in (res.cost, res.row_dual, res.col_dual))
        res = res.replace(cost=cost, row_dual=row_dual, col_dual=col_dual, gap=gap)
        if len(x) > len(y):
            res = res.replace(
                col4row=res.row4col,
                row4col=res.col4row,
                row_dual=res.col_dual,
                col_dual=res.row_dual,
            )
    return res, solved


def _solve(x: Array, y: Array, metric: str, platform: Platform) -> tuple[Assignment, Array]:
    xp, orders = module_of(x), orders_along_curve(x, y)
    levels = [(x[orders[0]], y[orders[1]])]
    while len(levels) == 1 or len(levels[-1][0]) > _DENSE[platform]:
        x, y = levels[-1]
        levels.append((_means(x), _means(y)))
    res = _by_all_pairs(*levels[-1], metric)
    col4row, row_dual = res.col4row, res.row_dual
    state: Any = None
    for level in reversed(range(len(levels) - 1)):
        coarse, (x, y) = levels[level + 1][0], levels[level]
        pair = _pairs_of_groups(col4row, *map(len, (x, y, levels[level + 1][1])))
        price = _extended(coarse, row_dual, y, metric)
        if len(x) < len(y):  # then columns stay free, at the price 0
            price = xp.minimum(price, 0)
        stop = (_COARSE_SOLVES, _COARSE_GAP) if level else (_MOST_SOLVES, _GAP)
        state = solve_level(x, y, pair, price, metric, platform, *stop)
        col4row, row_dual = state.pair, state.best.row
    # The duals of a row are rounded to half of the last place of a price.
    rounding = sum(xp.abs(a).sum() for a in state.best) * 2.0**-52
    gap = state.excess + state.res.gap + rounding
    res = state.res.replace(row_dual=state.best.row, col_dual=state.best.col, gap=gap)
    return _in_given_order(res, *orders), state.excess <= most_excess(state, _GAP)


def _means(points: Array) -> Array:
    """The means of neighbouring points. A last group that is not full has none."""
    count = len(points) // _GROUP
    return points[: count * _GROUP].reshape(count, _GROUP, -1).mean(1)


def _by_all_pairs(x: Array, y: Array, metric: str) -> Assignment:
    xp = module_of(x)
    res, _ = native_large.large(
        x.T, None, None, maximize=False, method="core", col_points=y.T, metric=metric
    )
    rank = xp.arange(len(x), dtype=xp.int32)
    solved = res.status == Status.OPTIMAL
    return res.replace(
        col4row=xp.where(solved, res.col4row, rank), row_dual=xp.where(solved, res.row_dual, 0)
    )


def _pairs_of_groups(group4row: Array, n: int, m: int, groups: int) -> Int[Array, " n"]:
    """A column for each row, no two alike: points of a group are paired with those of its pair."""
    xp = module_of(group4row)
    of_group = xp.arange(_GROUP, dtype=xp.int32)
    pairs = (group4row[:, None] * _GROUP + of_group[None]).ravel()
    taken = put(xp.zeros(groups + 1, bool), group4row, True)
    # The first group without a pair, or the points after the last group, are enough for the rest.
    spare = first_false(taken) * _GROUP
    return xp.concatenate([pairs, spare + of_group[: n - len(pairs)]])


def _extended(x: Array, row_dual: Array, y: Array, metric: str) -> Array:
    """The prices of columns y that the duals of rows x allow."""
    xp = module_of(x)
    near = window(by_rank(len(y), len(x), xp), 8, len(x))
    price = nearest(y, x, row_dual, near, 1, metric).reduced
    return xp.where(xp.isfinite(price), price, 0)


def _in_given_order(res: Assignment, rows: Array, cols: Array) -> Assignment:
    xp = module_of(rows)

    def back(values: Array, order: Array) -> Array:
        return put(xp.zeros_like(values), order, values)

    def named(pairs: Array, order: Array) -> Array:
        return xp.where(pairs < 0, -1, order[xp.maximum(pairs, 0)])

    return res.replace(
        col4row=back(named(res.col4row, cols), rows),
        row4col=back(named(res.row4col, rows), cols),
        row_dual=back(res.row_dual, rows),
        col_dual=back(res.col_dual, cols),
    )
