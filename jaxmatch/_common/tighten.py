"""Computes duals with more digits than a result holds, for checks outside of a trace.

The duals of a result are rounded to its dtype, or to the grid of a solver. An answer is optimal if
and only if some duals are tight on its pairs: u_i + v_j = C_ij there, and u_i + v_j ≤ C_ij
elsewhere. The Bellman-Ford algorithm finds such duals near the given ones, along pairs that are
almost tight. These duals need not be trusted: the check computes their gap as for any others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

import numpy as np


# Gaps above this multiple of the rounded magnitudes are not due to rounding.
WORTH_IT = 1e-6
# For plans, relative to masses times the greatest cost, which determines the solver's grid.
WORTH_IT_ON_GRIDS = 1e-4

_EPS = float(np.finfo(np.float64).eps)
_MOST_PAIRS = 1 << 22
_MOST_STEPS = 50_000_000  # limit on updates of duals


OnHost: TypeAlias = Any  # a NumPy array; `Any` for type checkers


class Pairs(NamedTuple):
    """Rows, columns and costs (to minimise) of some pairs."""

    row: OnHost
    col: OnHost
    cost: OnHost


# A block is the pairs of some rows, or the first row and a matrix of the costs from there on.
Blocks: TypeAlias = Iterable[Pairs | tuple[int, OnHost]]


class Stays(NamedTuple):
    """What may stay unmatched: pairs with a dummy last column, and with a dummy last row."""

    price: OnHost  # the cost of each row with the last column; +inf: there is no such pair
    left: OnHost  # rows that are paired with the last column
    capped: OnHost  # columns that may be paired with the last row, at cost 0
    room: OnHost  # columns that are paired with the last row
    dual: Any = 0.0  # the dual of the last column
    tied: bool = True  # whether the last row and the last column are a pair


def tightened(
    blocks: Blocks,
    own: Pairs,
    least: OnHost,
    v: OnHost,
    stays: Stays | None,
) -> OnHost | None:
    """Column duals near v that are tight on the pairs `own`, then the dual of the last column.

    `least`: the least cost − v_j of each row. Returns None if there are no such duals, or if too
    many pairs are almost tight.
    """
    n, m, none = len(least), len(v), np.zeros(0, int)
    more = Pairs(none, none, none)
    v, least = np.append(v, 0 if stays is None else stays.dual), np.append(least, np.inf)
    if stays is not None:
        last = Pairs(np.array([n]), np.array([m]), np.zeros(1)) if stays.tied else more
        may = np.isfinite(stays.price)
        more = join(_with_last_col(may, stays.price), _with_last_row(stays.capped, n), last)
        left, room = _with_last_col(stays.left, stays.price), _with_last_row(stays.room, n)
        own = join(own, left, room, last)
        np.minimum.at(least, more.row, more.cost - v[more.col])
    slack = own.cost - v[own.col] - least[own.row]
    most = 4 * slack[np.isfinite(slack)].sum()
    limit = _highest(n + 1, own, v) + most
    near = _near(blocks, v[:m], limit)
    return None if near is None else _falling(n + 1, own, join(near, more), v, most)


def join(*pairs: Pairs) -> Pairs:
    return Pairs(*(np.concatenate(parts) for parts in zip(*pairs, strict=True)))


def _with_last_col(rows: OnHost, price: OnHost) -> Pairs:
    row = np.flatnonzero(rows)
    return Pairs(row, np.full(len(row), -1), price[row])


def _with_last_row(cols: OnHost, n: int) -> Pairs:
    col = np.flatnonzero(cols)
    return Pairs(np.full(len(col), n), col, np.zeros(len(col)))


def _highest(rows: int, own: Pairs, v: OnHost) -> OnHost:
    """The greatest cost − v_j of each row's pairs in `own`; −inf for a row without pairs."""
    u = np.full(rows, -np.inf)
    np.maximum.at(u, own.row, own.cost - v[own.col])
    return u


def _near(blocks: Blocks, v: OnHost, limit: OnHost) -> Pairs | None:
    """The pairs whose cost − v_j is at most the limit of their row."""
    found, count = [Pairs(np.zeros(0, int), np.zeros(0, int), np.zeros(0))], 0
    for block in blocks:
        if isinstance(block, Pairs):
            close = block.cost - v[block.col] <= limit[block.row]
            found.append(Pairs(*(x[close] for x in block)))
        else:
            first, cost = block
            row, col = np.nonzero(cost - v <= limit[first : first + len(cost), None])
            found.append(Pairs(row + first, col, cost[row, col]))
        count += len(found[-1].row)
        if count > _MOST_PAIRS:
            return None
    return join(*found)


def _falling(rows: int, own: Pairs, near: Pairs, v: OnHost, most: float) -> OnHost | None:
    """The greatest column duals up to v that are tight on the pairs `own`.

    None if a dual falls by more than `most`: then no such duals exist.
    """
    least, steps = v - most, 0
    while steps < _MOST_STEPS:
        u = _highest(rows, own, v)[near.row]
        lower, dual, now = v.copy(), near.cost - u, v[near.col]
        # Skip rounding errors, by which duals would fall forever around a cycle of tight pairs.
        falls = now - dual > _EPS * (np.abs(u) + np.abs(now))
        np.minimum.at(lower, near.col[falls], dual[falls])
        if (lower == v).all():
            return v
        if (lower < least).any():
            return None
        v, steps = lower, steps + len(near.col) + len(own.col)
    return v
